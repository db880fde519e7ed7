"""The sandbox as a tool of verl's: `class_name: verl_stare.bridge.python_tool.PythonTool`."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
from typing import Any
from uuid import uuid4

from verl.tools.base_tool import BaseTool
from verl.tools.schemas import OpenAIFunctionToolSchema, ToolResponse

from verl_stare.sandbox import ExecutionResult, Pool, PoolSession, tiers
from verl_stare.sandbox.calls import without_fence
from verl_stare.sandbox.settings import ToolSettings

logger = logging.getLogger("verl_stare")

_SERVER_CONCURRENCY = 64


class PythonTool(BaseTool):
    """Runs the Python that a model writes, in the sandbox or on a Sandbox Fusion server.

    Made once in each agent loop worker. An instance (`create` to `release`) is a trajectory's where
    the agent loop is `stare_tool_agent`, and one call's in verl's own.
    """

    def __init__(
        self, config: dict[str, Any], tool_schema: OpenAIFunctionToolSchema | None
    ) -> None:
        """Raises:
        ValueError: a setting that is not allowed.
        SandboxUnavailable: no sandbox of the wanted tier holds on this node.
        """
        self.settings = ToolSettings.from_mapping(config)
        if tool_schema is None:
            raise ValueError("the Python tool needs a tool_schema; see presets/python_tool.yaml")
        super().__init__(config, tool_schema)
        parameters = self.tool_schema.function.parameters
        [self._argument] = parameters.required or ["code"]
        self._workers = 1
        self._backend: Any = None
        self._lock = threading.Lock()
        self._instances: dict[str, PoolSession | None] = {}
        self._tier = self.settings.tier
        if self.settings.url is None:
            # Now, so that a run stops before its first rollout.
            self._tier, _ = tiers.choose(self.settings.tier, self.settings.limits)
            logger.info("the Python tool runs code in the sandbox tier %s", self._tier)

    def share_node(self, workers: int) -> None:
        """Tell how many agent loop workers a node has, which share its concurrency."""
        self._workers = max(1, workers)

    @property
    def concurrency(self) -> int:
        """Calls at once in this worker."""
        of_node = self.settings.concurrency_per_node
        if of_node is None:
            cores = len(os.sched_getaffinity(0))
            of_node = _SERVER_CONCURRENCY if self.settings.url is not None else cores
        return max(1, of_node // self._workers)

    def backend(self) -> Any:
        """The pool or client, made when it is first used."""
        with self._lock:
            if self._backend is None:
                self._backend = self._made()
                atexit.register(self._backend.close)
            return self._backend

    def _made(self) -> Any:
        limits, size = self.settings.limits, self.concurrency
        if self.settings.url is None:
            return Pool(size, tier=self._tier, limits=limits)
        from verl_stare.sandbox.fusion import FusionClient

        return FusionClient(self.settings.url, size=size, limits=limits)

    async def create(
        self, instance_id: str | None = None, **kwargs: Any
    ) -> tuple[str, ToolResponse]:
        """Begin an instance."""
        instance_id = instance_id or uuid4().hex
        self._instances[instance_id] = None
        return instance_id, ToolResponse()

    async def execute(
        self, instance_id: str, parameters: dict[str, Any], **kwargs: Any
    ) -> tuple[ToolResponse, float, dict[str, Any]]:
        """Run the code of a call; there is no reward for it."""
        result = await self.run(instance_id, parameters)
        metrics = {"status": result.status, "wall_s": result.wall_s, "cpu_s": result.cpu_s}
        return ToolResponse(text=result.text()), 0.0, metrics

    async def run(self, instance_id: str, parameters: dict[str, Any]) -> ExecutionResult:
        """Run the code of a call."""
        code = parameters.get(self._argument) if isinstance(parameters, dict) else None
        if not isinstance(code, str):
            reason = f'[the tool {self.name} needs the argument "{self._argument}", a string]'
            return ExecutionResult("", "", "error", reason)
        code = without_fence(code)
        # Building the first jails takes a second, which the event loop does not have.
        backend = await asyncio.to_thread(self.backend)
        if not self.settings.stateful:
            return await backend.arun(code)
        session = self._instances.get(instance_id)
        if session is None:
            session = self._instances[instance_id] = backend.session()
        return await session.arun(code)

    async def release(self, instance_id: str, **kwargs: Any) -> None:
        """End an instance, and what it kept."""
        session = self._instances.pop(instance_id, None)
        if session is not None:
            await session.aclose()
