"""Which tier is taken, what is said where one does not hold, and what the command prints."""

import os
import stat
import sys
from pathlib import Path

import pytest

from verl_stare.cli import main
from verl_stare.sandbox import Pool, SandboxUnavailable, canary, choose, jail, probe, tiers
from verl_stare.sandbox.limits import Limits
from verl_stare.sandbox.outcome import outcome
from verl_stare.sandbox.process import Ended

HELD = {tier for tier in ("bwrap", "landlock") if probe(tier).holds}


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose kernel lets nobody have namespaces."""
    bwrap = tmp_path / "bwrap"
    bwrap.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
    )
    bwrap.chmod(bwrap.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)


@pytest.mark.skipif("bwrap" not in HELD, reason="bwrap does not hold here")
def test_the_best_tier_is_taken() -> None:
    tier, tried = choose()
    assert tier == "bwrap"
    assert [one.tier for one in tried] == ["bwrap"]
    assert "another process" in tried[0].detail


@pytest.mark.skipif("landlock" not in HELD, reason="landlock does not hold here")
def test_landlock_where_namespaces_are_refused(refused: None) -> None:
    tier, tried = choose()
    assert tier == "landlock"
    assert "No permissions to create new namespace" in tried[0].detail
    with Pool(1) as pool:
        assert pool.tier == "landlock"
        assert pool.run("1 + 1").text() == "2"


def test_refused_where_nothing_holds(refused: None, monkeypatch: pytest.MonkeyPatch) -> None:
    # Landlock takes no rule for a folder that is not there.
    monkeypatch.setattr(jail, "readable", lambda: ["/nonexistent"])
    with pytest.raises(SandboxUnavailable) as raised:
        choose()
    said = str(raised.value)
    assert said.startswith("no sandbox holds on this machine (bwrap: ")
    assert "No permissions to create new namespace; landlock: " in said
    assert "tier=none" in said
    with pytest.raises(SandboxUnavailable):
        Pool(1)


def test_a_tier_that_is_asked_for_is_not_exchanged(refused: None) -> None:
    with pytest.raises(SandboxUnavailable, match=r"bwrap: .*No permissions"):
        choose("bwrap")


def test_none_is_only_taken_by_name() -> None:
    assert "none" not in tiers.AUTOMATIC
    tier, [found] = choose("none")
    assert (tier, found.holds) == ("none", True)
    with Pool(1, tier="none") as pool:
        assert pool.run("1 + 1").text() == "2"
        assert pool.run("import time\ntime.sleep(0.3)\n1").text() == "1"
        assert "Operation not permitted" in pool.run("import os\nos.fork()").text()


def test_no_seccomp_no_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    from verl_stare.sandbox import syscalls

    syscalls.compiled.cache_clear()
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    for tier in ("bwrap", "landlock", "none"):
        found = probe(tier)
        assert not found.holds
        assert "no seccomp filter" in found.detail
    monkeypatch.undo()
    syscalls.compiled.cache_clear()


@pytest.mark.parametrize(
    ("printed", "says"),
    [
        ('{"a socket": true, "another process": false}', "code in the sandbox got: a socket"),
        ("", "the canary did not come to its end"),
    ],
)
def test_a_canary_that_gets_out_breaks_the_tier(printed: str, says: str) -> None:
    ran = Ended(status=0, stdout=printed)
    with pytest.raises(canary.JailBroken, match=says):
        canary.examine(lambda _: outcome(ran, Limits()), files=True)


def test_a_canary_that_writes_outside_breaks_the_tier() -> None:
    def run(code: bytes) -> object:
        path = code.decode().split("with open(")[1].split(")")[0].strip("'")
        Path(path + ".written").write_text("1")
        ran = Ended(status=0, stdout='{"a file of this machine, written": false}')
        return outcome(ran, Limits())

    with pytest.raises(canary.JailBroken, match="got: a file of this machine, written"):
        canary.examine(run, files=True)  # type: ignore[arg-type]


@pytest.mark.skipif(not HELD, reason="no tier holds here")
def test_check_prints_each_layer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", "check"]) == 0
    printed = capsys.readouterr().out
    for layer in ("bubblewrap", "namespaces", "landlock", "seccomp", "preloaded"):
        assert f"\n{layer} " in printed
    for tier in HELD:
        assert f"\ntier {tier:<10} holds: kept from: a socket" in printed
    assert "\nok    " in printed
    assert "Python 3." in printed


def test_check_fails_where_the_wanted_tier_is_not_to_be_had(
    refused: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sandbox", "check", "--tier", "bwrap"]) == 1
    printed = capsys.readouterr().out
    assert "tier bwrap      DOES NOT HOLD: " in printed
    assert "\nFAIL  no sandbox holds" in printed


def test_check_says_that_none_guards_no_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", "check", "--tier", "none"]) == 0
    assert "files of this machine are NOT guarded" in capsys.readouterr().out


@pytest.mark.parametrize("size", [0, -1, 5000])
def test_a_size_that_is_none(size: int) -> None:
    with pytest.raises(ValueError, match=f"sandbox size={size}: allowed are 1 to 4096"):
        Pool(size)


def test_a_tier_that_is_none() -> None:
    with pytest.raises(ValueError, match="sandbox tier='docker': allowed are auto, bwrap"):
        Pool(1, tier="docker")
