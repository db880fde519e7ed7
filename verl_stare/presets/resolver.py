"""`${verl_stare.preset:python_tool.yaml}` in a configuration: a file beside the presets.

Resolved where it is read, since nodes may have the package in different places. Needs OmegaConf
only.
"""

from pathlib import Path

from omegaconf import OmegaConf

NAME = "verl_stare.preset"


def register() -> None:
    """Make the interpolation known in this process; again has no effect."""
    OmegaConf.register_new_resolver(NAME, _place, replace=True)


def _place(name: str) -> str:
    path = Path(__file__).resolve().parent / name
    if not path.is_file():
        raise FileNotFoundError(f"{path}: verl_stare has no such preset")
    return str(path)
