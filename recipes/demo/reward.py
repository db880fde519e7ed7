"""Score of the arithmetic demo: the text after the last ";" must be the sum, exactly."""

from typing import Any


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Grade one response; the signature is that of verl's ``custom_reward_function``.

    A worked solution reads "4+7=11;1+11=12;12+7=19;19". Partial sums are scratch work and are not
    graded: a wrong one fails only by leading to a wrong answer.

    Returns:
        ``score`` and ``acc``: 1.0 if right, else 0.0 (equal here; dynamic sampling reads ``acc``);
        ``pred``: the answer as read, cut to 16 characters.
    """
    answer = solution_str.strip().rsplit(";", 1)[-1]
    correct = float(answer == ground_truth)
    return {"score": correct, "acc": correct, "pred": answer[:16]}
