"""No answer may hang, crash, leak a process or keep memory."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rewards.test_pool import children
from verl_stare.rewards import compute_score, equivalent

TIME_LIMIT = 1.0
# After which a test is stuck, however busy the machine.
STUCK = 300

HOSTILE = {
    "tower of powers": "5^{5^{5^{5}}}",
    "factorial": "(10^9)!",
    "factorial of a literal": "1000000000!",
    "power of a sum": "(x+y+z)^{99999999}",
    "endless product": r"\prod_{k=1}^{10^9} k",
    "huge exponent": "1e999999999",
    "a megabyte of braces": "{" * 1_000_000,
    "boxes never closed": r"\boxed{" * 100_000,
    "boxes in boxes": r"\boxed{" * 100_000 + "}" * 100_000,
    "nested fractions": r"\frac{" * 10_000 + "1" + "}{2}" * 10_000,
    "nested fractions never closed": r"\frac{" * 10_000,
    "nested roots": r"\sqrt{" * 100 + "2" + "}" * 100,
    "nested parentheses": "(" * 5_000 + "1" + ")" * 5_000,
    "NULs": "\x00\x00\x00",
    "lone surrogates": "\ud800\udfff",
    "100,000 digits": "9" * 100_000,
    "a very long answer": "word " * 20_000,
    "commas": "," * 50_000,
    "signs": r"\pm" * 2_000,
    "equal signs": "=" * 1_000,
    "dollars": "$" * 50_000,
    "spaces": " " * 100_000 + "5",
    "matrices": r"\begin{pmatrix}" * 500,
    "tags": "<answer>" * 10_000,
    "reasoning": "<think>" * 10_000,
    "tools": "<interpreter>" * 10_000 + "</interpreter>",
    "code": "__import__('os').abort()",
    "units": "5" + r"\text{a} " * 60 + "!",
    "words": "5 " + "a b " * 90 + "!",
    "formulas never closed": r"answer:\(" * 1_000 + r"\(" * 4_000,
    "spaces and tabs": "5" + "\t\n" * 4_000 + "!",
    "a long name": "a" * 60 + "1=5",
    "a sentence as a name": "total number of ordered pairs (a,b) with a<10 = 5",
    "minus signs": "5 a" + " -1" * 30 + "!",
    "slashes": r"5 \text{a}" + " /" * 30 + "!",
    "dollars and spaces": "5" + " $" * 300 + "!",
    "empty": "",
}


def resident(pid: int) -> int:
    """Bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module", autouse=True)
def started() -> None:
    assert equivalent(r"\sqrt{8}", r"2\sqrt{2}").equal


@pytest.fixture(autouse=True)
def not_stuck() -> Iterator[None]:
    def stuck(*_: object) -> None:
        raise TimeoutError(f"not answered within {STUCK} s")

    before = signal.signal(signal.SIGALRM, stuck)
    signal.alarm(STUCK)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", HOSTILE)
def test_each_is_answered(kind: str) -> None:
    text = HOSTILE[kind]
    for response in (text, rf"\boxed{{{text}}}", f"Answer: {text}"):
        for gold in ("2", r"\sqrt{3}+x", r"\{1,2\}"):
            score = compute_score("x", response, gold, time_limit=TIME_LIMIT)
            assert score["acc"] == 0.0
            assert len(score["pred"]) <= 256
            score["pred"].encode()


def test_hostile_ground_truths_are_answered() -> None:
    for text in HOSTILE.values():
        assert set(compute_score("x", r"\boxed{2}", text, time_limit=TIME_LIMIT)) == {
            "score",
            "acc",
            "format",
            "pred",
            "timed_out",
        }


def test_no_process_is_left_and_memory_is_given_back() -> None:
    processes = children(os.getpid())
    before = sum(map(resident, [os.getpid(), *processes]))
    for round_ in range(3):
        for text in HOSTILE.values():
            # Another ground truth each time: what is remembered is not asked again.
            compute_score("x", rf"\boxed{{{text}}}", rf"\sqrt{{{round_ + 5}}}", time_limit=0.2)
    after = children(os.getpid())
    assert len(after) <= max(len(processes), 4)
    assert sum(map(resident, [os.getpid(), *after])) < before + (200 << 20)


def test_nothing_is_evaluated() -> None:
    marker = Path("/tmp/verl_stare_owned")
    marker.unlink(missing_ok=True)
    for code in (
        f"__import__('os').system('touch {marker}')",
        rf"\text{{__import__('os').system('touch {marker}')}}",
        f"exec(\"import os; os.system('touch {marker}')\")",
    ):
        for gold in ("2", "x+1", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"):
            compute_score("x", rf"\boxed{{{code}}}", gold)
            compute_score("x", r"\boxed{x+1}", code)
    assert not marker.exists()
