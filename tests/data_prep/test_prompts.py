"""Instructions around a problem come off exactly, and nothing else does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.prompts import WRAPPERS, problem_in, unwrap
from data_prep.schema import Asking, Rejected
from tests.data_prep.support import DAPO


@given(st.sampled_from(WRAPPERS), st.text(max_size=30))
def test_a_wrapped_text_comes_out_as_it_went_in(wrapper: tuple[str, str], text: str) -> None:
    assert unwrap(wrapper[0] + text + wrapper[1]) == text


@pytest.mark.parametrize(
    "text",
    [
        "Solve it.",
        DAPO[0] + "one end alone",
        "the other" + DAPO[1],
        "Answer: 5",
        "Please solve the following math problem: 1 + 1",
    ],
)
def test_half_a_wrapper_is_part_of_the_problem(text: str) -> None:
    assert unwrap(text) == text


def test_what_we_write_can_be_read_again() -> None:
    assert problem_in(Asking().messages("How many?")) == "How many?"
    assert problem_in(Asking(system_prompt="Be brief.").messages("How many?")) == "How many?"


def test_two_questions_are_no_problem() -> None:
    with pytest.raises(Rejected, match="one user message"):
        problem_in([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
