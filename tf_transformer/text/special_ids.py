"""The ids that every vocabulary begins with."""

PAD_ID = 0
UNKNOWN_ID = 1
BEGIN_ID = 2
END_ID = 3

# No search outputs these.
SUPPRESSED_IDS = (PAD_ID, UNKNOWN_ID, BEGIN_ID)
