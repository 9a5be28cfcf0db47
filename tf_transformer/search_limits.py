"""How far the options of a search go. Importing this needs no TensorFlow."""

MAX_BEAM_SIZE = 1000
# ((5 + n) / 6)^alpha stays finite for any length.
LARGEST_LENGTH_PENALTY = 10.0
LARGEST_COVERAGE_PENALTY = 1e6
