"""The overlap command end to end on a tiny model, and its parts by hand-worked numbers."""

import json
import math
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import tiny_model
from verl_stare import overlap, rollouts
from verl_stare.algo import dynamics

PROMPTS = [
    [{"role": "user", "content": f"Calculate {a} + {b} + 10 + 0."}]
    for a in range(10)
    for b in range(10)
]
QUESTIONS = ("Calculate 1 + 2 + 10 + 0.", "Calculate 7 + 3 + 10 + 0.")
# Score and response of the rows of each question. Half of each group succeeds, so the standard
# deviation is sqrt(4 * 1/4 / 3) = 0.57735 and the advantages are 0.5 / (0.57735 + 1e-6) = 0.866024.
ANSWERS = [
    [(1.0, "1+2=3;3+10=13;13"), (0.0, "12"), (0.0, "2+10=11"), (1.0, "10+2=12;13")],
    [(0.0, "7+3=10;né ☃"), (1.0, "20"), (1.0, "3+7=10;10+10=20;20"), (0.0, "0")],
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("overlap") / "model"
    tokenizer = tiny_model.build_tokenizer(PROMPTS)
    policy = tiny_model.build_model(tokenizer, seed=1)
    # Half learned, so that there are tokens on both sides of the critical surprisal.
    texts = [row["input"] + row["output"] for row in rows()]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    optimizer = torch.optim.AdamW(policy.parameters(), lr=5e-3)
    for _ in range(12):
        optimizer.zero_grad()
        policy(**batch, labels=batch["input_ids"]).loss.backward()
        optimizer.step()
    policy.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def rows() -> list[dict[str, Any]]:
    """What verl's V1 trainer writes for two prompts of four samples."""
    return [
        {
            "input": f"user\n{question}\nassistant\n",
            "output": response,
            "gts": "13",
            "score": score,
            "step": 20,
            "uid": f"{'ab'[group]}-uuid_{session}_0",
        }
        for group, (question, answers) in enumerate(zip(QUESTIONS, ANSWERS, strict=True))
        for session, (score, response) in enumerate(answers)
    ]


def write(path: Path, dumped: Sequence[dict[str, Any]]) -> Path:
    # As verl does: characters as they are, NaN as NaN.
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in dumped]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def run(model: Path, file: Path, *options: str) -> dict[str, Any]:
    out = file.with_suffix(".report.json")
    code = overlap.main(
        ["--model", str(model), "--rollouts", str(file), "--json", str(out), *options]
    )
    assert code == 0
    return json.loads(out.read_text())


def expected_tokens(model: Path, temperature: float) -> list[dict[str, Any]]:
    """Every response token by a whole forward pass, with exact changes of small steps."""
    policy = AutoModelForCausalLM.from_pretrained(model)
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokens = []
    for row, (question, (score, response)) in enumerate(
        (question, answer)
        for question, answers in zip(QUESTIONS, ANSWERS, strict=True)
        for answer in answers
    ):
        prompt = tokenizer(f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n")[
            "input_ids"
        ]
        answer = tokenizer(response)["input_ids"]
        with torch.no_grad():
            logits = policy(torch.tensor([prompt + answer])).logits[0].double() / temperature
        advantage = 0.866024 if score else -0.866024
        for place, token in enumerate(answer):
            here = logits[len(prompt) - 1 + place]
            distribution = torch.distributions.Categorical(logits=here)
            up, down = (
                dynamics.entropy_change(
                    here[None], torch.tensor([token]), torch.tensor([advantage]).double(), step
                )
                for step in (1e-4, -1e-4)
            )
            tokens.append(
                {
                    "row": row,
                    "advantage": advantage,
                    "surprisal": -float(distribution.log_prob(torch.tensor(token))),
                    "entropy": float(distribution.entropy()),
                    "derivative": float(up - down) / 2e-4,
                }
            )
    return tokens


