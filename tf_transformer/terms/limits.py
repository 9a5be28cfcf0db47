"""Limits of terms and protected spans, and the kinds of spans. Does not import TensorFlow."""

# Entries of a row that are read.
MAX_ENTRIES = 256
# Entries of a text that is translated sentence by sentence.
MAX_TEXT_ENTRIES = 4096
# Distinct phrases of a row: the terms that apply to its source, and its spans.
MAX_PHRASES = 16
MAX_PHRASE_BYTES = 256
MAX_PHRASE_TOKENS = 48
# Words of a source in which source phrases are looked up.
MAX_SOURCE_WORDS = 1000

# The kinds of spans that are copied unchanged, each with its bit of the input `protect`. A span of
# a kind is not looked for within one of an earlier kind.
SPAN_BITS = {"urls": 1, "emails": 2, "placeholders": 4, "numbers": 8}
