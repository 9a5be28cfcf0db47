"""Formulas in Markdown as MathML, which browsers display without a script."""

import re

from latex2mathml.converter import convert

_BLOCK = re.compile(r"^\$\$(.+?)\$\$$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<![\\$\w])\$(?!\s)([^$\n]+?)(?<!\s)\$(?![\w$])")
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def convert_blocks(markdown: str) -> str:
    """Converts formulas between `$$` that stand by themselves."""
    return _BLOCK.sub(lambda formula: f"<div>{_mathml(formula[1], 'block')}</div>", markdown)


def convert_all(markdown: str) -> str:
    """Converts formulas between `$$`, and between single `$` within a line; but not in code."""
    parts = _CODE.split(markdown)
    parts[::2] = [
        _INLINE.sub(lambda formula: _mathml(formula[1], "inline"), convert_blocks(part))
        for part in parts[::2]
    ]
    return "".join(parts)


def _mathml(formula: str, display: str) -> str:
    return convert(formula.strip(), display=display)
