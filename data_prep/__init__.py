"""Data preparation: one script a dataset, each a pure ``to_row`` and a thin command line."""
