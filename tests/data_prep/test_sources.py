"""Every format gives the same rows, and every bad source one clear error."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError

from data_prep.sources import SourceError, locate, read
from tests.data_prep.support import dataset, fails, prepare, write_jsonl, write_parquet

FORMS = (("question", "answer"), ("prompt", "reward_model"))
ROWS = [{"question": f'How many,\r\n"{n}"? 多少', "answer": f"#### {n}"} for n in range(5)]


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in read(path, FORMS):
        rows += batch.to_pylist() if isinstance(batch, pa.RecordBatch) else batch
    return rows


def write_csv(path: Path) -> Path:
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, ["question", "answer"])
        writer.writeheader()
        writer.writerows(ROWS)
    return path


def test_every_format_gives_the_same_rows(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("\n " + json.dumps(ROWS))
    paths = [
        write_parquet(tmp_path / "a.parquet", ROWS),
        write_jsonl(tmp_path / "a.jsonl", ROWS),
        write_jsonl(tmp_path / "lines.json", ROWS),
        tmp_path / "list.json",
        write_csv(tmp_path / "a.csv"),
    ]
    for path in paths:
        assert rows_of(path) == ROWS, path


def test_a_folder_is_its_files_in_order(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "sub" / "b.jsonl", ROWS)
    write_parquet(tmp_path / "a.parquet", ROWS)
    (tmp_path / "README.md").write_text("no rows")
    write_parquet(tmp_path / "rejected.parquet", ROWS)
    (tmp_path / "manifest.json").write_text("{}")
    write_jsonl(tmp_path / ".cache" / "c.jsonl", ROWS)
    source = locate(str(tmp_path))
    assert [source.name(file) for file in source.files] == ["a.parquet", "sub/b.jsonl"]
    assert source.revision is None


def truncated(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-20])
    return path


def broken_inside(path: Path) -> Path:
    data = bytearray(path.read_bytes())
    data[4:60] = b"\0" * 56
    path.write_bytes(data)
    return path


def write_empty(path: Path) -> Path:
    schema = pa.schema([("question", pa.string()), ("answer", pa.string())])
    pq.write_table(schema.empty_table(), path)
    return path


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda folder: folder / "none.jsonl", "no such file or folder"),
    "no suffix we read": (lambda f: write_jsonl(f / "a.txt", ROWS), "'.txt': read are .parquet"),
    "empty folder": (lambda folder: folder, "holds no .parquet, .jsonl, .json, .csv file"),
    "wrong columns, parquet": (
        lambda f: write_parquet(f / "train.parquet", [{"query": "a", "answer": "b"}]),
        "found columns query, answer; expected question + answer; or prompt + reward_model",
    ),
    "wrong columns, jsonl": (
        lambda f: write_jsonl(f / "train.jsonl", [{"query": "a"}]),
        "found columns query; expected question + answer; or prompt + reward_model",
    ),
    "truncated parquet": (
        lambda f: truncated(write_parquet(f / "train.parquet", ROWS)),
        "train.parquet: cannot be read: ",
    ),
    "broken parquet": (
        lambda f: broken_inside(write_parquet(f / "train.parquet", ROWS)),
        "train.parquet: cannot be read: ",
    ),
    "truncated jsonl": (
        lambda f: truncated(write_jsonl(f / "train.jsonl", ROWS)),
        "train.jsonl: line 5 is not JSON",
    ),
    "truncated json": (
        lambda f: (f / "train.json").write_text(json.dumps(ROWS)[:-9]),
        "train.json: cannot be read: ",
    ),
    "rows that are no objects": (
        lambda f: (f / "train.jsonl").write_text("[1]\n"),
        "train.jsonl: row 0 is list, not an object",
    ),
    "csv with too few cells": (
        lambda f: (f / "train.csv").write_text("question,answer\nHow many?\n"),
        "train.csv: line 2: not as many cells as names",
    ),
    "no UTF-8": (
        lambda f: (f / "train.jsonl").write_bytes(b'{"question": "\xff", "answer": "1"}'),
        "train.jsonl: cannot be read: ",
    ),
    "empty parquet": (
        lambda f: write_empty(f / "train.parquet"),
        "no row in split train",
    ),
    "empty jsonl": (lambda f: write_jsonl(f / "train.jsonl", []), "no row in split train"),
    "nothing that can be kept": (
        lambda f: write_jsonl(f / "train.jsonl", [{"question": "", "answer": "#### 1"}] * 2),
        "no row of split train is left: 1 no problem",
    ),
    "a file of an unknown split": (
        lambda f: write_jsonl(f / "data.jsonl", ROWS),
        "its name does not say which of train, test it is: name it with --split",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_source_gives_one_line_and_no_output(case: str, tmp_path: Path) -> None:
    make, message = BAD[case]
    source = tmp_path / "source"
    source.mkdir()
    made = make(source)
    out = tmp_path / "new" / "out"
    given = made if isinstance(made, Path) else source
    options = () if "unknown split" in case else ("--split", "train")
    error = fails("gsm8k", given, out, "--no-decontaminate", *options)
    assert isinstance(error, str)
    assert message in error
    assert "\n" not in error
    assert not (tmp_path / "new").exists()


def test_a_bad_source_leaves_the_earlier_output(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "train.jsonl", ROWS)
    out = tmp_path / "out"
    prepare("gsm8k", source, out, "--no-decontaminate")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    truncated(source)
    fails("gsm8k", source, out, "--no-decontaminate")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_the_hub_is_read_as_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    snapshot = tmp_path / "datasets--openai--gsm8k" / "snapshots" / commit
    write_parquet(snapshot / "main" / "train-00000-of-00001.parquet", ROWS)
    asked: dict[str, Any] = {}

    def snapshot_download(repo_id: str, **options: Any) -> str:
        asked.update(options, repo_id=repo_id)
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    source = locate("openai/gsm8k", "v1", ("main/*",))
    assert asked == {
        "repo_id": "openai/gsm8k",
        "repo_type": "dataset",
        "revision": "v1",
        "allow_patterns": ["main/*"],
    }
    assert source.revision == commit
    assert rows_of(source.files[0]) == ROWS
    assert locate("openai/gsm8k@refs/pr/1").revision == commit
    assert (asked["repo_id"], asked["revision"]) == ("openai/gsm8k", "refs/pr/1")
    with pytest.raises(SourceError, match="names a revision, and so does --revision v1"):
        locate("openai/gsm8k@v2", "v1")


def test_a_hub_that_cannot_be_reached_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for error in (
        LocalEntryNotFoundError("not cached,\nand no network"),
        ConnectionError("no\nnetwork"),
    ):

        def snapshot_download(*_: Any, error: Exception = error, **__: Any) -> str:
            raise error

        monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
        found = fails("gsm8k", "owner/name", tmp_path / "out", "--no-decontaminate")
        assert isinstance(found, str)
        assert "owner/name: no such file or folder, and the hub gave " in found
        assert "\n" not in found
    assert issubclass(RepositoryNotFoundError, OSError)  # as those of the hub that are not above


def test_another_set_of_the_hub_has_other_files() -> None:
    gsm8k = dataset("gsm8k")
    assert gsm8k.patterns("openai/gsm8k") == gsm8k.patterns("openai/gsm8k@v1") == ("main/*",)
    assert gsm8k.patterns("some/mirror") == ("*.parquet", "*.jsonl", "*.json", "*.csv")


def test_a_revision_of_a_local_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="--revision v1 would have no effect"):
        locate(str(tmp_path), "v1")


def test_a_local_path_is_never_looked_up_on_the_hub(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def snapshot_download(*_: Any, **__: Any) -> str:
        raise AssertionError("asked the hub")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    for given in (str(tmp_path / "no" / "such"), "./a/b", "../b", "a/b/c", "data/train.jsonl"):
        with pytest.raises(SourceError, match="no such file or folder"):
            locate(given)
