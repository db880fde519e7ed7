"""The six evaluation sets: their names, and the prepared files of them that training avoids."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from data_prep.decontamination import EvaluationItem
from data_prep.sources import SourceError
from data_prep.writing import REJECTED

# data_source of each, by the script (and the folder under FOLDER) that makes it.
DATA_SOURCES = {
    "aime24": "aime24",
    "aime25": "aime25",
    "amc23": "amc23",
    "math500": "HuggingFaceH4/MATH-500",
    "minerva_math": "minerva_math",
    "olympiadbench": "olympiadbench",
}
FOLDER = Path("data/eval")
_COLUMNS = ("data_source", "reward_model", "extra_info")
_HINT = "--against names other places, --no-decontaminate leaves it out"


def evaluation_files(against: Sequence[Path]) -> list[Path]:
    """The prepared files in `against`, files or folders; by default all six sets in `FOLDER`.

    Raises:
        SourceError: there are none, or by default not all.
    """
    if not against:
        missing = [name for name in DATA_SOURCES if not (FOLDER / name / "test.parquet").is_file()]
        if missing:
            raise SourceError(
                f"decontamination needs the evaluation sets in {FOLDER}; missing are "
                f"{', '.join(missing)}: python data_prep/{missing[0]}.py makes the first. {_HINT}"
            )
        return [FOLDER / name / "test.parquet" for name in DATA_SOURCES]
    files: list[Path] = []
    for place in against:
        found = [place] if place.is_file() else sorted(place.rglob("*.parquet"))
        files += [file for file in found if file.name != REJECTED]
        if not found:
            raise SourceError(f"{place}: no prepared evaluation file (--against). {_HINT}")
    return list(dict.fromkeys(files))


def read_items(file: Path) -> list[EvaluationItem]:
    """The problems of one prepared evaluation file.

    Raises:
        SourceError: the file cannot be read, or is not one of ours for evaluation.
    """
    try:
        with pq.ParquetFile(file) as parquet:
            found = parquet.schema_arrow.names
            missing = [name for name in _COLUMNS if name not in found]
            if missing:
                raise SourceError(
                    f"{file}: no prepared evaluation file: found columns {', '.join(found)}, "
                    f"without {', '.join(missing)}. {_HINT}"
                )
            rows = parquet.read(columns=list(_COLUMNS)).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"{file}: cannot be read: {' '.join(str(error).split())}") from error
    try:
        splits = {row["extra_info"]["split"] for row in rows}
        items = [
            EvaluationItem(
                row["data_source"],
                row["extra_info"]["index"],
                row["extra_info"]["problem"],
                row["reward_model"]["ground_truth"],
            )
            for row in rows
        ]
    except (KeyError, TypeError) as error:
        raise SourceError(f"{file}: not written by data_prep: no {error}. {_HINT}") from error
    if splits != {"test"}:
        raise SourceError(f"{file}: splits {sorted(splits)}, not test alone. {_HINT}")
    return items
