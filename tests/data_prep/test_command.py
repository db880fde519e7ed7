"""Whole runs: nothing lost in silence, the same bytes again, and nothing half written."""

import errno
import hashlib
import json
import os
import resource
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_prep import train_mix
from data_prep.command import main
from tests.data_prep.support import (
    Output,
    dapo_item,
    evaluation_item,
    fails,
    prepare,
    write_jsonl,
    write_parquet,
)
from tests.support.trainer import ROOT

PROBLEMS = [f"Sum {n} and {n * n}, then halve it. What is left?" for n in range(30)]


def items() -> list[dict[str, Any]]:
    """30 problems, each three times, and one of each kind of trouble."""
    rows = [dapo_item(text, str(n), f"u{n}") for n, text in enumerate(PROBLEMS)]
    trouble = [
        dapo_item(PROBLEMS[0].replace(" ", "  ") + "\n", "00", "same but for white space"),
        dapo_item(PROBLEMS[1].replace(" ", "  "), "77", "another answer"),
        dapo_item("", "1", "no problem"),
        dapo_item("How long is it?\n![](https://example.org/a.png)", "1", "image"),
        dapo_item(evaluation_item("amc23", 2)["question"] + " Take your time.", "12", "overlap"),
        dapo_item("Wie viele \ud800?", "1", "surrogate"),
    ]
    return [*rows, *trouble, *rows, *rows]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "source" / "dapo.jsonl", items())


def test_every_row_is_kept_or_rejected_with_a_reason(
    source: Path, evaluation: Path, tmp_path: Path
) -> None:
    prepare("dapo_math", source, tmp_path / "out", "--against", str(evaluation))
    output = Output(tmp_path / "out")
    rows, rejected = output.rows(), output.rows("rejected")
    counts = output.manifest["counts"]["train"]
    assert [row["extra_info"]["index"] for row in rows] == [0, *range(2, 30)]
    assert all(row["extra_info"]["copies"] == 3 for row in rows)
    assert {row["index"]: (row["reason"], row["detail"]) for row in rejected} == {
        1: ("conflicting answers", "rows 1, 31 answer 1, 77"),
        30: ("duplicate", "of row 0"),
        31: ("conflicting answers", "rows 1, 31 answer 1, 77"),
        32: ("no problem", ""),
        33: ("needs an image", "How long is it?\n![](https://example.org/a.png)"),
        34: ("overlaps an evaluation item", "amc23 item 2 (100% of its n-grams)"),
        35: ("not Unicode text", rejected[-1]["detail"]),
    }
    for row in rejected:
        assert json.loads(row["original"]) == items()[row["index"]]
        assert (row["dataset"], row["split"]) == ("dapo_math", "train")
    assert counts["read"] == len(items()) == 96
    assert counts["distinct rows"] + counts["copies of another row"] == 96
    assert counts["distinct rows"] == len(rows) + len(rejected)
    assert counts["rejected"] == Counter(row["reason"] for row in rejected)
    assert counts["kept"] == len(rows)
    found = output.manifest["overlap"]["train"]
    assert set(found) == {
        *("aime24", "aime25", "amc23", "HuggingFaceH4/MATH-500", "minerva_math", "olympiadbench")
    }
    assert found["amc23"] == {
        "items": 4,
        "items found in training": 1,
        "of them with the same answer": 1,
        "rows rejected": 1,
    }


