"""Golds: canonical text and packing."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verl_stare.rewards.golds import canonical_gold, pack_golds, unpack_golds


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        ("073", "73"),
        ("-007", "-7"),
        ("000", "0"),
        ("-0", "0"),
        ("27.0", "27"),
        ("27.", "27"),
        ("-1.00", "-1"),
        (r"336^\circ", "336"),
        (r"336^{\circ}", "336"),
        ("90 °", "90"),
        ("1,234", "1234"),
        (r"1{,}234", "1234"),
        (r"10,\!080", "10080"),
        ("-12,345,678.50", "-12345678.50"),
        ("$73$", "73"),
        ("$$073$$", "73"),
        (" $5.$ \n", "5"),
        ("9.6\n", "9.6"),
        ("yes.", "yes"),
        ("", ""),
        (" \n", ""),
        # As they stand:
        ("0.10", "0.10"),
        ("1,23", "1,23"),
        ("1, 234", "1, 234"),
        ("(1,234)", "(1,234)"),
        ("$a$ and $b$", "$a$ and $b$"),
        (r"\$5\$", r"\$5\$"),
        (r"x^\circ", r"x^\circ"),
        ("1,2,...", "1,2,..."),
        (r"\frac{1}{2}", r"\frac{1}{2}"),
        ("-1./3", "-1./3"),
        ("$", "$"),
    ],
)
def test_canonical_text(text: str, gold: str) -> None:
    assert canonical_gold(text) == gold


@given(st.text(alphabet="0123456789.,-+$\\{}!^circ° \n", max_size=20))
def test_a_canonical_gold_stays_as_it_is(text: str) -> None:
    assert canonical_gold(canonical_gold(text)) == canonical_gold(text)


@given(st.integers(), st.integers(0, 4), st.sampled_from(["", ".0", ".", ".000"]))
def test_an_integer_is_its_own_digits_however_it_is_padded(n: int, zeros: int, end: str) -> None:
    assert canonical_gold(("-" if n < 0 else "") + "0" * zeros + str(abs(n)) + end) == str(n)
    assert canonical_gold(f"{n:,}") == str(n)


def test_one_gold_is_itself_and_several_are_a_json_list() -> None:
    assert pack_golds(["073"]) == "73"
    assert pack_golds(["73", "073.0", " 73 "]) == "73"
    assert json.loads(pack_golds(["9.6\n", "9.7"])) == ["9.6", "9.7"]
    assert pack_golds([]) == pack_golds([" "]) == ""
    assert unpack_golds("") == []
    assert unpack_golds("[1, 2]") == ["[1, 2]"]
    assert unpack_golds("[0,1)") == ["[0,1)"]


def test_ground_truths_of_other_datasets() -> None:
    assert unpack_golds(None) == []
    assert unpack_golds(27.0) == ["27"]
    assert unpack_golds(1e22) == ["10000000000000000000000"]
    assert unpack_golds(b"5") == ["5"]
    assert unpack_golds(np.array(5)) == ["5"]
    assert unpack_golds(np.array(["1", "2"])) == ["1", "2"]
    assert unpack_golds(["1", 2, "3.0"]) == ["1", "2", "3.0"]


@given(st.lists(st.text(max_size=6) | st.sampled_from(['["a"]', "[]", "[1]", "[", '"'])))
def test_unpacking_gives_back_what_was_packed(golds: list[str]) -> None:
    expected = [gold for gold in dict.fromkeys(map(canonical_gold, golds)) if gold]
    assert unpack_golds(pack_golds(golds)) == expected
