"""The special token ids, which are the same in every vocabulary."""

PAD_ID = 0
UNKNOWN_ID = 1
BEGIN_ID = 2
END_ID = 3
# The first id of an ordinary piece.
NUM_SPECIAL = 4

# Search and sampling never choose these.
SUPPRESSED_IDS = (PAD_ID, UNKNOWN_ID, BEGIN_ID)
