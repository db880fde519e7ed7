"""Synthetic batches of the size that real runs have."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Rows of unequal length.

    Attributes:
        lengths: (sequences,).
        surprisal, advantages, entropy: (tokens,), float32, row after row.
        response_mask: (tokens,), bool, as the driver has it by then.
    """

    lengths: Tensor
    surprisal: Tensor
    advantages: Tensor
    entropy: Tensor
    response_mask: Tensor

    @property
    def flat(self) -> dict[str, Tensor]:
        """What `decide` takes, beside the entropy."""
        return {
            "surprisal": self.surprisal,
            "advantages": self.advantages,
            "response_mask": self.response_mask,
        }

    def jagged(self, values: Tensor) -> Tensor:
        offsets = torch.cat([torch.zeros(1, dtype=torch.long), self.lengths.cumsum(0)])
        return torch.nested.nested_tensor_from_jagged(values, offsets=offsets)

    def padded(self, values: Tensor) -> Tensor:
        """(sequences, longest), zero beyond a row's end."""
        present = torch.arange(int(self.lengths.max())) < self.lengths.unsqueeze(1)
        return torch.zeros(present.shape, dtype=values.dtype).masked_scatter_(present, values)


def make(sequences: int, longest: int, seed: int = 0) -> Batch:
    """Lengths uniform in [1, longest]; surprisals as of a policy that has learned something.

    Most tokens are nearly certain, a fifth are choices; some rows are harder than others.
    """
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (sequences,), generator=generator)
    tokens = int(lengths.sum())
    scale = torch.empty(sequences).log_normal_(0, 0.5, generator=generator)
    surprisal = torch.empty(tokens).exponential_(1.0, generator=generator)
    surprisal[torch.rand(tokens, generator=generator) < 0.8] *= 0.01
    surprisal *= scale.repeat_interleave(lengths)
    return Batch(
        lengths=lengths,
        surprisal=surprisal,
        advantages=torch.randn(sequences, generator=generator).repeat_interleave(lengths),
        entropy=surprisal * torch.rand(tokens, generator=generator),
        response_mask=torch.ones(tokens, dtype=torch.bool),
    )
