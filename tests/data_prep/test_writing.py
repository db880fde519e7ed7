"""An output folder is complete or as it was, however the run ends."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from data_prep.writing import output_folder

SCHEMA = pa.schema([("n", pa.int64())])


def write(out: Path, *names: str) -> None:
    with output_folder(out) as folder:
        for name in names:
            folder.write(name, [{"n": 1}, {"n": 2}], SCHEMA)
        folder.publish(out, {"dataset": "numbers"})


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, OSError])
def test_a_run_that_ends_early_leaves_nothing(error: type[BaseException], tmp_path: Path) -> None:
    for out in (tmp_path / "a" / "b", tmp_path / "old"):
        if out.name == "old":
            write(out, "x.parquet")
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(error), output_folder(out) as folder:
            folder.write("y.parquet", [{"n": 1}], SCHEMA)
            raise error
        assert sorted(tmp_path.rglob("*")) == before


def test_a_foreign_file_stays_and_an_earlier_output_goes(tmp_path: Path) -> None:
    write(tmp_path, "x.parquet", "y.parquet")
    (tmp_path / "notes.txt").write_text("mine")
    write(tmp_path, "x.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("manifest.json", "notes.txt", "x.parquet")
    ]


@pytest.mark.parametrize("text", ["", "[]", '{"outputs": null}', '{"outputs": {"../mine": {}}}'])
def test_a_manifest_that_is_not_ours_deletes_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    out = tmp_path / "out"
    out.mkdir()
    (out / "manifest.json").write_text(text)
    write(out, "x.parquet")
    assert (tmp_path / "mine").read_text() == "mine"
    assert json.loads((out / "manifest.json").read_text())["dataset"] == "numbers"


def test_rows_of_another_type_are_refused(tmp_path: Path) -> None:
    with pytest.raises(pa.ArrowException), output_folder(tmp_path / "out") as folder:
        folder.write("x.parquet", [{"n": "one"}], SCHEMA)
    assert not (tmp_path / "out").exists()
