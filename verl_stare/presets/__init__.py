"""Hydra config groups: `'hydra.searchpath=[pkg://verl_stare.presets]' +cpu=tiny`."""
