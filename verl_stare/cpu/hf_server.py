"""The `hf` rollout's server: an actor that gathers concurrent requests into batches."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import torch
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.tokenizer import normalize_token_ids
from verl.workers.config import HFModelConfig
from verl.workers.rollout.replica import TokenOutput

from verl_stare.cpu.generation import Request, derive_seed, generate

logger = logging.getLogger("verl_stare")

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_SETTLE_SECONDS = 0.005


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
        self._waiting: list[tuple[str, Request, asyncio.Future[None]]] = []
        self._running: list[tuple[str, Request, asyncio.Future[None]]] = []
        self._arrived = asyncio.Event()
        self._admitting = asyncio.Event()
        self._admitting.set()
        self._rejecting = False
        # Weights are never swapped under a running batch.
        self._model_lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    # ---- what verl's replica and checkpoint engine call --------------------------------------
    async def launch_server(self) -> None:
        self._task = asyncio.create_task(self._serve())

    def get_server_address(self) -> tuple[str, int]:
        return f"hf-replica-{self.replica_rank}", 0

    async def wake_up(self, tags: Any = None) -> None:
        return None

    async def sleep(self) -> None:
        await self._drained()

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
            KeyError: names that the model does not have.
        """
        state = await references[0]
        async with self._model_lock:
            own = dict(self.model.named_parameters(remove_duplicate=False))
            own.update(self.model.named_buffers())
            unknown = sorted(set(state) - set(own))
            if unknown:
                raise KeyError(f"weights that the rollout's model does not have: {unknown[:5]}")
            with torch.no_grad():
                for name, value in state.items():
                    own[name].copy_(value)

    async def abort_all_requests(
        self, reset_prefix_cache: bool = True, reject_request: bool = False
    ) -> dict[str, Any]:
        self._rejecting = reject_request
        self._admitting.clear()
        pending = self._waiting + self._running
        for _, request, _ in pending:
            request.aborted = True
        await self._drained()
        return {"aborted_count": len(pending), "request_ids": [name for name, _, _ in pending]}

    async def resume_generation(self) -> None:
        self._rejecting = False
        self._admitting.set()

    async def abort_request(
        self, request_id: str, reset_prefix_cache: bool = True
    ) -> dict[str, Any]:
        for name, request, _ in self._waiting + self._running:
            if name == request_id:
                request.aborted = True
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
        finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((request_id, request, finished))
        self._arrived.set()
        await finished
        return self._output(request, sampling_params)

    async def generate_many(self, calls: list[dict[str, Any]]) -> list[TokenOutput]:
        """`generate` for many requests in one remote call, in the order of `calls`."""
        return await asyncio.gather(*[self.generate(**call) for call in calls])

    # ---- batching ---------------------------------------------------------------------------
    def _request(self, prompt: list[int], sampling: dict[str, Any]) -> Request:
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

    async def _drained(self) -> None:
        while self._waiting or self._running:
            await asyncio.sleep(_SETTLE_SECONDS)

    async def _settled(self) -> None:
        """Wait until no further request arrives: a burst becomes one batch."""
        seen = 0
        while seen < len(self._waiting):
            seen = len(self._waiting)
            await asyncio.sleep(_SETTLE_SECONDS)

    async def _serve(self) -> None:
        while True:
            await self._arrived.wait()
            await self._settled()
            size = self.config.max_num_seqs
            self._running, self._waiting = self._waiting[:size], self._waiting[size:]
            if not self._waiting:
                self._arrived.clear()
            live = [request for _, request, _ in self._running if not request.aborted]
            error: Exception | None = None
            try:
                async with self._model_lock:
                    if live:
                        await asyncio.to_thread(
                            generate, self.model, live, self.pad_id, self.vocabulary
                        )
            except Exception as failure:
                # The callers get it; the server lives on for the next batch.
                logger.exception("generation failed")
                error = failure
            for _, _, finished in self._running:
                if finished.done():
                    continue
                if error is None:
                    finished.set_result(None)
                else:
                    finished.set_exception(RuntimeError(f"generation failed: {error!r}"))
            self._running = []


def _stop_ids(tokenizer: Any, generation_config: Any) -> frozenset[int]:
    configured = getattr(generation_config, "eos_token_id", None)
    ids = configured if isinstance(configured, list | tuple) else [configured]
    return frozenset(token for token in [*ids, tokenizer.eos_token_id] if token is not None)
