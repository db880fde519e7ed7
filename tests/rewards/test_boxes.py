r"""Finding the last complete `\boxed{}`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verl_stare.rewards.boxes import last_boxed


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"so \boxed{34}.", "34"),
        (r"\boxed{1} and then \boxed{2}", "2"),
        (r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{1}{\sqrt{2}}"),
        (r"\boxed{5} or rather \boxed{6", "5"),
        (r"{ \boxed{7} ", "7"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed {8}", "8"),
        (r"\fbox{9}", "9"),
        (r"\boxed{\boxed{3}}", r"\boxed{3}"),
        ("no box", None),
        (r"\boxed{", None),
        ("}}}{", None),
        (r"so \boxed{7}.", "7"),
        (r"\boxed{1} or \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed {3}", "3"),
        (r"\boxed{4} \fbox{5}", "5"),
        (r"\boxed{a\}b}", r"a\}b"),
        (r"\boxed{2}, then \boxed{\frac{1", "2"),
        (r"\boxed{x \boxed{8} y", "8"),
        (r"\boxed{x \boxed{8} y}", r"x \boxed{8} y"),
        (r"\boxed{}", ""),
        (r"\boxed 5", None),
        ("", None),
    ],
)
def test_the_last_complete_box(text: str, content: str | None) -> None:
    assert last_boxed(text) == content


@given(st.text(alphabet="ab{}\\ ", max_size=60), st.text(alphabet="xy1+", min_size=1, max_size=9))
def test_a_box_at_the_end_is_found_whatever_precedes_it(before: str, answer: str) -> None:
    # A backslash would escape what follows it.
    assert last_boxed(f"{before.rstrip(chr(92))} \\boxed{{{answer}}}") == answer


def test_a_megabyte_of_unclosed_boxes_is_read() -> None:
    # In quadratic time this would not come back within hours.
    assert last_boxed(r"\boxed{" * 200_000) is None
    assert last_boxed(r"\boxed{1}" + r"\boxed{\{" * 100_000) == "1"
    assert last_boxed("{" * 1_000_000) is None
