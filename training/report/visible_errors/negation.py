"""Words that negate, by language.

A report only uses them to find sentences in which a negation may be lost, so rare words are left
out, and so are those that mostly mean something else.
"""

import re

_WORDS = {
    "de": "nicht|nichts|nie|niemals|niemand(?:en|em)?|kein(?:e[rsmn]?)?|nirgend(?:s|wo)|weder|ohne",
    "en": r"not|no|never|none|nobody|nothing|nowhere|neither|nor|cannot|without|\w+n['’]t",
    "es": "no|nunca|jamás|nada|nadie|ning[uú]n[oa]?s?|ni|sin|tampoco",
    "fr": r"ne|pas|jamais|rien|aucune?s?|ni|sans|non|n['’]\w+",
    "it": r"non|mai|niente|nulla|nessun[oa]?|né|senza|ne(?:anche|mmeno|ppure)",
    "nl": "niet|niets|niks|nooit|geen|niemand|nergens|noch|zonder",
    "pl": r"nie|nigdy|nic|niczego|nikt|nikogo|nikomu|nigdzie|bez|ani|żad\w+",
    "pt": r"não|nunca|jamais|nada|ninguém|nenhu(?:m|ns|mas?)|nem|sem|tampouco",
    "ru": r"не|нет|ни|никогда|ничего|ничто|никто|никого|никому|нигде|никуда|никак\w*|без|нельзя",
    "sv": "inte|ej|aldrig|ingen|inget|inga|ingenting|ingenstans|varken",
    "uk": r"не|ні|нема|немає|ніколи|нічого|ніщо|ніхто|нікого|нікому|ніде|нікуди|без|жод\w+",
}
# Without spaces, so parts of words; those of other words are left out before.
_PARTS = {
    "ja": ("ない|なく|なかっ|ません|無|未|非", "少ない|危ない|つまらない|少なく|是非|未来"),
    "zh": (
        "不|没|沒|无|無|未|非|别|勿",
        "非常|特别|分别|区别|别人|级别|未来|非洲|不过|不但|不仅|不错|差不多|对不起",
    ),
}

LANGUAGES = tuple(sorted({*_WORDS, *_PARTS}))


class Negation:
    """Finds negations in text of a language.

    Args:
        language: one of `LANGUAGES`, or a longer name that begins with one, such as "de-AT".
    """

    def __init__(self, language: str):
        self._ignored: re.Pattern[str] | None = None
        code = base_language(language)
        if code in _WORDS:
            self._pattern = re.compile(rf"(?<!\w)(?:{_WORDS[code]})(?!\w)")
        else:
            pattern, ignored = _PARTS[code]
            self._pattern, self._ignored = re.compile(pattern), re.compile(ignored)

    def find(self, text: str) -> str | None:
        """Returns the first word of a text that negates, or None."""
        text = text.lower()
        if self._ignored:
            text = self._ignored.sub(" ", text)
        found = self._pattern.search(text)
        return found[0] if found else None


def base_language(language: str) -> str:
    """Returns the language of a name such as "de-AT" or "zh_Hans", in lower case."""
    return re.split("[-_]", language.lower(), maxsplit=1)[0]


def find_negation(language: str | None) -> Negation | None:
    """Returns the `Negation` of a language; None if it is not given or has no list."""
    if language is None or base_language(language) not in LANGUAGES:
        return None
    return Negation(language)
