"""Properties on random batches, and parity with an implementation by plain Python loops."""

import math
from fractions import Fraction
from random import Random

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from verl_stare.algo import ControllerState, Decision, decide, token_weights, weighted_advantages
from verl_stare.algo.micro_batch import micro_batch_weights
from verl_stare.algo.selection import selection_size
from verl_stare.algo.weights import high_quadrants
from verl_stare.config import QUADRANTS, StareConfig

# Few distinct values make ties; the special ones must neither select nor flip the gate.
VALUES = st.one_of(
    st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    st.floats(0, 20, width=32),
    st.sampled_from([math.nan, math.inf, -math.inf]),
)
# The smallest numbers of all are lost by any weight below 1.
ADVANTAGE = st.one_of(
    st.sampled_from([-1.0, 0.0, 1.0]),
    st.floats(-3, 3, width=32, allow_subnormal=False),
    st.just(math.nan),
)
TOKEN = st.tuples(VALUES, ADVANTAGE, st.booleans(), VALUES)
ROWS = st.lists(st.lists(TOKEN, min_size=1, max_size=6), min_size=1, max_size=8)
SHARED = {
    "target_entropy": st.floats(0, 3),
    "top_fraction": st.one_of(st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.floats(0, 1)),
}
NAMED = st.builds(
    StareConfig,
    variant=st.sampled_from(["O1", "C2", "O4"]),
    amplify=st.floats(1, 3),
    attenuate=st.floats(0.05, 1),
    **SHARED,
)
CUSTOM = st.builds(
    StareConfig,
    variant=st.just("custom"),
    quadrant_weights=st.dictionaries(
        st.sampled_from(QUADRANTS), st.floats(0.05, 3), min_size=1, max_size=4
    ),
    **SHARED,
)
CONFIG = st.one_of(NAMED, CUSTOM)
INPUTS = ("surprisal", "advantages", "response_mask")
Token = tuple[float, float, bool, float]
Rows = list[list[Token]]


def tensors(rows: Rows) -> dict[str, torch.Tensor]:
    tokens = [token for row in rows for token in row]
    surprisal, advantages, mask, entropy = zip(*tokens, strict=True)
    return {
        "surprisal": torch.tensor(surprisal),
        "advantages": torch.tensor(advantages),
        "response_mask": torch.tensor(mask).long(),
        "entropy": torch.tensor(entropy),
    }


def decide_on(config: StareConfig, batch: dict[str, torch.Tensor]) -> Decision:
    return decide(config, ControllerState.initial(config), **batch)[0]


def inputs(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: batch[name] for name in INPUTS}


def high(decision: Decision, batch: dict[str, torch.Tensor]) -> tuple[np.ndarray, np.ndarray]:
    surprisal, advantages, mask = (batch[name].numpy() for name in INPUTS)
    return high_quadrants(decision, surprisal, advantages, mask != 0)


