"""The names of samplers and pruners, for `--help`, which does not import Optuna."""

SAMPLERS = ("tpe", "random", "grid")
PRUNERS = ("median", "hyperband", "none")
