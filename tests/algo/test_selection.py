"""Selection by hand-worked numbers."""

import math

import pytest
import torch

from verl_stare.algo.selection import selection_size, surprisal_threshold
from verl_stare.algo.weights import candidates


@pytest.mark.parametrize(
    ("count", "top_fraction", "size"),
    [
        (0, 0.1, 0),
        (1, 0.1, 1),
        (9, 0.1, 1),
        (10, 0.1, 1),
        (11, 0.1, 2),
        # 0.07 * 100 is 7.000000000000001 in binary floating point; its ceiling would be 8.
        (100, 0.07, 7),
        (70, 0.1, 7),
        (30, 0.1, 3),
        (100, 0.29, 29),
        (10, 0.0, 0),
        (10, 1.0, 10),
        (10, 1, 10),
        (3, 1e-9, 1),
        (200_000_000, 0.1, 20_000_000),
    ],
)
def test_selection_size(count: int, top_fraction: float, size: int) -> None:
    assert selection_size(count, top_fraction) == size


def test_threshold_is_half_way_to_the_next_largest_value() -> None:
    surprisal = torch.tensor([0.5, 3.0, 1.0, 2.0, 0.1])
    # P = 0.4 of five: the two largest are 3 and 2, and 1 is the next.
    assert surprisal_threshold(surprisal, 0.4) == 1.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_between_neighbouring_numbers_the_larger_is_still_selected(dtype: torch.dtype) -> None:
    low = torch.tensor([1.0], dtype=dtype)
    high = torch.nextafter(low, low + 1)
    surprisal = torch.cat([high, low, low / 2])
    threshold = surprisal_threshold(surprisal, 0.3)
    assert (surprisal > threshold).tolist() == [True, False, False]


def test_another_rounding_moves_no_token_across() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        surprisal = torch.rand(1000, generator=generator) * 3
        threshold = surprisal_threshold(surprisal, 0.1)
        noise = 1 + 2e-7 * torch.randn(1000, generator=generator)
        assert torch.equal(surprisal > threshold, surprisal * noise > threshold)


def test_every_token_exceeds_the_threshold_of_the_whole() -> None:
    assert surprisal_threshold(torch.tensor([0.0, 0.0, 1.0]), 1.0) == -math.inf


@pytest.mark.parametrize("top_fraction", [0.0, 0.1, 1.0])
def test_an_empty_side_selects_nothing(top_fraction: float) -> None:
    assert surprisal_threshold(torch.tensor([]), top_fraction) == math.inf


def test_fraction_zero_selects_nothing() -> None:
    assert surprisal_threshold(torch.tensor([1.0, 2.0]), 0.0) == math.inf


def test_a_single_token_is_selected() -> None:
    assert surprisal_threshold(torch.tensor([0.0]), 0.1) == -math.inf


def test_a_group_tied_across_the_cut_stays_out_as_a_whole() -> None:
    surprisal = torch.tensor([5.0, 2.0, 2.0, 2.0, 1.0])
    # k = 2 would split the three 2s: only 5 exceeds the threshold.
    assert surprisal_threshold(surprisal, 0.4) == 2.0
    # k = 4 takes the whole group.
    assert surprisal_threshold(surprisal, 0.8) == 1.5


def test_all_equal_surprisals_select_nothing() -> None:
    surprisal = torch.zeros(1000)
    threshold = surprisal_threshold(surprisal, 0.1)
    assert not (surprisal > threshold).any()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_do_not_count(bad: float) -> None:
    # Of three values left, P = 0.3 takes one; of four it would take two.
    surprisal = torch.tensor([bad, 1.0, 3.0, 2.0])
    assert surprisal_threshold(surprisal, 0.3) == 2.5
    assert surprisal.tolist()[1:] == [1.0, 3.0, 2.0]


def test_a_sum_that_overflows_is_no_infinite_value() -> None:
    threshold = surprisal_threshold(torch.tensor([3e38, 3e38, 1.0]), 0.6)
    assert threshold == pytest.approx(1.5e38)


def test_candidates_are_finite_response_tokens_of_one_sign() -> None:
    nan, inf = math.nan, math.inf
    surprisal = torch.tensor([1.0, 1.0, 1.0, 1.0, nan, inf, 1.0, 1.0])
    advantages = torch.tensor([1.0, 0.0, -1.0, 1.0, 1.0, 1.0, nan, inf])
    mask = torch.tensor([1, 1, 1, 0, 1, 1, 1, 1])
    positive = [True, False, False, False, False, False, False, True]
    negative = [False, False, True, False, False, False, False, False]
    assert candidates(surprisal, advantages, mask).tolist() == positive
    assert candidates(surprisal, advantages, mask, -1).tolist() == negative