def weigh(config: StareConfig, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return token_weights(decide_on(config, batch), **inputs(batch))


def reference(config: StareConfig, rows: Rows) -> list[float]:
    """The same weights, one token at a time, with sorting and Python's exact arithmetic."""
    tokens = [token for row in rows for token in row]
    # An entropy is rounded as single precision rounds it with 16 added.
    entropies = [
        Fraction(float(np.float32(t[3]) + np.float32(16))) - 16
        for t in tokens
        if t[2] and math.isfinite(t[3])
    ]
    gate_open = bool(entropies) and sum(entropies) / len(entropies) < config.target_entropy
    table = {
        "O1": {"positive_high": config.amplify},
        "O4": {"negative_high": config.attenuate},
        "C2": {"positive_high": config.amplify, "negative_high": config.attenuate},
        "custom": dict(config.quadrant_weights or {}),
    }[config.variant]

    def sign(token: Token) -> str:
        surprisal, advantage, response, _ = token
        if not response or not math.isfinite(surprisal):
            return ""
        return "positive" if advantage > 0 else "negative" if advantage < 0 else ""

    cuts = {}
    for side in ("positive", "negative"):
        ranked = sorted((t[0] for t in tokens if sign(t) == side), reverse=True)
        size = 0
        if ranked and config.top_fraction > 0:
            size = max(1, math.ceil(Fraction(str(config.top_fraction)) * len(ranked)))
        # A tied group that crosses the cut stays out.
        while 0 < size < len(ranked) and ranked[size - 1] == ranked[size]:
            size -= 1
        cuts[side] = ranked[size - 1] if size else math.inf

    def weight(token: Token) -> float:
        side = sign(token)
        if not side or not gate_open:
            return 1.0
        return table.get(f"{side}_{'high' if token[0] >= cuts[side] else 'low'}", 1.0)

    return [weight(token) for token in tokens]


@given(rows=ROWS, config=CONFIG)
@settings(max_examples=500, deadline=None)
def test_parity_with_plain_loops(rows: Rows, config: StareConfig) -> None:
    expected = torch.tensor(reference(config, rows), dtype=torch.float32)
    assert torch.equal(weigh(config, tensors(rows)), expected)


@given(rows=ROWS, config=CONFIG)
@settings(max_examples=300, deadline=None)
def test_the_drivers_fast_way_and_the_actors_agree(rows: Rows, config: StareConfig) -> None:
    batch = tensors(rows)
    decision = decide_on(config, batch)
    if decision.changes_nothing:
        assert (token_weights(decision, **inputs(batch)) == 1).all()
        return
    expected = token_weights(decision, **inputs(batch)) * batch["advantages"]
    actual = weighted_advantages(decision, **inputs(batch))
    assert torch.equal(actual.nan_to_num(7), expected.nan_to_num(7))


@given(rows=ROWS, config=CONFIG, random=st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_rows_in_any_order_get_the_same_weights(
    rows: Rows, config: StareConfig, random: Random
) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)
    lengths = [len(row) for row in rows]
    straight = weigh(config, tensors(rows)).split(lengths)
    shuffled = weigh(config, tensors([rows[i] for i in order]))
    parts = shuffled.split([lengths[i] for i in order])
    for place, row in enumerate(order):
        assert torch.equal(parts[place], straight[row])


@given(rows=ROWS, config=CONFIG, width=st.integers(6, 9), garbage=VALUES)
@settings(max_examples=300, deadline=None)
def test_flat_padded_and_jagged_batches_get_the_same_weights(
    rows: Rows, config: StareConfig, width: int, garbage: float
) -> None:
    flat_batch = tensors(rows)
    flat_weights = weigh(config, flat_batch)
    lengths = torch.tensor([len(row) for row in rows])
    present = torch.arange(width) < lengths.unsqueeze(1)

    def padded(values: torch.Tensor, fill: float) -> torch.Tensor:
        out = torch.full(present.shape, fill, dtype=values.dtype)
        return out.masked_scatter(present, values)

    fills = {"surprisal": garbage, "advantages": 1.0, "response_mask": 0, "entropy": garbage}
    padded_batch = {name: padded(flat_batch[name], fills[name]) for name in fills}
    padded_weights = weigh(config, padded_batch)
    assert torch.equal(padded_weights[present], flat_weights)
    assert (padded_weights[~present] == 1).all()

    offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])
    jagged_batch = {
        name: torch.nested.nested_tensor_from_jagged(values, offsets=offsets)
        for name, values in flat_batch.items()
    }
    assert torch.equal(weigh(config, jagged_batch).values(), flat_weights)


@given(rows=ROWS, config=CONFIG, parts=st.integers(1, 5))
@settings(max_examples=200, deadline=None)
def test_the_decision_applies_alike_to_every_micro_batch(
    rows: Rows, config: StareConfig, parts: int
) -> None:
    batch = tensors(rows)
    decision = decide_on(config, batch)
    whole = token_weights(decision, **inputs(batch))
    pieces = [
        token_weights(decision, *piece)
        for piece in zip(*[batch[name].chunk(parts) for name in INPUTS], strict=True)
    ]
    assert torch.equal(torch.cat(pieces), whole)


@given(rows=ROWS, config=CONFIG)
@settings(max_examples=300, deadline=None)
def test_the_sign_of_every_advantage_is_kept(rows: Rows, config: StareConfig) -> None:
    batch = tensors(rows)
    decision = decide_on(config, batch)
    for function in (token_weights, micro_batch_weights):
        weights = function(decision, **inputs(batch))
        assert (weights > 0).all()
        signs = (batch["advantages"] * weights).sign()
        assert torch.equal(signs.nan_to_num(7), batch["advantages"].sign().nan_to_num(7))


