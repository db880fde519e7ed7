"""Rewards for mathematics: the form of the golds, and later their comparison with an answer."""
