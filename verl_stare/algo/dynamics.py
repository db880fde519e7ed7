"""How one policy-gradient step moves the entropy of a softmax (theory of arXiv 2606.19236).

A step of size η on a sampled token of advantage Â adds `η Â (onehot(token) - π)` to the token's
logits, which is what the unclipped surrogate's gradient does at ratio 1. To first order the entropy
H then changes by `dH/dη = -Â Φ(p)`, where p = π(token), `Φ(p) = p (ln p + H) - S2` and
`S2 = Σ_v π_v² (ln π_v + H)`. It follows that:

- S2 is the covariance of π and ln π under π, so `0 <= S2 <= H`.
- The mean of Φ over tokens sampled from π is 0: advantages that do not depend on the token are
  neutral.
- Φ has one root in (0, 1]. Its surprisal s* <= H is critical: of positive advantage, the tokens
  above s* raise the entropy and those below lower it; of negative advantage, the other way round.

All this is about one distribution whose logits are free. In a network, tokens share parameters and
move each other's logits too, which is left out.

Functions of logits make a few arrays of that size and keep none: pass a batch in chunks of tokens.
They calculate in the dtype of the logits, but half precision in float32. Where a token is nearly
certain, H and Φ are tiny: below H = 1e-5 the sign of Φ takes float64.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# Halvings of [0, H]: more than the 53 bits of a double.
_BISECTIONS = 60


class TokenStatistics(NamedTuple):
    """All that Φ needs to know of a sampled token; each (tokens,), nats."""

    surprisal: Tensor  # s = -ln π(token)
    entropy: Tensor  # H
    s2: Tensor  # S2


class Quadrants(NamedTuple):
    """Masks over tokens, each (tokens,), bool. Tokens of advantage 0 or NaN are in none."""

    positive_low: Tensor  # U+
    positive_high: Tensor  # L+
    negative_low: Tensor  # U-
    negative_high: Tensor  # L-


class Overlap(NamedTuple):
    """A selection against the entropy-raising tokens, both of positive advantage only."""

    selected: int
    raising: int
    both: int
    precision: float  # both / selected; NaN where nothing is selected
    recall: float  # both / raising; NaN where nothing raises the entropy
    mass: float  # recall with each token counted by its dH/dη


def token_statistics(logits: Tensor, tokens: Tensor) -> TokenStatistics:
    """Surprisal, H and S2 of sampled tokens.

    Args:
        logits: (tokens, vocabulary), floating point; -inf for a symbol that is ruled out.
        tokens: (tokens,), int64, indices into the vocabulary.

    Returns:
        Three tensors of (tokens,), in the dtype of `logits`, at least float32.

    Raises:
        ValueError: the shapes do not fit.
    """
    if logits.dim() != 2 or tokens.shape != logits.shape[:1]:
        raise ValueError(
            "logits must be (tokens, vocabulary) and tokens (tokens,); "
            f"got {tuple(logits.shape)} and {tuple(tokens.shape)}"
        )
    log_probs = _widened(logits).log_softmax(-1)
    surprisal = -log_probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    probs = log_probs.exp()
    # xlogy is 0 at probability 0, where the product would be NaN.
    terms = torch.xlogy(probs, probs)
    entropy = -terms.sum(-1)
    s2 = (probs * (terms + probs * entropy.unsqueeze(-1))).sum(-1)
    # Of a uniform distribution S2 is 0, which rounding can put below.
    return TokenStatistics(surprisal, entropy, s2.clamp_min(0.0))


def entropy_from_logits(logits: Tensor) -> Tensor:
    """H of (..., vocabulary) logits as (...), nats; dtypes as for `token_statistics`."""
    probs = _widened(logits).softmax(-1)
    return -torch.xlogy(probs, probs).sum(-1)


def sensitivity(surprisal: Tensor, entropy: Tensor, s2: Tensor) -> Tensor:
    """Φ(p) = p (ln p + H) - S2, nats: positive where raising the token's p lowers the entropy.

    Args:
        surprisal: s = -ln p, nats, finite; entropy: H, nats; s2: S2, nats. Shapes broadcast.
    """
    return (-surprisal).exp() * (entropy - surprisal) - s2


def critical_surprisal(entropy: Tensor, s2: Tensor) -> Tensor:
    """s*: the surprisal at which Φ changes sign, its only root over p in (0, 1].

    With `u = H - s*`, the root solves `u exp(u - H) = S2`. The left side is negative for u < 0, and
    rises from 0 to H over u in [0, H], so S2 is met there once; it is bisected to the last bit.
    (In closed form, u is Lambert's W of `S2 exp(H)`.)

    Args:
        entropy: H, nats, >= 0; s2: S2, nats, in [0, H]. One shape, one floating-point dtype.

    Returns:
        The same shape and dtype, nats, in [0, H].
    """
    low, high = torch.zeros_like(entropy), entropy.clone()
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        below = middle * (middle - entropy).exp() < s2
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return entropy - high


def entropy_derivative(
    advantages: Tensor, surprisal: Tensor, entropy: Tensor, s2: Tensor
) -> Tensor:
    """dH/dη = -Â Φ(p), nats per unit of η: positive where the step on the token raises its entropy.

    Args:
        advantages: Â; the others as for `sensitivity`. Shapes broadcast.
    """
    return -advantages * sensitivity(surprisal, entropy, s2)


def entropy_change(logits: Tensor, tokens: Tensor, advantages: Tensor, step: float) -> Tensor:
    """H after a step of finite size minus H before it, without linearisation.

    Args:
        logits: (tokens, vocabulary), floating point, finite; float64 for small steps, as two nearly
            equal entropies are subtracted.
        tokens: (tokens,), int64; advantages: (tokens,), Â.
        step: η, the learning rate on the logits.

    Returns:
        (tokens,), nats, in the dtype of `logits`, at least float32.
    """
    before = _widened(logits)
    scale = step * advantages.to(before.dtype).unsqueeze(-1)
    after = before - scale * before.softmax(-1)
    after.scatter_add_(-1, tokens.unsqueeze(-1), scale)
    return entropy_from_logits(after) - entropy_from_logits(before)


def quadrants(advantages: Tensor, high: Tensor) -> Quadrants:
    """The four groups of tokens: sign of the advantage by level of surprisal.

    Args:
        advantages: (tokens,).
        high: (tokens,), bool: the tokens that count as highly surprising, e.g. those above the
            batch's threshold or, where the entropy's own boundary is meant, above `s*`.
    """
    positive, negative = advantages > 0, advantages < 0
    return Quadrants(positive & ~high, positive & high, negative & ~high, negative & high)


def entropy_raising(derivative: Tensor) -> Tensor:
    """Mask of the tokens that truly raise their entropy, from `entropy_derivative`."""
    return derivative > 0


def overlap(selected: Tensor, advantages: Tensor, derivative: Tensor) -> Overlap:
    """Compare a selection (bool) with the entropy-raising tokens; all three are (tokens,).

    Tokens without positive advantage count on neither side. `derivative`: `entropy_derivative`.
    """
    chosen = selected & (advantages > 0)
    raising = entropy_raising(derivative) & (advantages > 0)
    both = chosen & raising
    picked, risen, hits = (int(mask.sum()) for mask in (chosen, raising, both))
    mass, whole = (float(derivative[mask].double().sum()) for mask in (both, raising))
    ratios = _ratio(hits, picked), _ratio(hits, risen), _ratio(mass, whole)
    return Overlap(picked, risen, hits, *ratios)


def break_even_weight(selected: Tensor, derivative: Tensor) -> float:
    """W* = 1 + Λ/Γ: the weight on the selected tokens that keeps the entropy, to first order.

    Λ is what the base algorithm loses over all tokens, Γ what the selected ones bring. At most 1
    where the base algorithm loses nothing; NaN where the selected tokens do not raise the entropy.
    `selected` (bool) and `derivative` are (tokens,) and hold every token of the batch.
    """
    gain = float(derivative[selected].double().sum())
    return 1.0 - float(derivative.double().sum()) / gain if gain > 0 else float("nan")


def _widened(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")
