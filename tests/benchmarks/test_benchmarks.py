"""The benchmarks run, select what they should and stay within the memory they state."""

import pytest

from tests.benchmarks import batches, clock, driver, paired, references


def test_the_arithmetic_of_a_small_batch() -> None:
    figures = driver.arithmetic(batches.make(24, 100_000), rounds=1)
    assert figures["selected"] == figures["expected"] > 0
    # A chunk is a twentieth of so small a batch.
    assert figures["peak_arrays"] < 2
    assert set(figures["reused_memory"]) == set(figures["fresh_memory"])
    shares = figures["recovered_by_micro_batches"]
    assert 0 < shares["1"] <= shares["64"] == 1.0
    figures |= {"longest": 100_000, "trainer": {"verl": 1.0, "stare": 1.25, "added": 0.25}}
    assert "0.250 of verl's own added, 2.50 % of a step of 10 s" in driver.table(figures)


def test_the_padded_reference_selects_the_same_set() -> None:
    batch = batches.make(8, 50)
    padded = [batch.padded(values) for values in batch.flat.values()]
    weighted = references.padded_selection(*padded, top_fraction=0.1, amplify=2.0)
    whole = references.recovered(batch.surprisal, batch.advantages, batch.lengths, 8, 0.1)
    assert whole == 1.0
    assert int((weighted != padded[1]).sum()) == driver.arithmetic(batch, 1)["expected"]


def test_the_clock_calls_all_in_turn() -> None:
    calls: list[str] = []
    functions = {name: lambda name=name: calls.append(name) for name in "ab"}
    assert set(clock.interleaved(functions, 2, fresh_memory=True)) == {"a", "b"}
    assert calls == ["a", "b"] * 3


def test_paired_figures_are_medians_over_all_runs() -> None:
    step = dict.fromkeys(paired.PARTS, 0.1)
    seconds = {
        "grpo": [step | {"step": 1.0}] * 3,
        "stare": [step | {"step": s, "adv": 0.12} for s in (1.0, 1.02, 9.0)],
    }
    figures = paired._figures(seconds, pairs=1)
    assert figures["step_ratio"] == pytest.approx(1.02)
    assert figures["added_in_adv"] == pytest.approx(0.02)
    assert "STARE / GRPO: 1.020" in paired._table(figures)
