"""Hydra config groups, on every Hydra program's search path: `+stare=long_cot`, `+cpu=tiny`."""
