"""Finding fonts that have the characters of a text."""

import functools
import importlib.util
import logging
import pathlib

from matplotlib import font_manager, ft2font

_log = logging.getLogger(__name__)

_FIRST = "DejaVu Sans"  # comes with matplotlib


def font_families(text: str) -> list[str]:
    """Returns font families to draw a text with.

    Matplotlib takes each character from the first family that has it. Searches the fonts of the
    system, and of the package `mplfonts` if it is installed. Warns if a character is in none.
    """
    families = [_FIRST]
    missing = {ord(character) for character in text} - _characters(font_manager.findfont(_FIRST))
    missing = {code for code in missing if chr(code).isprintable()}
    for path, family in _fonts() if missing else ():
        found = missing & _characters(path)
        if found:
            families.append(family)
            missing -= found
        if not missing:
            break
    if missing:
        characters = "".join(sorted(map(chr, missing)))[:20]
        _log.warning(
            "No installed font has the characters %s; install one (`pip install mplfonts`, or the "
            "system's package of Noto CJK fonts), or write .html",
            characters,
        )
    return families


@functools.cache
def _characters(path: str) -> frozenset[int]:
    try:
        return frozenset(ft2font.FT2Font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


@functools.cache
def _fonts() -> list[tuple[str, str]]:
    """Returns path and family of all fonts, those for simplified Chinese first."""
    spec = importlib.util.find_spec("mplfonts")
    if spec is not None and spec.submodule_search_locations:
        folder = pathlib.Path(spec.submodule_search_locations[0]) / "fonts"
        for path in sorted(folder.glob("NotoSansCJKsc-*.otf")):
            font_manager.fontManager.addfont(path)
    fonts = {font.fname: font.name for font in font_manager.fontManager.ttflist}
    # Last Resort has a placeholder for every character.
    fonts = {path: name for path, name in fonts.items() if not name.startswith("Last Resort")}
    return sorted(fonts.items(), key=lambda font: ("CJK SC" not in font[1], "CJK" not in font[1]))
