"""The grader's benchmark knows right from wrong by construction, and counts both kinds of error."""

from tests.benchmarks import grader
from tests.support.real_golds import Problem

SETS = {
    "a": [Problem("a", str(n), rf"It is \boxed{{{n}}}, so.") for n in range(20)],
    "b": [Problem("b", rf"\frac{{{n}}}{{7}}", "no box") for n in range(1, 7)],
}


def test_pairs_and_errors() -> None:
    pairs = grader.make_pairs(SETS, 60, seed=1)
    assert len(pairs) == 60
    right = sum(is_right for *_, is_right in pairs)
    assert 0 < right < 60
    # The solution's own box is opened: the only answer is the one at the end.
    assert all(response.count("boxed") <= 1 for response, *_ in pairs)

    def fails(response: str, gold: str) -> bool:
        if response != pairs[0][0]:
            raise ValueError
        return True

    assert grader.measure("fails", fails, pairs)["failed"] == 59

    always = grader.measure("always", lambda response, gold: True, pairs)
    assert (always["right_rejected"], always["wrong_accepted"]) == (0, 60 - right)
    never = grader.measure("never", lambda response, gold: False, pairs)
    assert (never["right_rejected"], never["wrong_accepted"]) == (right, 0)
    ours = grader.measure("verl_stare", grader.SCORERS["verl_stare"], pairs)
    assert (ours["right_rejected"], ours["wrong_accepted"], ours["failed"]) == (0, 0, 0)


def test_every_scorer_runs() -> None:
    pairs = grader.make_pairs(SETS, 6, seed=2)
    figures = {
        "pairs": 6,
        "right": 3,
        "first_call_seconds": 1.0,
        "scorers": {
            name: grader.measure(name, scorer, pairs) for name, scorer in grader.SCORERS.items()
        },
    }
    assert not any(row["failed"] for row in figures["scorers"].values())
    for name in grader.SCORERS:
        assert f"| {name} |" in grader.table(figures)
