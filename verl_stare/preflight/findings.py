"""What the checks found: problems, which stop a run, and warnings and facts, which do not."""

from __future__ import annotations

from dataclasses import dataclass, field


class PreflightError(Exception):
    """What the user has to change, in one line, after which no further check makes sense."""


@dataclass
class Findings:
    """Lines for the user.

    Attributes:
        problems: each names the key or file, its value and what is allowed.
        warnings: what is allowed, but hardly meant.
        facts: label and text of what the run would be.
    """

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)

    def problem(self, text: str) -> None:
        self.problems.append(one_line(text))

    def warn(self, text: str) -> None:
        self.warnings.append(one_line(text))

    def fact(self, label: str, text: str) -> None:
        self.facts.append((label, text))


def one_line(text: object, limit: int = 600) -> str:
    """`text` without line feeds, and not endless."""
    return " ".join(str(text).split())[:limit]
