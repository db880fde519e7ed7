"""The command line: what it teaches, and what it refuses."""

import pytest

from verl_stare import __version__
from verl_stare.cli import main


def exit_code(*arguments: str) -> object:
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    return caught.value.code


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--help") == 0
    assert "doctor" in capsys.readouterr().out


def test_the_doctors_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("doctor", "--help") == 0
    shown = capsys.readouterr().out
    for taught in ("--override", "--expect-on", "examples:", "exit codes:", "  2   wrong usage"):
        assert taught in shown


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--version") == 0
    assert capsys.readouterr().out == f"verl_stare {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["doctr"], "invalid choice"),
        (["doctor", "--rays"], "unrecognized arguments: --rays"),
        (["doctor", "--override"], "expected one argument"),
        (["doctor", "--override", "stare"], "'stare' is not KEY=VALUE"),
        (["doctor", "stare"], "'stare' is not KEY=VALUE"),
        (["doctor", "--no-ray", "--address", "auto"], "not allowed with"),
    ],
)
def test_wrong_usage_is_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(*arguments) == 2
    assert message in capsys.readouterr().err
