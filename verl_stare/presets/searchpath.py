"""Puts the presets on Hydra's search path, so that `+stare=long_cot` works with verl's own command.

Installed as a module of the namespace `hydra_plugins` (see pyproject.toml), which every Hydra
program imports: so it costs next to nothing, and the presets come last in the path.
"""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from verl_stare.presets import resolver


class VerlStareSearchPath(SearchPathPlugin):
    """Adds this package's presets to the configuration groups of every Hydra program."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the presets (Hydra's interface)."""
        resolver.register()
        search_path.append(provider="verl-stare", path="pkg://verl_stare.presets")
