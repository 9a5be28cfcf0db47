"""What this machine's processor can do, as far as Linux says it."""

import pathlib
import re

_CPU_INFO = pathlib.Path("/proc/cpuinfo")
# Intel and AMD name their instructions for bfloat16 with a suffix, ARM alone.
_BFLOAT16 = re.compile(r"\b(?:avx512_bf16|amx_bf16|bf16)\b")
_AVX512 = re.compile(r"\bavx512f\b")
# Of Intel and AMD, for 512 and 256 bits, and the matrices of Intel's AMX.
_VNNI = re.compile(r"\b(?:avx512_vnni|avx_vnni|amx_int8)\b")


def lacks_bfloat16() -> bool:
    """Returns whether the processor is known to have no arithmetic in bfloat16.

    Such a processor converts each number to float32 and back, so that bfloat16 is slower than
    float32.
    """
    features = _features()
    return bool(features) and not _BFLOAT16.search(features)


def has_avx512() -> bool:
    """Returns whether the processor is known to have AVX-512."""
    return bool(_AVX512.search(_features()))


def has_vnni() -> bool:
    """Returns whether the processor is known to sum 8-bit products in one instruction."""
    return bool(_VNNI.search(_features()))


def _features() -> str:
    """Returns the names of the first processor's features; empty if they are not known."""
    try:
        text = _CPU_INFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    lines = re.findall(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return lines[0] if lines else ""
