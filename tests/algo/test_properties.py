"""Properties on random batches, and parity with an implementation by plain Python loops."""

import math
from fractions import Fraction

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from verl_stare.algo import ControllerState, Decision, decide, token_weights
from verl_stare.algo.weights import selected
from verl_stare.config import StareConfig

# Few distinct values make ties; the special ones must neither select nor flip the gate.
VALUES = st.one_of(
    st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    st.floats(0, 20, width=32),
    st.sampled_from([math.nan, math.inf]),
)
ADVANTAGE = st.one_of(
    st.sampled_from([-1.0, 0.0, 1.0]), st.floats(-3, 3, width=32), st.just(math.nan)
)
TOKEN = st.tuples(VALUES, ADVANTAGE, st.booleans(), VALUES)
ROWS = st.lists(st.lists(TOKEN, min_size=1, max_size=6), min_size=1, max_size=8)
CONFIG = st.builds(
    StareConfig,
    target_entropy=st.floats(0, 3),
    top_fraction=st.one_of(st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.floats(0, 1)),
    amplify=st.floats(1, 3),
)
Rows = list[list[tuple[float, float, bool, float]]]


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


def weigh(config: StareConfig, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    inputs = {name: batch[name] for name in ("surprisal", "advantages", "response_mask")}
    return token_weights(decide_on(config, batch), **inputs)


def reference(config: StareConfig, rows: Rows) -> list[float]:
    """The same weights, one token at a time, with sorting and Python's exact arithmetic."""
    tokens = [token for row in rows for token in row]

    def eligible(token: tuple[float, float, bool, float]) -> bool:
        surprisal, advantage, response, _ = token
        return response and math.isfinite(surprisal) and math.isfinite(advantage) and advantage > 0

    entropies = [Fraction(t[3]) for t in tokens if t[2] and math.isfinite(t[3])]
    gate_open = bool(entropies) and sum(entropies) / len(entropies) < config.target_entropy
    ranked = sorted((t[0] for t in tokens if eligible(t)), reverse=True)
    size = 0
    if ranked and config.top_fraction > 0:
        size = max(1, math.ceil(Fraction(str(config.top_fraction)) * len(ranked)))
    # A tied group that crosses the cut stays out.
    while 0 < size < len(ranked) and ranked[size - 1] == ranked[size]:
        size -= 1
    cut = ranked[size - 1] if size else math.inf
    chosen = [eligible(token) and token[0] >= cut for token in tokens]
    return [config.amplify if gate_open and pick else 1.0 for pick in chosen]


@given(rows=ROWS, config=CONFIG)
@settings(max_examples=400, deadline=None)
def test_parity_with_plain_loops(rows: Rows, config: StareConfig) -> None:
    batch = tensors(rows)
    entropies = batch["entropy"][(batch["response_mask"] != 0) & batch["entropy"].isfinite()]
    if entropies.numel():
        # The gate adds entropies in steps of 2^-30 nats; nearer to the target it may differ.
        gap = float(entropies.double().mean()) - config.target_entropy
        if abs(gap) < 1e-8:
            return
    expected = torch.tensor(reference(config, rows), dtype=torch.float32)
    assert torch.equal(weigh(config, batch), expected)


@given(rows=ROWS, config=CONFIG, random=st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_rows_in_any_order_get_the_same_weights(rows: Rows, config: StareConfig, random) -> None:
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
    names = ("surprisal", "advantages", "response_mask")
    whole = token_weights(decision, **{name: batch[name] for name in names})
    pieces = [
        token_weights(decision, *piece)
        for piece in zip(*[batch[name].chunk(parts) for name in names], strict=True)
    ]
    assert torch.equal(torch.cat(pieces), whole)


@given(rows=ROWS, config=CONFIG)
@settings(max_examples=300, deadline=None)
def test_the_sign_of_every_advantage_is_kept(rows: Rows, config: StareConfig) -> None:
    batch = tensors(rows)
    before, weights = batch["advantages"], weigh(config, batch)
    assert torch.equal(before.sign(), (before * weights).sign()) or before.isnan().any()
    assert (weights >= 1).all()
    assert (weights[batch["response_mask"] == 0] == 1).all()


@given(rows=ROWS, config=CONFIG)
@settings(max_examples=300, deadline=None)
def test_exactly_k_tokens_are_selected_without_ties(rows: Rows, config: StareConfig) -> None:
    batch = tensors(rows)
    count = batch["surprisal"].numel()
    batch["surprisal"] = torch.randperm(count).float()
    batch["advantages"] = torch.ones(count)
    batch["response_mask"] = torch.ones(count)
    chosen = selected(
        decide_on(config, batch), batch["surprisal"], batch["advantages"], batch["response_mask"]
    )
    expected = max(1, math.ceil(Fraction(str(config.top_fraction)) * count))
    assert int(chosen.sum()) == (expected if config.top_fraction > 0 else 0)


@given(rows=ROWS, low=st.floats(0, 1), high=st.floats(0, 1))
@settings(max_examples=300, deadline=None)
def test_a_larger_fraction_selects_a_superset(rows: Rows, low: float, high: float) -> None:
    batch = tensors(rows)
    inputs = [batch[name] for name in ("surprisal", "advantages", "response_mask")]
    small, large = (
        selected(decide_on(StareConfig(top_fraction=fraction), batch), *inputs)
        for fraction in sorted((low, high))
    )
    assert not (small & ~large).any()
