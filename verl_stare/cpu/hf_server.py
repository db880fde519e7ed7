"""The `hf` rollout's server: verl's interface to a transformers model in one actor."""

from __future__ import annotations

import asyncio
from typing import Any

import torch
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.tokenizer import normalize_token_ids
from verl.workers.config import HFModelConfig
from verl.workers.rollout.replica import TokenOutput

from verl_stare.cpu.batching import BatchQueue
from verl_stare.cpu.generation import Request, derive_seed, generate

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# What a request may ask for; any of these others would change the distribution in silence.
_HONOURED = {
    "ignore_eos",
    "logprobs",
    "max_new_tokens",
    "max_tokens",
    "repetition_penalty",
    "seed",
    "stop_token_ids",
    "temperature",
    "top_k",
    "top_p",
}


class HFServer:
    """The interface of verl's server actors (vLLMHttpServer), text only.

    Requests that arrive while a batch runs, or within a few milliseconds of each other, are
    generated together, at most `rollout.max_num_seqs` at a time.
    """

    def __init__(self, config: Any, model_config: Any, replica_rank: int) -> None:
        from transformers import AutoModelForCausalLM

        self.config = omega_conf_to_dataclass(config)
        self.model_config = omega_conf_to_dataclass(model_config, dataclass_type=HFModelConfig)
        self.replica_rank = replica_rank
        hf_config = self.model_config.hf_config
        # The weights come from the trainer before the first request, so none are read from disk.
        self.model = AutoModelForCausalLM.from_config(hf_config, attn_implementation="sdpa")
        self.model.to(_DTYPES[self.config.dtype]).eval()
        if self.config.max_model_len is None:
            self.config.max_model_len = hf_config.max_position_embeddings
        tokenizer = self.model_config.tokenizer
        self.pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        self.vocabulary = len(tokenizer)
        self.stop = _stop_ids(tokenizer, self.model_config.generation_config)
        self.global_steps: int | None = None
        self._unseeded = 0
        self._admitting = asyncio.Event()
        self._admitting.set()
        self._rejecting = False
        self._queue = BatchQueue(self._generate, self.config.max_num_seqs)

    # ---- what verl's replica and checkpoint engine call --------------------------------------
    async def launch_server(self) -> None:
        self._queue.start()

    def get_server_address(self) -> tuple[str, int]:
        return f"hf-replica-{self.replica_rank}", 0

    async def wake_up(self, tags: Any = None) -> None:
        return None

    async def sleep(self) -> None:
        await self._queue.drained()

    async def clear_kv_cache(self) -> None:
        return None

    async def release_kv_cache(self) -> None:
        return None

    async def resume_kv_cache(self) -> None:
        return None

    async def start_profile(self, **_: Any) -> None:
        return None

    async def stop_profile(self) -> None:
        return None

    async def set_global_steps(self, global_steps: int) -> None:
        self.global_steps = global_steps

    async def load_weights(self, references: list[Any]) -> None:
        """Copy a named state dict into the model.

        Args:
            references: one Ray object reference, in a list so that Ray does not resolve it.

        Raises:
            KeyError: a name is unknown, or a weight is missing.
        """
        state = await references[0]
        async with self._queue.idle:
            weights = dict(self.model.named_parameters(remove_duplicate=False))
            own = {**weights, **dict(self.model.named_buffers())}
            unknown = sorted(set(state) - set(own))
            if unknown:
                raise KeyError(f"weights that the rollout's model does not have: {unknown[:5]}")
            # Tied weights share storage, and come under one of their names.
            sent = {own[name].data_ptr() for name in state}
            missing = sorted(n for n, value in weights.items() if value.data_ptr() not in sent)
            if missing:
                raise KeyError(f"weights that the trainer did not send: {missing[:5]}")
            with torch.no_grad():
                for name, value in state.items():
                    own[name].copy_(value)

    async def abort_all_requests(
        self, reset_prefix_cache: bool = True, reject_request: bool = False
    ) -> dict[str, Any]:
        self._rejecting = reject_request
        self._admitting.clear()
        names = self._queue.abort()
        await self._queue.drained()
        return {"aborted_count": len(names), "request_ids": names}

    async def resume_generation(self) -> None:
        self._rejecting = False
        self._admitting.set()

    async def abort_request(
        self, request_id: str, reset_prefix_cache: bool = True
    ) -> dict[str, Any]:
        if self._queue.abort(request_id):
            return {"aborted": True, "request_id": request_id}
        return {"aborted": False, "request_id": request_id, "error": "not found"}

    async def generate(
        self,
        prompt_ids: Any,
        sampling_params: dict[str, Any],
        request_id: str,
        image_data: Any = None,
        video_data: Any = None,
        **_: Any,
    ) -> TokenOutput:
        """Generate one sequence; the arguments are those of verl's vLLM server.

        `sampling_params["seed"]` gives the request its own random stream.
        """
        if image_data or video_data:
            raise NotImplementedError("the hf rollout generates from text only")
        request = self._request(normalize_token_ids(prompt_ids), sampling_params)
        while not self._admitting.is_set():
            if self._rejecting:
                request.aborted = True
                return self._output(request, sampling_params)
            await self._admitting.wait()
        await self._queue.submit(request_id, request)
        return self._output(request, sampling_params)

    async def generate_many(self, calls: list[dict[str, Any]]) -> list[TokenOutput | BaseException]:
        """`generate` for many requests in one remote call, in the order of `calls`.

        A request that fails has its exception as its result, so that it fails no other.
        """
        outputs = [self.generate(**call) for call in calls]
        return await asyncio.gather(*outputs, return_exceptions=True)

    # ---- requests and results ---------------------------------------------------------------
    def _generate(self, requests: list[Request]) -> None:
        generate(self.model, requests, self.pad_id, self.vocabulary)

    def _request(self, prompt: list[int], sampling: dict[str, Any]) -> Request:
        unknown = sorted(set(sampling) - _HONOURED)
        if unknown or sampling.get("repetition_penalty", 1.0) != 1.0:
            raise NotImplementedError(
                f"the hf rollout does not know {unknown or 'repetition_penalty other than 1'}"
            )
        limit = self.config.max_model_len
        room = limit - len(prompt)
        if room < 1:
            raise ValueError(f"a prompt of {len(prompt)} tokens leaves no room in {limit}")
        wanted = sampling.get("max_tokens") or sampling.get("max_new_tokens")
        seed = sampling.get("seed")
        if seed is None:
            self._unseeded += 1
            seed = derive_seed(self.config.seed, self.replica_rank, self._unseeded)
        stop = frozenset(sampling.get("stop_token_ids") or ())
        if not sampling.get("ignore_eos", self.config.ignore_eos):
            stop |= self.stop
        return Request(
            prompt=prompt,
            new_tokens=max(1, min(wanted or self.config.response_length, room)),
            stop=stop,
            seed=int(seed),
            temperature=float(sampling.get("temperature", self.config.temperature)),
            top_p=float(sampling.get("top_p", 1.0)),
            top_k=int(sampling.get("top_k", -1)),
        )

    def _output(self, request: Request, sampling: dict[str, Any]) -> TokenOutput:
        return TokenOutput(
            token_ids=request.tokens,
            log_probs=request.log_probs if sampling.get("logprobs") else None,
            stop_reason="aborted" if request.aborted else "completed",
            num_preempted=0,
            extra_fields={"global_steps": self.global_steps, "num_cached_tokens": 0},
        )


def _stop_ids(tokenizer: Any, generation_config: Any) -> frozenset[int]:
    configured = getattr(generation_config, "eos_token_id", None)
    ids = configured if isinstance(configured, list | tuple) else [configured]
    return frozenset(token for token in [*ids, tokenizer.eos_token_id] if token is not None)
