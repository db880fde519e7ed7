"""The client of Sandbox Fusion, against a local server of the same API."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.sandbox.fusion_server import Server
from verl_stare.sandbox import Limits, Pool, SandboxUnavailable
from verl_stare.sandbox.fusion import FusionClient

LIMITS = Limits(wall_s=2, output=1 << 20)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    try:
        made = Pool(2)
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    with made, Server(made) as serving:
        yield serving
        serving.shutdown()


@pytest.fixture
def client(server: Server) -> Iterator[FusionClient]:
    server.faults.clear()
    server.requests.clear()
    with FusionClient(server.url, limits=LIMITS, size=2, attempts=3, first_wait_s=0.01) as made:
        yield made


@pytest.mark.parametrize(
    ("code", "status", "says"),
    [
        ("1 + 1", "ok", "2"),
        ("x = 1", "ok", "[no output; use print()]"),
        ("print('a')\n1 / 0", "error", "ZeroDivisionError"),
        ("print('\ud800')", "error", "surrogates not allowed"),
        ("import os\nos._exit(3)", "error", "[exited with code 3]"),
        ("print('a', flush=True)\nwhile True: pass", "timeout", "a\n[timed out after 2s]"),
        ("import ctypes\nctypes.string_at(0)", "killed", "[killed: SIGSEGV]"),
        ("#" * (2 << 20), "error", "at most 1048576 are allowed]"),
    ],
)
def test_the_same_results_as_a_pool(
    client: FusionClient, server: Server, code: str, status: str, says: str
) -> None:
    for run in (client, server.pool):
        result = run.run(code, Limits(wall_s=2, cpu_s=60))
        assert result.status == status
        assert says in result.text()
    assert {request["run_timeout"] for request in server.requests} <= {2}


@pytest.mark.parametrize("fault", ["drop", "nonsense", "SandboxError", 500, 502, 503, 504, 429])
def test_a_failure_of_the_server_is_tried_again(
    client: FusionClient, server: Server, fault: int | str
) -> None:
    server.faults += [fault, fault]
    result = client.run("1 + 1")
    assert (result.text(), result.attempts) == ("2", 3)
    server.faults += [fault] * 3
    result = client.run("1 + 1")
    assert result.status == "infrastructure"
    assert result.text().startswith("[the sandbox failed: ")
    assert result.attempts == 3
    assert client.run("1 + 1").ok


@pytest.mark.parametrize("fault", [302, 401, 404, 422])
def test_a_request_that_is_wrong_is_not_tried_again(
    client: FusionClient, server: Server, fault: int
) -> None:
    server.faults.append(fault)
    result = client.run("1")
    assert (result.status, result.attempts) == ("infrastructure", 1)
    assert result.text() == f"[the sandbox failed: {server.url}/run_code: HTTP {fault}]"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b'{"status": "Success", "run_result": {"status": "Finished", "execution_time": "abc"}}',
        b'{"status": "Success", "run_result": {"status": "Finished", "execution_time": [1]}}',
        b'{"status": "Success", "run_result": "Finished"}',
        b'"\xff\xfe"',
        b"[" * 50_000,
        b"7",
    ],
)
def test_an_answer_that_is_none(client: FusionClient, server: Server, answer: bytes) -> None:
    server.faults += [answer] * 3
    result = client.run("1")
    assert (result.status, result.attempts) == ("infrastructure", 3)


def test_a_server_that_is_not_there() -> None:
    with FusionClient("http://127.0.0.1:9", attempts=2, first_wait_s=0.01) as client:
        assert client.run("1").status == "infrastructure"
        with pytest.raises(RuntimeError, match=r"does not run code: .*127\.0\.0\.1:9"):
            client.warm_up()


def test_no_more_requests_at_once_than_allowed(client: FusionClient, server: Server) -> None:
    async def ask() -> list[str]:
        calls = (client.arun(f"import time\ntime.sleep(0.1)\n{n}") for n in range(8))
        return [result.text() for result in await asyncio.gather(*calls)]

    server.most = 0
    assert asyncio.run(ask()) == [str(n) for n in range(8)]
    assert server.most == 2


def test_more_output_than_allowed(client: FusionClient) -> None:
    result = client.run("print('x' * 99)", Limits(output=1024, wall_s=2))
    assert result.truncated == 0
    result = client.run("print('x' * 2_000)", Limits(output=1024, wall_s=2))
    assert (len(result.stdout), result.truncated) == (1024, 977)


@pytest.mark.parametrize(
    "options",
    [{"url": "host:80"}, {"url": "ftp://host"}, {"size": 0}, {"attempts": 0}, {"size": True}],
)
def test_wrong_settings(options: dict) -> None:
    with pytest.raises(ValueError, match=r"sandbox (url|size|attempts)=.*allowed is"):
        FusionClient(**{"url": "http://host", **options})
