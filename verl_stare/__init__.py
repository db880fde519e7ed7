"""STARE for verl: surprisal-guided token-level advantage reweighting (arXiv 2606.19236).

Installing this package is enough: verl finds it through its plugin entry point, and
`algorithm.adv_estimator=stare` switches it on. Importing it loads neither verl nor torch, so that
Hydra can read its presets (`pkg://verl_stare.presets`) at no cost.
"""

__version__ = "0.1.0"
