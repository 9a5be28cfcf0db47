"""Characters that are not seen, or change how others are seen: shown as marks with their number.

These are control characters, and those that reorder or hide text. The joiners of Persian and Indian
scripts and of emoji are left alone. page/texts.js has the same list.
"""

import re
from collections.abc import Iterator

_HIDDEN = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def split_hidden(text: str) -> Iterator[tuple[str, bool]]:
    """Yields the parts of a text, and whether each is the name of a hidden character."""
    start = 0
    for found in _HIDDEN.finditer(text):
        if found.start() > start:
            yield text[start : found.start()], False
        yield f"U+{ord(found[0]):04X}", True
        start = found.end()
    if start < len(text):
        yield text[start:], False
