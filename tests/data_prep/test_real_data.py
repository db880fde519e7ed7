"""Real rows of the sets, where STARE_REAL_DATA names a folder with them; counts are of these files.

The files and their commits: openai/grade-school-math 3101c7d, hkust-nlp/simpleRL-reason cf1c785,
QwenLM/Qwen2.5-Math a45202b, ypwang61/One-Shot-RLVR 21ed529, ChenxinAn-fdu/POLARIS 9e4fda2,
BytedTsinghua-SIA/DAPO 33fe317, SkyworkAI/Skywork-OR1 64e96af, Infini-AI-Lab/GRESO b277843,
ruixin31/Spurious_Rewards 33b9f85, agentica-project/deepscaler 95ef74f.
"""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from data_prep import train_mix
from data_prep.check import check
from data_prep.command import main
from tests.data_prep.support import EVALUATION, Output, prepare
from verl_stare.rewards.golds import canonical_gold, unpack_golds

REAL = Path(os.environ.get("STARE_REAL_DATA", ""))
pytestmark = pytest.mark.skipif(
    not os.environ.get("STARE_REAL_DATA"), reason="STARE_REAL_DATA names no folder of real rows"
)
SIZES = dict(zip(EVALUATION, (30, 30, 40, 500, 272, 675), strict=True))


@pytest.fixture(scope="module")
def real_evaluation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("real") / "eval"
    for name in EVALUATION:
        prepare(name, REAL / name / "test.jsonl", folder / name)
    return folder


def golds(output: Output) -> list[str]:
    return [row["reward_model"]["ground_truth"] for row in output.rows("test")]


def test_the_evaluation_sets_are_whole(real_evaluation: Path) -> None:
    for name, size in SIZES.items():
        output = Output(real_evaluation / name)
        assert (len(output.rows("test")), output.rows("rejected")) == (size, []), name
        assert output.manifest["notes"] == []
        for gold in golds(output):
            assert gold == canonical_gold(gold)
            assert unpack_golds(gold) == [gold]


def test_golds_lose_their_looks(real_evaluation: Path) -> None:
    for name in ("aime24", "aime25", "amc23"):
        found = golds(Output(real_evaluation / name))
        assert all(re.fullmatch(r"-?(0|[1-9][0-9]*)", gold) for gold in found), name
    aime = golds(Output(real_evaluation / "aime24"))
    assert {"25", "73", "45", "33", "80", "55", "23"} <= set(aime)
    assert "336" in golds(Output(real_evaluation / "aime25"))
    olympiad = Output(real_evaluation / "olympiadbench").rows("test")
    [tolerant] = [row for row in olympiad if row["extra_info"]["tolerance"] is not None]
    assert tolerant["reward_model"]["ground_truth"] == "4.2"
    assert tolerant["extra_info"]["tolerance"] == 0.1
    assert "2400, 1350, 864" in golds(Output(real_evaluation / "olympiadbench"))
    minerva = Output(real_evaluation / "minerva_math").rows("test")
    units = {row["extra_info"]["index"]: row["extra_info"]["unit"] for row in minerva}
    assert units[0] == "\\mathrm{~cm}"
    assert units[17] is None


@pytest.mark.parametrize(
    ("name", "copy"),
    [
        ("aime24", "dapo_aime-2024.parquet"),
        ("aime24", "skywork_or1_aime24.parquet"),
        ("aime25", "polaris_aime25.parquet"),
    ],
)
def test_copies_of_a_set_have_the_same_golds(
    name: str, copy: str, real_evaluation: Path, tmp_path: Path
) -> None:
    prepare(name, REAL / name / copy, tmp_path / "out")
    assert sorted(golds(Output(tmp_path / "out"))) == sorted(golds(Output(real_evaluation / name)))


def test_another_amc_is_noted(tmp_path: Path) -> None:
    prepare("amc23", REAL / "amc23" / "polaris_amc23.parquet", tmp_path / "out")
    assert Output(tmp_path / "out").manifest["notes"] == [
        "the set is known to have 40 problems, these are 83"
    ]


def against(folder: Path) -> tuple[str, str]:
    return "--against", str(folder)


def test_dapo(real_evaluation: Path, tmp_path: Path) -> None:
    prepare("dapo_math", REAL / "dapo_math_17k", tmp_path / "out", *against(real_evaluation))
    manifest = Output(tmp_path / "out").manifest
    counts = manifest["counts"]["train"]
    rejected = counts["rejected"]
    assert (counts["read"], counts["distinct rows"]) == (17_917, 17_405)
    assert counts["distinct problems"] == 16_921
    assert rejected["conflicting answers"] == 30  # of 15 problems
    assert rejected["duplicate"] == 17_405 - 16_921 - (30 - 15)
    assert rejected["needs an image"] == 35  # 29 with a link, 6 with the name of a file
    assert counts["kept"] == 17_405 - sum(rejected.values())
    overlap = {
        name: found["items found in training"]
        for name, found in manifest["overlap"]["train"].items()
    }
    assert overlap["aime24"] == overlap["aime25"] == overlap["minerva_math"] == 0
    assert 20 <= overlap["amc23"] <= 25
    assert 15 <= overlap["HuggingFaceH4/MATH-500"] <= 25
    assert 40 <= overlap["olympiadbench"] <= 60


def test_gsm8k_and_math(real_evaluation: Path, tmp_path: Path) -> None:
    prepare("gsm8k", REAL / "gsm8k", tmp_path / "gsm8k", *against(real_evaluation))
    output = Output(tmp_path / "gsm8k")
    assert (len(output.rows()), len(output.rows("test"))) == (7473, 1319)
    for row in [*output.rows(), *output.rows("test")]:
        assert re.fullmatch(r"-?[0-9.]+", row["reward_model"]["ground_truth"])
    options = ["--split", "train", *against(real_evaluation)]
    prepare("math_train", REAL / "math_train", tmp_path / "math", *options)
    rejected = Output(tmp_path / "math").manifest["counts"]["train"]["rejected"]
    assert rejected["no answer"] == 4
    assert rejected["overlaps an evaluation item"] > 0


def mix(real_evaluation: Path, out: Path) -> dict[str, Any]:
    sources = {
        "--deepscaler": str(REAL / "deepscaler" / "spurious_level5_train.json"),
        "--dapo-math": str(REAL / "dapo_math_17k"),
        "--skywork": "none",
        "--polaris": "none",
    }
    arguments = [*(part for pair in sources.items() for part in pair), "--out", str(out)]
    main("train_mix", "", *train_mix.DATASETS, arguments=[*arguments, *against(real_evaluation)])
    return Output(out).manifest


def test_all_of_them_through_verl(real_evaluation: Path, tmp_path: Path, tokenizer: Path) -> None:
    manifest = mix(real_evaluation, tmp_path / "mix")
    counts = manifest["counts"]["train"]
    assert counts["read"] == 7_962 + 17_917
    assert counts["distinct rows"] == counts["kept"] + sum(counts["rejected"].values())
    prepare(
        *("tool_math", REAL / "dapo_math_17k", tmp_path / "tool"),
        *(*against(real_evaluation), "--limit", "300"),
    )
    files = [real_evaluation / name / "test.parquet" for name in EVALUATION]
    files += [tmp_path / "tool" / "train.parquet"]
    # A byte-level tokenizer has a token a byte: no real one needs so many.
    lines = check(files, str(tokenizer), 20_000, 0)
    assert lines[-2] == f"together: verl reads {sum(SIZES.values()) + 300} rows"
