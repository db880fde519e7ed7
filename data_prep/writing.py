"""Output folders that are complete or not there: parquet files, and last a manifest of them."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from verl_stare.files import replace_text

MANIFEST = "manifest.json"
REJECTED = "rejected.parquet"


def sha256(path: Path) -> str:
    """The file's digest, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def versions(*packages: str) -> dict[str, str]:
    """The installed versions of `packages`."""
    return {package: version(package) for package in packages}


class OutputFolder:
    """The files of one run, in a folder of their own until all of them are there."""

    def __init__(self, staging: Path) -> None:
        self._staging = staging
        self.outputs: dict[str, dict[str, Any]] = {}

    def write(
        self,
        name: str,
        rows: Iterable[Mapping[str, Any]],
        schema: pa.Schema,
        row_group_size: int = 512,
    ) -> None:
        """Write `rows` to the parquet file `name`, and note their number and the digest."""
        path = self._staging / name
        rows = iter(rows)
        count = 0
        with pq.ParquetWriter(path, schema) as writer:
            while group := list(islice(rows, row_group_size)):
                count += len(group)
                writer.write_table(pa.Table.from_pylist(group, schema=schema))
        self.outputs[name] = {"rows": count, "sha256": sha256(path)}

    def publish(self, out: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Move the files to `out`, replacing those of an earlier run, and write the manifest.

        Returns:
            the manifest with the outputs.
        """
        target = out / MANIFEST
        earlier = _outputs_of(target)
        target.unlink(missing_ok=True)  # until the new one is there, the folder is in between
        for name in self.outputs:
            os.replace(self._staging / name, out / name)
        for name in earlier - self.outputs.keys():
            (out / name).unlink(missing_ok=True)
        whole = {**manifest, "outputs": self.outputs}
        replace_text(target, json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
        return whole


def _outputs_of(manifest: Path) -> set[str]:
    """The parquet files that an earlier run wrote beside `manifest`."""
    try:
        names = [Path(name) for name in json.loads(manifest.read_text())["outputs"]]
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {path.name for path in names if str(path) == path.name and path.suffix == ".parquet"}


@contextmanager
def output_folder(out: Path) -> Iterator[OutputFolder]:
    """A place to write, from which `publish` moves the files to `out`.

    Whatever happens before, nothing is left in `out`, which is not made either.
    """
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    staging = out / f".writing.{os.getpid()}"
    try:
        staging.mkdir(parents=True)
        yield OutputFolder(staging)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        for folder in made:
            with suppress(OSError):  # it holds what was published
                folder.rmdir()
