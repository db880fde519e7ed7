"""A Sandbox Fusion server for tests: its API, a local pool behind it, and faults on demand."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from verl_stare.sandbox import Limits, Pool


class Server(ThreadingHTTPServer):
    """Attributes:
    faults: what the next requests meet, in their order: an HTTP code, `drop`, `nonsense`,
        `SandboxError`, or the bytes of an answer.
    requests: what was asked, in its order.
    most: requests that were served at once, at most.
    """

    daemon_threads = True

    def __init__(self, pool: Pool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pool = pool
        self.faults: list[int | str | bytes] = []
        self.requests: list[dict[str, Any]] = []
        self.now = self.most = 0
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests.append(request)
            fault = self.server.faults.pop(0) if self.server.faults else None
            self.server.now += 1
            self.server.most = max(self.server.most, self.server.now)
        try:
            self._answer(request, fault)
        finally:
            with self.server.lock:
                self.server.now -= 1

    def _answer(self, request: dict[str, Any], fault: int | str | bytes | None) -> None:
        if fault == "drop":
            self.close_connection = True
            self.connection.close()
        elif fault == "nonsense":
            self._send(200, b"<html>")
        elif fault == "SandboxError":
            self._send(200, {"status": fault, "message": "no place", "run_result": None})
        elif isinstance(fault, bytes):
            self._send(200, fault)
        elif isinstance(fault, int):
            self._send(fault, b"")
        elif self.path != "/run_code" or request["language"] != "python":
            self._send(404, b"")
        else:
            self._send(200, self._run(request))

    def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        limits = Limits(wall_s=request["run_timeout"], cpu_s=60)
        result = self.server.pool.run(request["code"], limits)
        late = result.status == "timeout"
        killed = result.signal is not None and not late
        number = getattr(__import__("signal"), result.signal) if killed else result.exit_code
        ran = {
            "status": "TimeLimitExceeded" if late else "Finished",
            "execution_time": result.wall_s,
            "return_code": None if late else -number if killed else number,
            "stdout": result.stdout,
            "stderr": result.stderr,
        }
        return {"status": "Success" if result.ok else "Failed", "message": "", "run_result": ran}

    def _send(self, code: int, answer: dict[str, Any] | bytes) -> None:
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