def test_the_manifest_accounts_for_what_was_read_and_written(
    source: Path, evaluation: Path, tmp_path: Path
) -> None:
    prepare("dapo_math", source, tmp_path / "out", "--against", str(evaluation), "--seed", "5")
    manifest = Output(tmp_path / "out").manifest

    def digest(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    assert manifest["sources"] == [
        {
            "set": "dapo_math",
            "source": str(source),
            "revision": None,
            "files": {"dapo.jsonl": digest(source)},
        }
    ]
    for name, output in manifest["outputs"].items():
        path = tmp_path / "out" / name
        assert output == {"rows": pq.read_metadata(path).num_rows, "sha256": digest(path)}
    files = {str(path): digest(path) for path in evaluation.rglob("test.parquet")}
    assert manifest["evaluation_files"] == files
    assert len(files) == 6
    assert manifest["options"]["seed"] == 5
    assert manifest["options"]["threshold"] == 0.5
    assert "{problem}" in manifest["options"]["template"]
    assert set(manifest["versions"]) == {"verl-stare", "pyarrow"}


def test_the_same_options_give_the_same_bytes(
    source: Path, evaluation: Path, tmp_path: Path
) -> None:
    options = ["--against", str(evaluation), "--limit", "10"]
    prepare("dapo_math", source, tmp_path / "one", *options)
    prepare("dapo_math", source, tmp_path / "two", *options)
    first = Output(tmp_path / "one").bytes
    assert Output(tmp_path / "two").bytes == first
    prepare("dapo_math", source, tmp_path / "two", *options)
    assert Output(tmp_path / "two").bytes == first
    prepare("dapo_math", source, tmp_path / "two", *options, "--seed", "2")
    assert Output(tmp_path / "two").bytes["train.parquet"] != first["train.parquet"]


def test_parquet_and_jsonl_give_the_same_rows(source: Path, tmp_path: Path) -> None:
    rows = [item for item in items() if "\ud800" not in item["prompt"][0]["content"]]
    write_parquet(tmp_path / "p" / "dapo.parquet", rows)
    write_jsonl(tmp_path / "j" / "dapo.jsonl", rows)
    for kind in "pj":
        prepare("dapo_math", tmp_path / kind, tmp_path / f"out_{kind}", "--no-decontaminate")
    one, other = Output(tmp_path / "out_p"), Output(tmp_path / "out_j")
    assert one.rows() == other.rows()
    assert one.manifest["counts"] == other.manifest["counts"]


def test_each_row_says_how_often_it_was_there(tmp_path: Path) -> None:
    a, b, c = (dapo_item(PROBLEMS[n], str(n), "u") for n in range(3))
    source = write_jsonl(tmp_path / "dapo.jsonl", [a, b, b, c, b, c])
    prepare("dapo_math", source, tmp_path / "out", "--no-decontaminate")
    info = [row["extra_info"] for row in Output(tmp_path / "out").rows()]
    assert [(one["index"], one["copies"]) for one in info] == [(0, 1), (1, 3), (3, 2)]


def test_two_forms_of_one_answer_are_no_conflict(tmp_path: Path) -> None:
    rows = [dapo_item("Halve one.", "0.5"), dapo_item("Halve  one.", "\\frac{1}{2}")]
    source = write_jsonl(tmp_path / "dapo.jsonl", rows)
    prepare("dapo_math", source, tmp_path / "out", "--no-decontaminate")
    output = Output(tmp_path / "out")
    assert [row["reward_model"]["ground_truth"] for row in output.rows()] == ["0.5"]
    assert [row["reason"] for row in output.rows("rejected")] == ["duplicate"]


def test_only_training_is_cleaned_of_images_and_overlap(evaluation: Path, tmp_path: Path) -> None:
    rows = [
        {"question": "See https://example.org/a.png. How long?", "answer": "#### 1"},
        {"question": evaluation_item("aime24", 1)["problem"], "answer": "#### 11"},
        {"question": PROBLEMS[0], "answer": "#### 0"},
    ]
    for split in ("train", "test"):
        write_jsonl(tmp_path / "in" / f"{split}.jsonl", rows)
    prepare("gsm8k", tmp_path / "in", tmp_path / "out", "--against", str(evaluation))
    output = Output(tmp_path / "out")
    assert (len(output.rows()), len(output.rows("test"))) == (1, 3)


def test_a_limit_draws_rows_and_says_how_many_it_left_out(source: Path, tmp_path: Path) -> None:
    prepare("dapo_math", source, tmp_path / "out", "--no-decontaminate", "--limit", "5")
    output = Output(tmp_path / "out")
    indices = [row["extra_info"]["index"] for row in output.rows()]
    assert len(indices) == 5
    assert indices == sorted(indices)
    assert indices != [0, 2, 3, 4, 5]
    assert output.manifest["counts"]["train"]["left out by --limit"] == 30 - 5


def test_row_groups_are_small(source: Path, tmp_path: Path) -> None:
    prepare("dapo_math", source, tmp_path / "out", "--no-decontaminate", "--row-group-size", "7")
    metadata = pq.read_metadata(tmp_path / "out" / "train.parquet")
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    assert sizes == [7, 7, 7, 7, 2]


def test_a_set_with_two_splits(tmp_path: Path) -> None:
    rows = [{"question": text, "answer": f"#### {n}"} for n, text in enumerate(PROBLEMS)]
    write_jsonl(tmp_path / "in" / "main" / "train-0.jsonl", rows[:20])
    write_jsonl(tmp_path / "in" / "main" / "test-0.jsonl", rows[20:])
    prepare("gsm8k", tmp_path / "in", tmp_path / "out", "--no-decontaminate")
    output = Output(tmp_path / "out")
    assert (len(output.rows()), len(output.rows("test"))) == (20, 10)
    # Training reads rollout.n, so only the file for validation names a number of samples.
    assert "__rollout_n__" not in output.rows()[0]
    assert {row["__rollout_n__"] for row in output.rows("test")} == {1}
    # What an earlier run wrote and this one does not is gone, so the manifest tells all there is.
    prepare("gsm8k", tmp_path / "in", tmp_path / "out", "--split", "test")
    assert sorted(output.bytes) == ["manifest.json", "rejected.parquet", "test.parquet"]


def test_samples_a_problem(evaluation: Path) -> None:
    for name in ("aime24", "aime25", "amc23"):
        assert {row["__rollout_n__"] for row in Output(evaluation / name).rows("test")} == {32}
    for name in ("math500", "minerva_math", "olympiadbench"):
        assert {row["__rollout_n__"] for row in Output(evaluation / name).rows("test")} == {4}


def test_an_incomplete_evaluation_set_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", [evaluation_item("amc23", 1)])
    prepare("amc23", source, tmp_path / "out")
    note = "the set is known to have 40 problems, these are 1"
    assert Output(tmp_path / "out").manifest["notes"] == [note]
    assert note in capsys.readouterr().out


def test_copies_of_an_evaluation_problem_are_one_row(tmp_path: Path) -> None:
    rows = [dapo_item(PROBLEMS[n % 30], str(n % 30)) for n in range(960)]
    prepare("aime24", write_parquet(tmp_path / "a.parquet", rows), tmp_path / "out")
    assert len(Output(tmp_path / "out").rows("test")) == 30


def mix(tmp_path: Path, *options: str) -> Output:
    deepscaler = [{"problem": PROBLEMS[n], "answer": str(n), "solution": ""} for n in range(6)]
    skywork = [
        {
            "data_source": "s",
            "prompt": [{"content": PROBLEMS[n], "role": "user"}],
            "reward_model": {"ground_truth": json.dumps([str(n)]), "style": "rule"},
            "extra_info": {"index": n},
        }
        for n in range(4, 10)
    ]
    polaris = [
        {"problem": PROBLEMS[9] + " ", "answer": "99", "difficulty": "1/8"},
        {"problem": PROBLEMS[10], "answer": "10", "difficulty": "1/8"},
    ]
    sources = {"deepscaler": deepscaler, "skywork": skywork, "polaris": polaris}
    arguments = [
        part
        for name, rows in sources.items()
        for part in (f"--{name}", str(write_jsonl(tmp_path / f"{name}.jsonl", rows)))
    ]
    arguments += ["--dapo-math", "none", "--out", str(tmp_path / "out"), "--no-decontaminate"]
    main("train_mix", "", *train_mix.DATASETS, arguments=[*arguments, *options])
    return Output(tmp_path / "out")


def test_the_mix_has_each_problem_once(tmp_path: Path) -> None:
    output = mix(tmp_path)
    assert [(row["data_source"], row["extra_info"]["index"]) for row in output.rows()] == [
        *[("deepscaler", n) for n in range(6)],
        *[("skywork_or1", n) for n in range(8, 11)],
        ("polaris", 13),
    ]
    assert [row["reason"] for row in output.rows("rejected")] == [
        *["duplicate"] * 2,
        *["conflicting answers"] * 2,
    ]
    assert output.rows("rejected")[0]["dataset"] == "skywork"
    assert [source["set"] for source in output.manifest["sources"]] == [
        *("deepscaler", "skywork", "polaris")
    ]


def test_wrong_usage_is_exit_code_2(source: Path, tmp_path: Path) -> None:
    for options in (
        ["--template", "without a place"],
        ["--template", "@no/such/file"],
        ["--threshold", "1.5"],
        ["--limit", "0"],
        ["--no-decontaminate", "--threshold", "0.4"],
        ["--no-decontaminate", "--against", "data"],
        ["--agent-name", "robot"],
        ["--split", "test"],
        ["--unknown"],
    ):
        assert fails("dapo_math", source, tmp_path / "out", *options) == 2, options
    names = [f"--{dataset.name.replace('_', '-')}" for dataset in train_mix.DATASETS]
    with pytest.raises(SystemExit) as exit:
        main("mix", "", *train_mix.DATASETS, arguments=[x for n in names for x in (n, "none")])
    assert exit.value.code == 2
    assert not (tmp_path / "out").exists()


def test_a_template_can_be_in_a_file(source: Path, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("Q:\n{problem}\n")
    options = ["--template", f"@{tmp_path / 't'}", "--no-decontaminate"]
    prepare("dapo_math", source, tmp_path / "out", *options)
    [message] = Output(tmp_path / "out").rows()[0]["prompt"]
    assert message == {"role": "user", "content": f"Q:\n{PROBLEMS[0]}\n"}


def test_decontamination_is_never_silently_off(
    source: Path, evaluation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    error = fails("dapo_math", source, tmp_path / "out")
    assert "needs the evaluation sets in data/eval; missing are aime24, aime25, amc23" in str(error)
    assert "--no-decontaminate" in str(error)
    training = write_jsonl(tmp_path / "raw.jsonl", [dapo_item(PROBLEMS[0], "1")])
    prepare("dapo_math", training, tmp_path / "prepared", "--no-decontaminate")
    for place, message in (
        (tmp_path / "none", "no prepared evaluation file"),
        (tmp_path / "prepared", "splits ['train'], not test alone"),
        (write_parquet(tmp_path / "other.parquet", [{"a": 1}]), "found columns a"),
        (source, "cannot be read"),
    ):
        error = fails("dapo_math", source, tmp_path / "out", "--against", str(place))
        assert message in str(error)
        assert "\n" not in str(error)
    assert not (tmp_path / "out").exists()
    # In its place, it is found without being named.
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "eval").symlink_to(evaluation)
    prepare("dapo_math", source, tmp_path / "out")
    assert Output(tmp_path / "out").manifest["overlap"]["train"]["amc23"]["items"] == 4


def test_the_threshold_decides(source: Path, evaluation: Path, tmp_path: Path) -> None:
    question = evaluation_item("amc23", 2)["question"].split()
    half = " ".join(question[: len(question) * 3 // 4])
    rows = [dapo_item(half, "1"), dapo_item(PROBLEMS[0], "0")]
    source = write_jsonl(tmp_path / "half.jsonl", rows)
    for threshold, left in (("0.2", 1), ("0.9", 2)):
        options = ["--against", str(evaluation / "amc23"), "--threshold", threshold]
        prepare("dapo_math", source, tmp_path / "out", *options)
        assert len(Output(tmp_path / "out").rows()) == left


def test_a_source_is_never_overwritten(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "train.jsonl", items())
    prepare("dapo_math", source, tmp_path, "--no-decontaminate")
    before = (tmp_path / "train.parquet").read_bytes()
    error = fails("dapo_math", tmp_path / "train.parquet", tmp_path, "--no-decontaminate")
    assert "train.parquet would be replaced by the output" in str(error)
    assert (tmp_path / "train.parquet").read_bytes() == before


def test_a_full_disk_leaves_what_was_there(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare("dapo_math", source, tmp_path / "old", "--no-decontaminate")
    before = Output(tmp_path / "old").bytes

    def write_table(self: Any, table: pa.Table) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pq.ParquetWriter, "write_table", write_table)
    for out in ("old", "new/folder"):
        error = fails("dapo_math", source, tmp_path / out, "--no-decontaminate")
        assert "No space left on device" in str(error)
        assert "\n" not in str(error)
    assert Output(tmp_path / "old").bytes == before
    assert not (tmp_path / "new").exists()


def command(script: str, *options: str, **extra: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *script.split(), *options],
        cwd=extra.pop("cwd", ROOT),
        capture_output=True,
        text=True,
        check=False,
        **extra,
    )


def test_a_file_that_cannot_grow_is_one_line_and_exit_code_1(source: Path, tmp_path: Path) -> None:
    done = command(
        "data_prep/dapo_math.py",
        *("--source", str(source), "--out", str(tmp_path / "out"), "--no-decontaminate"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
    )
    assert done.returncode == 1
    [line] = [line for line in done.stderr.splitlines() if "error" in line]
    assert line.startswith("dapo_math.py: error: cannot write")
    assert "File too large" in line
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_both_ways_to_run_a_script_and_help(source: Path, tmp_path: Path) -> None:
    options = ["--source", str(source), "--no-decontaminate", "--out"]
    by_file = command(
        f"{ROOT / 'data_prep' / 'dapo_math.py'}", *options, str(tmp_path / "a"), cwd=tmp_path
    )
    by_name = command("-m data_prep.dapo_math", *options, str(tmp_path / "b"))
    assert (by_file.returncode, by_name.returncode) == (0, 0), by_file.stderr + by_name.stderr
    assert Output(tmp_path / "a").bytes == Output(tmp_path / "b").bytes
    assert "conflicting answers: 2" in by_file.stdout
    help = command("-m data_prep.dapo_math", "--help")
    assert help.returncode == 0
    for part in ("columns read: prompt + reward_model; or prompt + target", "examples:", "exit c"):
        assert part in help.stdout


SCRIPTS = [
    path
    for path in sorted((ROOT / "data_prep").glob("*.py"))
    if '__name__ == "__main__"' in path.read_text()
]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_explains_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit) as exit:
        runpy.run_path(str(path), run_name="__main__")
    assert exit.value.code == 0
    assert len(SCRIPTS) >= 13
