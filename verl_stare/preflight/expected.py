"""What to expect of a preset: the authors' figures (arXiv 2606.19236), and what was run here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reported:
    """AIME24 / AIME25 avg@32 of one model, as the paper has them.

    Attributes:
        model: hub id.
        task: the paper's name of the scenario.
        grpo, o1, c2: GRPO with dynamic sampling, and STARE's two variants.
    """

    model: str
    task: str
    grpo: str
    o1: str
    c2: str


REPORTED = {
    "math_7b": Reported(
        "Qwen/Qwen2.5-Math-7B", "Short CoT", "37.1 / 17.7", "44.2 / 23.8", "42.9 / 24.2"
    ),
    "short_cot_14b": Reported(
        "Qwen/Qwen2.5-14B-Instruct", "Short CoT", "24.2 / 21.9", "30.8 / 27.1", "31.5 / 28.3"
    ),
    "short_cot_32b": Reported(
        "Qwen/Qwen2.5-32B", "Short CoT", "38.5 / 28.8", "43.3 / 34.1", "42.9 / 35.7"
    ),
    "r1_distill_1.5b": Reported(
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
        "Long CoT",
        "50.4 / 37.4",
        "53.8 / 41.5",
        "53.1 / 40.5",
    ),
    "qwen3_8b": Reported(
        "Qwen/Qwen3-8B-Base", "Long CoT", "39.5 / 30.8", "43.9 / 34.7", "44.3 / 32.6"
    ),
    "tool_7b": Reported(
        "Qwen/Qwen2.5-7B, cold start", "tool use", "46.8 / 32.4", "53.2 / 37.5", "52.8 / 38.1"
    ),
}
NOT_RUN = "not run here"


def expected(preset: str, method: str, variant: str) -> str:
    """One line: what the authors report for this preset and method.

    Args:
        preset: of the group `stare`.
        method: of the group `stare_method`.
        variant: of STARE.
    """
    reported = REPORTED.get(preset)
    if reported is None:
        return f"no such run in the paper; {NOT_RUN}"
    figure = {
        ("stare", "O1"): reported.o1,
        ("stare", "C2"): reported.c2,
        ("grpo", variant): reported.grpo,
    }.get((method, variant))
    if figure is None:
        return f"none reported for this method on this model; {NOT_RUN}"
    return (
        f"AIME24 / AIME25 avg@32 {figure}, reported by the authors for {reported.model}; {NOT_RUN}"
    )