# The larger share selects too much (precision below 1), the smaller too little (recall below 1).
@pytest.mark.parametrize(("temperature", "top_fraction"), [(1.0, 0.6), (0.5, 0.3)])
def test_the_figures_of_a_batch(
    model: Path,
    tmp_path: Path,
    temperature: float,
    top_fraction: float,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Three positions at a time, so that responses are put together from parts.
    monkeypatch.setattr(overlap, "_CHUNK", 3 * 320)
    file = write(tmp_path / "20.jsonl", rows())
    options = ["--top-fraction", str(top_fraction), "--micro-batches", "1,3,8,100"]
    report = run(model, file, *options, "--temperature", str(temperature))
    printed = capsys.readouterr().out

    tokens = expected_tokens(model, temperature)
    positive = [token for token in tokens if token["advantage"] > 0]
    size = math.ceil(top_fraction * len(positive))
    ranked = sorted(positive, key=lambda token: -token["surprisal"])
    chosen, raising = ranked[:size], [t for t in positive if t["derivative"] > 0]
    hits = [token for token in chosen if token["derivative"] > 0]
    assert 0 < len(hits) < (size if top_fraction == 0.6 else len(raising))

    assert report["rows"] == report["rows_with_chat_markers"] == 8
    assert report["rows_unused"] == {}
    assert report["tokens"] == len(tokens)
    assert report["tokens_positive"] == len(positive)
    assert report["tokens_negative"] == len(tokens) - len(positive)
    assert report["selected"] == size
    assert report["raising_positive"] == len(raising)
    near = {"rel": 1e-3, "abs": 1e-6}
    for name in ("entropy", "surprisal"):
        mean = sum(token[name] for token in tokens) / len(tokens)
        assert report[f"{name}_mean"] == pytest.approx(mean, **near)
    assert 0 < report["critical_surprisal_mean"] < report["entropy_mean"]
    middle = (ranked[size - 1]["surprisal"] + ranked[size]["surprisal"]) / 2
    assert report["threshold"] == pytest.approx(middle, **near)
    assert report["raising_share_of_positive"] == len(raising) / len(positive)
    assert report["raising_share_of_selected"] == len(hits) / size
    assert report["selected_share_of_raising"] == len(hits) / len(raising)
    mass = sum(t["derivative"] for t in hits) / sum(t["derivative"] for t in raising)
    assert report["selected_share_of_raised_entropy"] == pytest.approx(mass, **near)
    total = sum(token["derivative"] for token in tokens)
    assert report["entropy_derivative_mean"] == pytest.approx(total / len(tokens), **near)
    brought = sum(token["derivative"] for token in chosen)
    assert report["break_even_weight"] == pytest.approx(1 - total / brought, **near)

    for rows_each in (1, 3, 8, 100):
        local: list[dict[str, Any]] = []
        for start in range(0, 8, rows_each):
            inside = [t for t in ranked if start <= t["row"] < start + rows_each]
            local += inside[: math.ceil(top_fraction * len(inside))]
        found = report["micro_batches"][str(rows_each)]
        assert found["selected"] == len(local)
        both = [token for token in chosen if token in local]
        assert found["recovered"] == pytest.approx(len(both) / size)
    assert report["micro_batches"]["1"]["recovered"] < 1
    assert report["micro_batches"]["8"]["recovered"] == 1

    assert f"truly raising         {len(hits) / size:>10.1%}" in printed
    assert f"break-even weight     {report['break_even_weight']:>10.4f}" in printed


def test_rows_without_uid_are_grouped_by_prompt(model: Path, tmp_path: Path) -> None:
    with_uid = run(model, write(tmp_path / "a.jsonl", rows()))
    older = [{key: value for key, value in row.items() if key != "uid"} for row in rows()]
    without = run(model, write(tmp_path / "b.jsonl", older))
    del with_uid["rollouts"], without["rollouts"]
    assert with_uid == without


def test_rows_that_cannot_be_used_are_counted(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = run(model, write(tmp_path / "a.jsonl", rows()))
    changes = ({"score": math.nan}, {"output": ""}, {"output": "1+\ufffd"}, {"output": "0" * 300})
    bad = [rows()[0] | {"uid": f"c_{i}_0"} | change for i, change in enumerate(changes)]
    report = run(model, write(tmp_path / "b.jsonl", [*bad[:2], *rows(), *bad[2:]]))
    assert report["rows_unused"] == {
        "score is not finite": 1,
        "empty prompt or response": 1,
        "response was cut inside a character (U+FFFD)": 1,
        "longer than the model's 256 positions": 1,
    }
    assert "1  response was cut inside a character" in capsys.readouterr().out
    for key in ("tokens", "surprisal_mean", "selected_share_of_raising", "break_even_weight"):
        assert report[key] == whole[key]


def test_a_batch_without_preference_selects_nothing(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same = [row | {"score": 1.0} for row in rows()]
    same[0]["input"] = "a prompt of another form"
    report = run(model, write(tmp_path / "a.jsonl", same))
    assert report["rows_with_chat_markers"] == 7
    assert report["tokens_positive"] == report["selected"] == 0
    assert report["raising_share_of_selected"] is None
    assert report["break_even_weight"] is None
    assert report["micro_batches"]["1"] == {"selected": 0, "recovered": None}
    assert report["entropy_mean"] > 0
    assert "break-even weight              -" in capsys.readouterr().out


def test_only_prompts_of_one_user_message_get_their_markers_back(model: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokens, restored = overlap.encode_prompt(tokenizer, f"user\n{QUESTIONS[0]}\nassistant\n")
    message = [{"role": "user", "content": QUESTIONS[0]}]
    wanted = tokenizer.apply_chat_template(message, add_generation_prompt=True)["input_ids"]
    assert (tokens, restored) == (wanted, True)
    for text in (QUESTIONS[0], "user\nassistant\n", "system\nAdd.\nuser\n1\nassistant\n"):
        assert overlap.encode_prompt(tokenizer, text) == (tokenizer(text)["input_ids"], False)


def rollout(score: float, group: str, session: str = "", index: int = 0) -> rollouts.Rollout:
    return rollouts.Rollout("", "", score, group, session or f"{group}{score}", index)


def test_advantages_are_those_of_verl() -> None:
    import numpy
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    scores, groups = [1.0, 0.0, 0.25, 5.0, 3.0, -2.0, 7.0], list("aaabbbc")
    wanted, _ = compute_grpo_outcome_advantage(
        torch.tensor(scores).unsqueeze(-1), torch.ones(7, 1), numpy.array(groups, dtype=object)
    )
    rows = [rollout(score, group) for score, group in zip(scores, groups, strict=True)]
    assert rollouts.group_advantages(rows) == pytest.approx(wanted.squeeze(-1).tolist(), rel=1e-5)


def test_the_last_output_of_a_session_stands_for_it() -> None:
    rows = [
        rollout(9.0, "a", "a_0", index=0),
        rollout(1.0, "a", "a_0", index=10),
        rollout(5.0, "a", "a_0", index=2),
        rollout(0.0, "a", "a_1"),
        rollout(math.nan, "a", "a_2"),
    ]
    # The group is (1, 0): the standard deviation is 0.7071.
    gain = 0.5 / (math.sqrt(0.5) + 1e-6)
    advantages = rollouts.group_advantages(rows)
    assert advantages[:4] == pytest.approx([gain, gain, gain, -gain])
    assert math.isnan(advantages[4])


def test_a_line_separator_in_a_text_does_not_end_the_line(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", [rows()[0] | {"output": "1\u2028+\x852"}])
    assert [row.response for row in rollouts.read(file)] == ["1\u2028+\x852"]


def test_micro_batches_select_exactly_their_own_share() -> None:
    surprisal = torch.tensor([5.0, 4.0, 1.0, 3.0, 2.0, 2.0, 2.0])
    scored = overlap.Scored(
        rows=torch.tensor([0, 0, 1, 2, 3, 3, 3]),
        advantages=torch.ones(7),
        surprisal=surprisal,
        entropy=surprisal,
        s2=surprisal,
        restored=0,
        unused=Counter(),
    )
    positive = torch.tensor([True, True, True, False, True, True, True])
    # Two rows each, half of the tokens: 2 of {5, 4, 1}; 2 of three tied tokens, the 3 not being
    # of positive advantage.
    chosen = overlap.select_by_micro_batch(scored, positive, 2, 0.5)
    assert chosen[:4].tolist() == [True, True, False, False]
    assert int(chosen[4:].sum()) == 2
    # One row each: a row without positive advantage selects nothing.
    chosen = overlap.select_by_micro_batch(scored, positive, 1, 0.1)
    assert chosen[:4].tolist() == [True, False, True, False]
    assert int(chosen[4:].sum()) == 1


ROW = '{"input": "a", "output": "b", "score": 1, "step": 1}\n'
BAD_LINES = {
    "": "no rows",
    "\n \n": "no rows",
    ROW + "{'input'": "rollouts.jsonl:2: not JSON",
    ROW + "[1]\n": "rollouts.jsonl:2: not a JSON object",
    '{"input": "a", "score": 1}\n': "rollouts.jsonl:1: no key 'output'",
    '{"input": "a", "output": "b"}\n': "rollouts.jsonl:1: no key 'score'",
    ROW.replace("1,", "null,", 1): "'score' has the wrong type: NoneType",
    ROW.replace("1,", "true,", 1): "'score' has the wrong type: bool",
    ROW.replace('"b"', "[3]"): "'output' has the wrong type: list",
    ROW + ROW.replace('"step": 1', '"step": 2'): "rows of 2 steps",
    ROW.replace('"b"', '""'): "no row can be used (empty prompt or response: 1)",
}


def refused(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """Standard error of a command that has to fail as bad input, with one line of its own."""
    assert overlap.main(list(options)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    # Bars of transformers and tqdm come first where loading has begun; they end in "\r" or "\n".
    last = captured.err.splitlines()[-1]
    assert last.startswith("overlap: ")
    assert captured.err.count("overlap: ") == 1
    return last


@pytest.mark.parametrize("text", BAD_LINES, ids=list(BAD_LINES.values()))
def test_bad_rollouts_are_named(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    file = tmp_path / "rollouts.jsonl"
    file.write_text(text)
    out = tmp_path / "out.json"
    options = ("--model", str(model), "--rollouts", str(file), "--json", str(out))
    assert BAD_LINES[text] in refused(capsys, *options)
    assert not out.exists()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--rollouts", "nowhere.jsonl", "nowhere.jsonl: No such file or directory"),
        ("--model", "nowhere", "--model nowhere: no config.json there"),
        ("--top-fraction", "0", "--top-fraction 0.0: must be above 0 and at most 1"),
        ("--top-fraction", "nan", "--top-fraction nan"),
        ("--temperature", "0", "--temperature 0.0: must be a finite number above 0"),
        ("--micro-batches", "4,0", "--micro-batches 4,0: must be whole numbers"),
        ("--micro-batches", "4,", "--micro-batches 4,: must be whole numbers"),
        ("--device", "abacus", "--device abacus: Expected one of cpu"),
        ("--json", "nowhere/out.json", "--json nowhere/out.json: nowhere is not a folder"),
    ],
)
def test_bad_options_are_named(
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    option: str,
    value: str,
    message: str,
) -> None:
    file = write(tmp_path / "a.jsonl", rows())
    defaults = {"--model": str(model), "--rollouts": str(file)} | {option: value}
    options = [part for pair in defaults.items() for part in pair]
    assert message in refused(capsys, *options)


def test_a_file_that_is_not_text_is_named(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8 text" in refused(capsys, "--model", str(model), "--rollouts", str(file))


def test_a_model_with_broken_weights_is_named(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = shutil.copytree(model, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"\x00" * 100)
    file = write(tmp_path / "a.jsonl", rows())
    message = refused(capsys, "--model", str(broken), "--rollouts", str(file))
    assert message.startswith(f"overlap: --model {broken}: ")


def test_help_needs_neither_torch_nor_transformers() -> None:
    code = (
        "import sys\n"
        "from verl_stare import overlap\n"
        "try: overlap.main(['--help'])\n"
        "except SystemExit as end: print('code', end.code)\n"
        "print('loaded', *({'torch', 'transformers', 'verl', 'ray', 'hydra'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "python -m verl_stare.overlap --model" in done.stdout
    assert done.stdout.splitlines()[-2:] == ["code 0", "loaded"]