@given(rows=ROWS, config=CONFIG, garbage=TOKEN)
@settings(max_examples=300, deadline=None)
def test_masked_tokens_never_matter(rows: Rows, config: StareConfig, garbage: Token) -> None:
    replaced = [[t if t[2] else (*garbage[:2], False, garbage[3]) for t in row] for row in rows]
    before, after = tensors(rows), tensors(replaced)
    assert repr(decide_on(config, before)) == repr(decide_on(config, after))
    weights = weigh(config, after)
    assert torch.equal(weights, weigh(config, before))
    assert (weights[after["response_mask"] == 0] == 1).all()


NOTHING_TO_DO = st.one_of(
    st.builds(StareConfig, variant=st.sampled_from(["O1", "C2", "O4"]), target_entropy=st.just(0)),
    st.builds(
        StareConfig,
        variant=st.sampled_from(["O1", "C2", "O4"]),
        amplify=st.just(1),
        attenuate=st.just(1),
        target_entropy=st.just(100),
    ),
    st.builds(
        StareConfig,
        variant=st.sampled_from(["O1", "C2", "O4"]),
        top_fraction=st.just(0),
        target_entropy=st.just(100),
    ),
)


@given(rows=ROWS, config=NOTHING_TO_DO)
@settings(max_examples=300, deadline=None)
def test_with_nothing_to_do_every_weight_is_exactly_one(rows: Rows, config: StareConfig) -> None:
    batch = tensors(rows)
    decision = decide_on(config, batch)
    assert decision.changes_nothing
    assert (token_weights(decision, **inputs(batch)) == 1).all()
    assert (micro_batch_weights(decision, **inputs(batch)) == 1).all()


@given(rows=ROWS, config=NAMED, random=st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_exactly_k_tokens_are_selected_without_ties(
    rows: Rows, config: StareConfig, random: Random
) -> None:
    batch = tensors(rows)
    count = batch["surprisal"].numel()
    batch["surprisal"] = torch.tensor(random.sample(range(count), count)).float()
    batch["response_mask"] = torch.ones(count)
    sides = (batch["advantages"] > 0, batch["advantages"] < 0)
    acting = (config.variant in ("O1", "C2"), config.variant in ("C2", "O4"))
    selected = high(decide_on(config, batch), batch)
    for side, acts, chosen in zip(sides, acting, selected, strict=True):
        size = int(side.sum())
        expected = 0
        if size and config.top_fraction > 0:
            expected = max(1, math.ceil(Fraction(str(config.top_fraction)) * size))
        assert int(chosen.sum()) == (expected if acts else 0)


@given(rows=ROWS, config=NAMED)
@settings(max_examples=300, deadline=None)
def test_a_micro_batch_selects_exactly_k_tokens_even_with_ties(
    rows: Rows, config: StareConfig
) -> None:
    batch = tensors(rows)
    config = StareConfig(
        target_entropy=100, top_fraction=config.top_fraction, variant="C2", amplify=2, attenuate=0.5
    )
    decision = decide_on(config, batch)
    weights = micro_batch_weights(decision, **inputs(batch))
    usable = (batch["response_mask"] != 0) & batch["surprisal"].isfinite()
    for side, weight in ((batch["advantages"] > 0, 2), (batch["advantages"] < 0, 0.5)):
        size = selection_size(int((side & usable).sum()), config.top_fraction)
        assert int((weights == weight).sum()) == (size if decision.gate_open else 0)


@given(rows=ROWS, fractions=st.tuples(st.floats(0, 1), st.floats(0, 1)))
@settings(max_examples=300, deadline=None)
def test_a_larger_fraction_selects_a_superset(rows: Rows, fractions: tuple[float, float]) -> None:
    batch = tensors(rows)
    smaller, larger = (
        high(decide_on(StareConfig(variant="C2", top_fraction=fraction), batch), batch)
        for fraction in sorted(fractions)
    )
    for small, large in zip(smaller, larger, strict=True):
        assert not (small & ~large).any()


@given(entropies=st.lists(st.floats(0, 2), max_size=30), config=NAMED)
@settings(max_examples=200, deadline=None)
def test_the_schedule_stays_within_its_bounds(entropies: list[float], config: StareConfig) -> None:
    config = StareConfig(
        target_entropy=config.target_entropy,
        variant="C2",
        adaptive=True,
        alpha=0.2,
        amplify=1.2,
        attenuate=0.8,
    )
    state = ControllerState.initial(config)
    for entropy in entropies:
        state = state.next(config, entropy)
        assert 1 <= state.amplify <= config.amplify_max
        assert config.attenuate_min <= state.attenuate <= 1
