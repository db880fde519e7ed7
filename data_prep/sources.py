"""Where rows come from: a set of the Hugging Face hub or local files, as batches of rows."""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SUFFIXES = (".parquet", ".jsonl", ".json", ".csv")
BATCH_ROWS = 65536
# owner/name, or owner/name@revision.
_HUB_ID = re.compile(r"([A-Za-z0-9][\w.-]*/[\w.-]+)(?:@([\w./-]+))?")

Batch = pa.RecordBatch | list[dict[str, Any]]
# Each is one set of columns that a script can read, the first one the hub's.
Forms = Sequence[tuple[str, ...]]


class SourceError(Exception):
    """What is wrong with a source, in one line."""


@dataclass(frozen=True)
class Source:
    """Files with rows.

    Args:
        given: as named on the command line.
        revision: commit of the hub's set, None for local files.
        folder: that the files are named relative to.
    """

    given: str
    revision: str | None
    folder: Path
    files: tuple[Path, ...]

    def name(self, file: Path) -> str:
        return file.relative_to(self.folder).as_posix()


def locate(given: str, revision: str | None = None, patterns: Sequence[str] = ("*",)) -> Source:
    """Find the files of `given`, a local file or folder or a set of the hub.

    Args:
        given: path, ``owner/name`` or ``owner/name@revision``.
        revision: branch, tag or commit of the hub's set.
        patterns: of the files to fetch from the hub (into its cache, and from there if present).

    Raises:
        SourceError: nothing is there.
    """
    path = Path(given).expanduser()
    if revision and path.exists():
        raise SourceError(f"{given} is local: --revision {revision} would have no effect")
    if path.is_file():
        if path.suffix not in SUFFIXES:
            raise SourceError(f"{given}: suffix {path.suffix!r}: read are {', '.join(SUFFIXES)}")
        return Source(given, None, path.parent, (path,))
    if not path.is_dir():
        hub = _HUB_ID.fullmatch(given)
        if not hub or path.suffix in SUFFIXES:
            raise SourceError(f"{given}: no such file or folder")
        if revision and hub[2]:
            raise SourceError(f"{given}: names a revision, and so does --revision {revision}")
        path = _download(hub[1], revision or hub[2], patterns)
        return Source(given, _commit(path), path, _files(path, given))
    return Source(given, None, path, _files(path, given))


def _files(folder: Path, given: str) -> tuple[Path, ...]:
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in SUFFIXES
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    # Our own by-products, where a folder that we wrote is read again.
    files = [path for path in files if path.name not in ("manifest.json", "rejected.parquet")]
    if not files:
        raise SourceError(f"{given}: holds no {', '.join(SUFFIXES)} file")
    return tuple(files)


def _download(given: str, revision: str | None, patterns: Sequence[str]) -> Path:
    import httpx
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        folder = snapshot_download(
            given, repo_type="dataset", revision=revision, allow_patterns=list(patterns)
        )
    # The hub's own errors are OSErrors too.
    except (OSError, httpx.HTTPError, HFValidationError) as error:
        reason = " ".join(str(error).split())
        raise SourceError(
            f"{given}: no such file or folder, and the hub gave {type(error).__name__}: {reason}"
        ) from error
    return Path(folder)


def _commit(snapshot: Path) -> str:
    # The hub's cache is <repository>/snapshots/<commit>.
    return snapshot.name


def read(path: Path, forms: Forms) -> Iterator[Batch]:
    """The rows of `path` in order, in batches.

    Raises:
        SourceError: the file cannot be read or its columns are none of `forms`.
    """
    try:
        if path.suffix == ".parquet":
            yield from _read_parquet(path, forms)
        else:
            yield from _read_text(path, forms)
    except (OSError, pa.ArrowException, ValueError, csv.Error, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise SourceError(f"{path}: cannot be read: {reason}") from error


def count_rows(path: Path) -> int | None:
    """The number of rows if a glance tells it, as for parquet."""
    try:
        return pq.read_metadata(path).num_rows if path.suffix == ".parquet" else None
    except (OSError, pa.ArrowException):
        return None  # reading it will say what is wrong


def check_columns(path: Path, found: Sequence[str], forms: Forms) -> None:
    """Raise a `SourceError` unless `found` holds all columns of one of `forms`."""
    if not any(set(form) <= set(found) for form in forms):
        wanted = "; or ".join(" + ".join(form) for form in forms)
        raise SourceError(f"{path}: found columns {', '.join(found) or 'none'}; expected {wanted}")


def _read_parquet(path: Path, forms: Forms) -> Iterator[pa.RecordBatch]:
    # So the pages of a row group are read as they are needed, not all of them at once.
    with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        check_columns(path, file.schema_arrow.names, forms)
        yield from file.iter_batches(batch_size=BATCH_ROWS)


def _read_text(path: Path, forms: Forms) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    for number, row in enumerate(_rows(path)):
        if not isinstance(row, Mapping):
            raise SourceError(f"{path}: row {number} is {type(row).__name__}, not an object")
        if not number:
            check_columns(path, list(row), forms)
        batch.append(dict(row))
        if len(batch) == BATCH_ROWS:
            yield batch
            batch = []
    if batch:
        yield batch


def _rows(path: Path) -> Iterator[Any]:
    # csv wants newlines as they are; a byte-order mark is no part of the first column's name.
    with path.open(encoding="utf-8-sig", newline="" if path.suffix == ".csv" else None) as file:
        if path.suffix == ".csv":
            reader = csv.DictReader(file, strict=True)
            for row in reader:
                if None in row or None in row.values():
                    raise SourceError(f"{path}: line {reader.line_num}: not as many cells as names")
                yield row
        elif path.suffix == ".json" and _starts_a_list(file):
            yield from json.load(file)
        else:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _json_line(path, number, line)


def _starts_a_list(file: Any) -> bool:
    """Whether the file is one JSON list, rather than an object a line."""
    start = file.read(1024).lstrip()
    file.seek(0)
    return start.startswith("[")


def _json_line(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise SourceError(f"{path}: line {number} is not JSON: {error}") from error
