"""How far the options of a search go, and where they begin. Importing this needs no TensorFlow."""

MAX_BEAM_SIZE = 1000
# ((5 + n) / 6)^alpha stays finite for any length.
LARGEST_LENGTH_PENALTY = 10.0
LARGEST_COVERAGE_PENALTY = 1e6

DEFAULT_BEAM_SIZE = 4
DEFAULT_LENGTH_PENALTY = 0.6
