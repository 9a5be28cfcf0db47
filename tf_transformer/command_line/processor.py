"""What this machine's processor can do."""

import pathlib
import re

_CPU_INFO = pathlib.Path("/proc/cpuinfo")
# Intel and AMD name their instructions for bfloat16 with a suffix, ARM alone.
_BFLOAT16 = re.compile(r"\b(?:avx512_bf16|amx_bf16|bf16)\b")


def lacks_bfloat16() -> bool:
    """Returns whether the processor is known to have no arithmetic in bfloat16.

    Such a processor converts each number to float32 and back, so that bfloat16 is slower than
    float32. Known is what Linux says of its processors.
    """
    try:
        text = _CPU_INFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    lines = re.findall(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return bool(lines) and not _BFLOAT16.search(lines[0])
