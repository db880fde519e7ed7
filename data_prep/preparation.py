"""One run: from sources and options to a folder, and what to say about it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from data_prep.dataset import TRAIN, Dataset
from data_prep.decontamination import Overlaps
from data_prep.evaluation import evaluation_files, read_items
from data_prep.pipeline import (
    REJECTED_SCHEMA,
    Split,
    collect,
    decontaminate,
    leave_out_duplicates,
    leave_out_images,
    limit,
)
from data_prep.schema import Asking
from data_prep.sources import Source, SourceError
from data_prep.writing import REJECTED, OutputFolder, output_folder, sha256, versions


@dataclass(frozen=True)
class Options:
    """What the user chose, as the manifest records it.

    Raises:
        ValueError: the template has no place for a problem, or the threshold is no share.
    """

    template: str
    system_prompt: str
    agent_name: str
    splits: tuple[str, ...]
    limit: int | None
    seed: int
    row_group_size: int
    decontaminate: bool
    threshold: float
    against: tuple[str, ...]

    def __post_init__(self) -> None:
        _ = self.asking
        if self.decontaminate:
            Overlaps([], self.threshold)

    @property
    def asking(self) -> Asking:
        """How problems are put."""
        return Asking(self.template, self.system_prompt, self.agent_name)


def prepare(
    name: str, parts: Sequence[tuple[Dataset, Source]], options: Options, out: Path
) -> dict[str, Any]:
    """Write one parquet file a split, the rejected rows and the manifest into `out`.

    Returns:
        the manifest.

    Raises:
        SourceError: a source is at fault, or leaves no row.
        OSError: writing failed.
    """
    _keep_sources(parts, options.splits, out)
    overlaps, against = _overlaps(options)
    splits = []
    for split_name in options.splits:
        split = collect(parts, split_name, options.asking)
        leave_out_duplicates(split, parts[0][0].same)
        if split_name == TRAIN:
            leave_out_images(split)
            if overlaps:
                decontaminate(split, overlaps)
        split.finish()
        if not split.kept:
            reasons = ", ".join(f"{n} {why}" for why, n in split.counts["rejected"].items())
            raise SourceError(f"no row of split {split_name} is left: {reasons}")
        limit(split, options.limit, options.seed)
        splits.append(split)
    with output_folder(out) as folder:
        _write(folder, splits, parts[0][0], options.row_group_size)
        return folder.publish(out, _manifest(name, parts, options, splits, against))


def report(manifest: dict[str, Any], out: Path) -> str:
    """What was done, for the screen."""
    lines = []
    for split, counts in manifest["counts"].items():
        lines += [f"{split}:", *_indented(counts)]
    for split, sets in manifest["overlap"].items():
        lines.append(f"evaluation items found in {split}, and left out of it:")
        for name, found in sets.items():
            lines.append(
                f"  {name}: {found['items found in training']} of {found['items']}"
                f" ({found['of them with the same answer']} with the same answer;"
                f" {found['rows rejected']} rows rejected)"
            )
    for note in manifest["notes"]:
        lines.append(f"note: {note}")
    for file, output in manifest["outputs"].items():
        lines.append(f"{out / file}: {output['rows']} rows, sha256 {output['sha256'][:12]}")
    return "\n".join(lines)


def _indented(counts: dict[str, Any]) -> list[str]:
    lines = []
    for what, count in counts.items():
        if isinstance(count, dict):
            lines += [f"  {what}:", *[f"    {why}: {n}" for why, n in count.items()]]
        else:
            lines.append(f"  {what}: {count}")
    return lines


def _write(folder: OutputFolder, splits: list[Split], dataset: Dataset, size: int) -> None:
    for split in splits:
        rows = (candidate.row for candidate in tqdm(split.kept, f"{split.name}: write", unit="row"))
        folder.write(f"{split.name}.parquet", rows, dataset.schema_of(split.name), size)
    rejected = (row for split in splits for row in split.rejected)
    folder.write(REJECTED, rejected, REJECTED_SCHEMA, size)


def _manifest(
    name: str,
    parts: Sequence[tuple[Dataset, Source]],
    options: Options,
    splits: list[Split],
    against: dict[str, str],
) -> dict[str, Any]:
    notes = []
    for dataset, _ in parts:
        kept = len(splits[-1].kept)
        if dataset.rows and options.limit is None and kept not in dataset.rows:
            known = " or ".join(map(str, dataset.rows))
            notes.append(f"the set is known to have {known} problems, these are {kept}")
    return {
        "dataset": name,
        "sources": [
            {
                "set": dataset.name,
                "source": source.given,
                "revision": source.revision,
                "files": {source.name(file): sha256(file) for file in source.files},
            }
            for dataset, source in parts
        ],
        "options": asdict(options),
        "counts": {split.name: split.counts for split in splits},
        "overlap": {split.name: split.overlap for split in splits if split.overlap},
        "evaluation_files": against,
        "notes": notes,
        "versions": versions("verl-stare", "pyarrow"),
    }


def _overlaps(options: Options) -> tuple[Overlaps | None, dict[str, str]]:
    if not options.decontaminate:
        return None, {}
    files = evaluation_files([Path(place) for place in options.against])
    items = [item for file in files for item in read_items(file)]
    return Overlaps(items, options.threshold), {str(file): sha256(file) for file in files}


def _keep_sources(
    parts: Sequence[tuple[Dataset, Source]], splits: Sequence[str], out: Path
) -> None:
    """Refuse to replace a source by what is made of it."""
    written = {(out / f"{split}.parquet").resolve() for split in splits}
    for _, source in parts:
        for file in source.files:
            if file.resolve() in written:
                raise SourceError(f"{file} would be replaced by the output: choose another --out")
