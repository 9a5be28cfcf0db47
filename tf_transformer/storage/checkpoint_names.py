"""Names of the checkpoints in a model directory."""

import pathlib
import re

CHECKPOINTS_NAME = "checkpoints"

# The suffix of an empty file that marks a checkpoint between two regular ones.
BETWEEN = ".between"

# Group 1 is the step, without leading zeros and in ASCII digits only, as it is written.
CHECKPOINT_FILE = re.compile(
    rf"step-(0|[1-9][0-9]{{0,17}})(\.index|\.data-[0-9]{{5}}-of-[0-9]{{5}}|{re.escape(BETWEEN)})"
)


def checkpoint_steps(directory: pathlib.Path) -> list[int]:
    """Returns the steps of the checkpoints in a folder, in ascending order."""
    return sorted(
        int(match[1])
        for path in directory.glob("step-*.index")
        if (match := CHECKPOINT_FILE.fullmatch(path.name))
    )
