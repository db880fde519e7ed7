"""The theory by finite differences, by hand-worked numbers and by real gradient steps."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from verl_stare.algo import dynamics
from verl_stare.algo.selection import surprisal_threshold

SIZES = (2, 3, 5, 10, 50, 200)
TEMPERATURES = (0.3, 0.5, 1.0, 2.0)
# 1,200 softmaxes over all sizes and temperatures.
SOFTMAXES = 50
LOGITS = st.lists(st.floats(-30, 30), min_size=2, max_size=12)


def every_token(size: int, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Random softmaxes, each repeated for every symbol of its vocabulary."""
    generator = torch.Generator().manual_seed(size)
    logits = torch.randn(SOFTMAXES, size, dtype=torch.float64, generator=generator) / temperature
    return logits.repeat_interleave(size, 0), torch.arange(size).repeat(SOFTMAXES)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_the_derivative_by_finite_differences(size: int, temperature: float) -> None:
    logits, tokens = every_token(size, temperature)
    generator = torch.Generator().manual_seed(7)
    advantages = torch.randn(len(tokens), dtype=torch.float64, generator=generator)
    statistics = dynamics.token_statistics(logits, tokens)
    derivative = dynamics.entropy_derivative(advantages, *statistics)

    # The step is written out here: the change is checked along with the derivative.
    onehot = torch.nn.functional.one_hot(tokens, size)
    direction = advantages.unsqueeze(-1) * (onehot - logits.softmax(-1))

    def entropy(step: float) -> torch.Tensor:
        return torch.distributions.Categorical(logits=logits + step * direction).entropy()

    step = 1e-4
    differences = (entropy(step) - entropy(-step)) / (2 * step)
    # Next to the root a relative error means nothing: there it is taken of a thousandth of the
    # largest derivative that the same distribution has.
    largest = dynamics.sensitivity(*statistics).abs().view(SOFTMAXES, size).amax(-1)
    floor = 1e-3 * advantages.abs() * largest.repeat_interleave(size)
    relative = (differences - derivative).abs() / torch.maximum(derivative.abs(), floor)
    assert relative.max() < 1e-3
    change = dynamics.entropy_change(logits, tokens, advantages, 0.1)
    torch.testing.assert_close(change, entropy(0.1) - entropy(0.0), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_neutral_on_average_with_one_root_below_the_entropy(size: int, temperature: float) -> None:
    logits, tokens = every_token(size, temperature)
    statistics = dynamics.token_statistics(logits, tokens)
    probs = logits[::size].softmax(-1)
    phi = dynamics.sensitivity(*statistics)
    assert ((phi.view(SOFTMAXES, size) * probs).sum(-1).abs() < 1e-14).all()

    entropy, s2 = statistics.entropy[::size], statistics.s2[::size]
    covariance = (probs * probs.log() * (probs - (probs**2).sum(-1, keepdim=True))).sum(-1)
    torch.testing.assert_close(s2, covariance, rtol=1e-9, atol=1e-15)
    critical = dynamics.critical_surprisal(entropy, s2)
    assert (critical <= entropy).all()
    assert (critical >= 0).all()
    assert (dynamics.sensitivity(critical, entropy, s2).abs() < 1e-14).all()

    # The sign over p in (0, 1] as computed from the definition: it changes once, at s*.
    grid = torch.cat([torch.logspace(-9, 0, 4001), torch.linspace(1e-4, 1, 4001)]).double()
    grid = grid.sort().values
    positive = grid * (grid.log() + entropy[:, None]) - covariance[:, None] > 0
    assert (positive[:, 1:].int().diff() >= 0).all()
    assert positive.any(-1).all()
    near = (grid.log() + critical[:, None]).abs() < 1e-9
    assert ((grid > (-critical[:, None]).exp()) == positive)[~near].all()


@given(values=LOGITS)
def test_s2_and_the_critical_surprisal_keep_their_ranges(values: list[float]) -> None:
    logits = torch.tensor([values], dtype=torch.float64)
    _, entropy, s2 = dynamics.token_statistics(logits, torch.tensor([0]))
    assert 0 <= s2 <= entropy
    assert 0 <= dynamics.critical_surprisal(entropy, s2) <= entropy


def test_two_symbols_by_hand() -> None:
    # π = (3/4, 1/4): H = 0.562335, S2 = 9/16 (ln 3/4 + H) + 1/16 (ln 1/4 + H) = 0.102995.
    logits = torch.tensor([[3.0, 1.0]] * 2, dtype=torch.float64).log()
    surprisal, entropy, s2 = dynamics.token_statistics(logits, torch.tensor([0, 1]))
    assert surprisal.tolist() == pytest.approx([0.287682, 1.386294], abs=1e-6)
    assert entropy.tolist() == pytest.approx([0.562335] * 2, abs=1e-6)
    assert s2.tolist() == pytest.approx([0.102995] * 2, abs=1e-6)
    # With q the other symbol's probability, Φ = 2 p q² ln(p/q) = 3/8 ln 3 * (1/4, -3/4).
    phi = dynamics.sensitivity(surprisal, entropy, s2)
    assert phi.tolist() == pytest.approx([0.102995, -0.308985], abs=1e-6)
    derivative = dynamics.entropy_derivative(torch.tensor([2.0, -1.0]), surprisal, entropy, s2)
    assert derivative.tolist() == pytest.approx([-0.205990, -0.308985], abs=1e-6)


def test_three_symbols_by_hand() -> None:
    # π = (1/2, 1/4, 1/4): H = 1.5 ln 2, S2 = 1/4 (0.5 ln 2) - 2/16 (0.5 ln 2) = ln 2 / 16.
    logits = torch.tensor([[2.0, 1.0, 1.0]], dtype=torch.float64).log()
    surprisal, entropy, s2 = dynamics.token_statistics(logits, torch.tensor([0]))
    assert float(entropy) == pytest.approx(1.5 * math.log(2), rel=1e-12)
    assert float(s2) == pytest.approx(math.log(2) / 16, rel=1e-12)
    # Φ(1/2) = 1/2 (0.5 ln 2) - ln 2 / 16 = 3/16 ln 2.
    assert float(dynamics.sensitivity(surprisal, entropy, s2)) == pytest.approx(
        3 / 16 * math.log(2), rel=1e-12
    )


def test_a_critical_surprisal_by_hand() -> None:
    # Φ(1/e) = (H - 1) / e - S2 is 0 at H = 2 for S2 = 1/e.
    entropy = torch.tensor([2.0], dtype=torch.float64)
    critical = dynamics.critical_surprisal(entropy, torch.exp(1 - entropy))
    assert float(critical) == pytest.approx(1.0, rel=1e-12)


def test_uniform_and_certain_distributions() -> None:
    logits = torch.tensor([[1.0] * 4, [0.0, -math.inf, -math.inf, -math.inf]])
    surprisal, entropy, s2 = dynamics.token_statistics(logits, torch.tensor([0, 0]))
    assert entropy.tolist() == pytest.approx([math.log(4), 0.0])
    assert s2.tolist() == pytest.approx([0.0, 0.0], abs=1e-7)
    # Every token of a uniform distribution is critical, and so is a certain one.
    critical = dynamics.critical_surprisal(entropy, s2)
    assert critical.tolist() == pytest.approx(surprisal.tolist(), abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_half_precision_is_widened_and_impossible_symbols_count_for_nothing(
    dtype: torch.dtype,
) -> None:
    logits = torch.tensor([[0.5, -1.0, 2.0]], dtype=dtype)
    ruled_out = torch.cat([logits, torch.full((1, 1), -math.inf, dtype=dtype)], -1)
    token = torch.tensor([1])
    expected = dynamics.token_statistics(logits.double(), token)
    for given_logits in (logits, ruled_out):
        for value, wanted in zip(
            dynamics.token_statistics(given_logits, token), expected, strict=True
        ):
            assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
            assert float(value) == pytest.approx(float(wanted), rel=1e-6)
        assert float(dynamics.entropy_from_logits(given_logits)) == pytest.approx(
            float(expected.entropy), rel=1e-6
        )


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"got \(2, 3\) and \(3,\)"):
        dynamics.token_statistics(torch.zeros(2, 3), torch.zeros(3, dtype=torch.long))


def test_the_exact_change_approaches_the_derivative() -> None:
    logits, tokens = every_token(10, 1.0)
    advantages = torch.where(tokens % 2 == 0, 1.5, -0.5).double()
    derivative = dynamics.entropy_derivative(advantages, *dynamics.token_statistics(logits, tokens))
    errors = [
        float(
            (dynamics.entropy_change(logits, tokens, advantages, step) / step - derivative)
            .abs()
            .max()
        )
        for step in (0.1, 0.01, 0.001)
    ]
    # First order: ten times smaller a step, ten times smaller an error.
    assert errors[0] / errors[1] == pytest.approx(10, rel=0.3)
    assert errors[1] / errors[2] == pytest.approx(10, rel=0.1)
    assert errors[2] < 1e-2 * float(derivative.abs().max())


def test_quadrants_by_the_critical_surprisal_tell_what_raises_the_entropy() -> None:
    logits, tokens = every_token(10, 1.0)
    advantages = torch.tensor([1.0, -1.0, 0.0]).repeat(len(tokens))[: len(tokens)].double()
    statistics = dynamics.token_statistics(logits, tokens)
    high = statistics.surprisal > dynamics.critical_surprisal(statistics.entropy, statistics.s2)
    groups = dynamics.quadrants(advantages, high)
    raising = dynamics.entropy_raising(dynamics.entropy_derivative(advantages, *statistics))
    assert torch.equal(groups.positive_high | groups.negative_low, raising)
    assert (torch.stack(groups).sum(0) == (advantages != 0)).all()
    assert torch.equal(groups.positive_low, (advantages == 1) & ~high)
    assert torch.equal(groups.negative_high, (advantages == -1) & high)


def test_overlap_and_break_even_weight_by_hand() -> None:
    selected = torch.tensor([True, True, False, False, False, True])
    advantages = torch.tensor([1.0, 1.0, 1.0, 1.0, -1.0, -1.0])
    derivative = torch.tensor([0.3, -0.1, 0.5, -0.9, 0.25, 0.05])
    found = dynamics.overlap(selected, advantages, derivative)
    assert found[:3] == (2, 2, 1)
    assert found[3:] == pytest.approx((0.5, 0.5, 0.3 / 0.8))
    # The selected tokens bring 0.25, all together 0.1: nothing is lost, so W* is below 1.
    assert dynamics.break_even_weight(selected, derivative) == pytest.approx(1 - 0.1 / 0.25)
    # Without the last two: -0.2 in all, of which the selected bring 0.2; W* = 2 cancels it.
    assert dynamics.break_even_weight(selected[:4], derivative[:4]) == pytest.approx(2.0)
    # A selection that itself lowers the entropy cannot make up for anything.
    assert math.isnan(dynamics.break_even_weight(selected, -derivative))


def test_overlap_of_nothing_is_nan() -> None:
    nothing = torch.tensor([False, False])
    found = dynamics.overlap(nothing, torch.ones(2), torch.tensor([-1.0, 0.0]))
    assert found[:3] == (0, 0, 0)
    assert all(math.isnan(value) for value in found[3:])
    assert math.isnan(dynamics.break_even_weight(nothing, torch.tensor([1.0, 1.0])))


class SmallPolicy:
    """A softmax for each of some states, its logits the parameters; a batch sampled from it."""

    STATES, SYMBOLS, TOKENS, TOP_FRACTION = 20, 12, 4000, 0.1

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        shape = (self.STATES, self.SYMBOLS)
        self.logits = 2 * torch.randn(shape, dtype=torch.float64, generator=generator)
        self.states = torch.randint(self.STATES, (self.TOKENS,), generator=generator)
        probs = self.logits.softmax(-1)[self.states]
        self.actions = torch.multinomial(probs, 1, generator=generator).squeeze(-1)
        # Likely symbols are rewarded more often, as where a policy is mostly right.
        noise = torch.randn(self.TOKENS, dtype=torch.float64, generator=generator)
        likely = probs.gather(-1, self.actions.unsqueeze(-1)).squeeze(-1)
        rewards = likely + noise
        self.advantages = (rewards - rewards.mean()) / rewards.std()
        self.statistics = dynamics.token_statistics(self.logits[self.states], self.actions)
        self.derivative = dynamics.entropy_derivative(self.advantages, *self.statistics)

    @property
    def surprisal(self) -> torch.Tensor:
        return self.statistics.surprisal

    def o1(self, amplify: float) -> torch.Tensor:
        """The weights of variant O1 while the gate is open, by its definition."""
        positive = self.advantages > 0
        threshold = surprisal_threshold(self.surprisal[positive], self.TOP_FRACTION)
        return torch.where(positive & (self.surprisal > threshold), amplify, 1.0).double()

    def entropy_after(self, weights: torch.Tensor, rate: float) -> float:
        """Mean entropy over the states after one step of SGD on the clipped surrogate."""
        parameters = self.logits.clone().requires_grad_()
        optimizer = torch.optim.SGD([parameters], lr=rate)
        log_probs = parameters.log_softmax(-1)[self.states, self.actions]
        ratio = (log_probs + self.surprisal).exp()
        advantages = weights * self.advantages
        surrogate = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.28) * advantages)
        (-surrogate.mean()).backward()
        optimizer.step()
        return float(dynamics.entropy_from_logits(parameters.detach()).mean())


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("amplify", [1.1, 3.0])
def test_a_real_step_raises_the_entropy_as_predicted(seed: int, amplify: float) -> None:
    policy = SmallPolicy(seed)
    weights = policy.o1(amplify)
    # Equal pairs of state and action tie, and a tied group across the cut stays out.
    share = float((weights > 1).double().sum() / (policy.advantages > 0).sum())
    assert 0.09 < share <= 0.101
    # A batch mean over tokens, then a mean over states.
    extra = float(((weights - 1) * policy.derivative).sum()) / policy.TOKENS / policy.STATES
    assert extra > 0

    ones = torch.ones_like(weights)
    errors = []
    for rate in (0.5, 0.05, 0.005):
        gain = policy.entropy_after(weights, rate) - policy.entropy_after(ones, rate)
        assert gain > 0
        errors.append(abs(gain / (rate * extra) - 1))
    assert errors[2] < 1e-3
    assert errors[0] / errors[1] == pytest.approx(10, rel=0.2)
    assert errors[1] / errors[2] == pytest.approx(10, rel=0.2)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_break_even_weight_keeps_the_entropy_to_first_order(seed: int) -> None:
    policy = SmallPolicy(seed)
    rate = 1e-3
    start = float(dynamics.entropy_from_logits(policy.logits).mean())
    base = policy.entropy_after(torch.ones_like(policy.advantages), rate) - start
    assert base < 0
    weight = dynamics.break_even_weight(policy.o1(2.0) > 1, policy.derivative)
    assert weight > 1
    assert abs(policy.entropy_after(policy.o1(weight), rate) - start) < 1e-2 * abs(base)
    # On either side of it the entropy goes either way.
    for factor, rises in ((0.9, False), (1.1, True)):
        near = 1 + factor * (weight - 1)
        assert (policy.entropy_after(policy.o1(near), rate) > start) is rises
