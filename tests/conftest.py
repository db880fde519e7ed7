"""Fixtures shared by tests."""

import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
# The recipes and the data preparation are scripts beside the package, not parts of it.
for folder in (ROOT, ROOT / "recipes" / "demo", ROOT / "recipes" / "tiny"):
    sys.path.insert(0, str(folder))

from tests.support.trainer import Assets  # noqa: E402

# The same examples in every run, however slow; --hypothesis-profile=default draws new ones.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


@pytest.fixture(scope="session")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Assets:
    """A tiny untrained model and 64 problems, as the demo makes them."""
    import subprocess

    import tiny_model
    import warm_start

    folder = tmp_path_factory.mktemp("assets")
    script = ROOT / "data_prep" / "arithmetic.py"
    options = ["--out", str(folder / "data"), "--train-size", "64", "--test-size", "8"]
    subprocess.run([sys.executable, str(script), *options], check=True)
    prompts, _ = warm_start.read_prompts(folder / "data" / "train.parquet")
    tokenizer = tiny_model.build_tokenizer(prompts)
    model = tiny_model.build_model(tokenizer, seed=1)
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    return Assets(folder)
