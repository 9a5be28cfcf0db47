"""Whether a raised text is a mark, or a part of the word that it touches.

Parts of words are exponents behind units and variables (m², xⁿ), the ends of ordinal numbers and
abbreviations (1st, XIXe, Mme), isotopes and charges (14C, Na+). All else that is raised and touches
a word is a mark. What could be either, such as 10<sup>6</sup> and 20<sup>c</sup>, is a mark, too:
it stays behind its word then, and the model does not read 106 or 20c.
"""

import re
import unicodedata

FRACTION_SIGNS = ("/", "⁄")
OPENING = "([{"

_INVISIBLE = re.compile("[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
_TOKEN = re.compile(r"[^\W_]+")
# What references are made of: numbers, letters, Roman numbers, doubled letters, and both in one.
_ITEM = re.compile(r"[0-9]{1,4}[a-zA-Z]?|[^\W\d_][0-9]{0,3}|[ivxIVX]{2,5}|([a-z])\1{1,2}")
_WORDS_OF_REFERENCES = frozenset(
    ["see", "n", "nb", "no", "note", "notes", "fn", "ref", "p", "pp", "ff"]
)
_TRADEMARKS = frozenset(["TM", "SM", "MC", "MR"])
_BRACKETED = re.compile(r"(?:\s*\[[^\[\]]+\][,;]?)+\s*")
_NO_SIGNS = re.compile(r"[°′″'\"%‰]+")  # nor are signs of currencies
_CHARGE = re.compile(r"[0-9]*[+−–-]{1,3}|[+−–-][0-9]?")
_FORMULA = re.compile(r"(?:(?<![a-z])[A-Z][a-z]?[0-9]*|[)\]])$")
_CENTS, _DECIMAL_POINT = re.compile(r"[.,][0-9]{2}"), re.compile(r"[0-9][.,]$")
_NUMBER = re.compile(r"[+−–-]?[0-9]+")
_DOUBLED = re.compile(r"[ivx]{2,5}|([a-z])\1{1,2}")

_WORD_BEFORE = re.compile(r"[^\W\d_]+$")
# A two or three raised after these is an exponent, and so is a negative number.
_LENGTHS = frozenset([
    *("km", "hm", "dm", "cm", "mm", "um", "µm", "μm", "nm", "ft", "yd", "mi", "feet", "foot"),
    *("inch", "inches", "yard", "yards", "mile", "miles", "км", "дм", "см", "мм", "ms"),
])  # fmt: skip
# After these, only a negative number is.
_UNITS = frozenset([
    *("ha", "ns", "sec", "min", "kg", "mg", "mol", "cd", "lm", "lx", "sr", "rad", "deg", "Pa"),
    *("Hz", "kHz", "MHz", "kV", "kW", "MW", "mV", "mA", "eV", "MeV", "Wb", "кг"),
])  # fmt: skip
_MATHEMATICS = frozenset([
    *("mc", "dx", "dy", "dz", "dt", "xy", "ln", "lg", "tg", "log", "sin", "cos", "tan", "cot"),
    *("csc", "sinh", "cosh", "tanh", "exp", "det", "lim", "max", "sup", "inf"),
])  # fmt: skip
_BEHIND_NUMBER = re.compile(r"[0-9]\s*[^\W\d_]+$")
_INCHES = re.compile(r"[0-9]\s*in$")
# Single letters that may be no variables: "5G", "20k", "USB-C", "Jan's", "vitamin C", "Mr. K",
# "5 V", "30 °C", "World War I".
_NO_VARIABLE = re.compile(
    r"(?:[^\W_][-‐‑]?|(?:[0-9.]|[^\W\d_]{3,})\s|°)(?!R)[^\W\d_a-zа-яё]$|[0-9]k$|[$£€¥]\s?[0-9.,]+[a-z]$"
    r"|(?:^|\W)I$|[^\W\d_]['’]\w$|(?i:\bn/a)$"
)
# Units that are not squared: "20 g", "5 h", "5,9 l/100 km", "95 g/km", "120 km/h".
_NO_SQUARE = re.compile(r"[0-9](?:\s?[gl]|\s[ht])$|\b(?:l/100\s?km|k?g/km|km/h)$")
_TIMES, _COMPARED = re.compile(r"[0-9]x$"), re.compile(r"\s+(?:[a-z]{2,}er|more|less|as|the)\b")
_ROMAN, _ROMAN_ENDS = re.compile(r"[IVXLCDM]+"), frozenset("eaoºª")
_NOTE_LETTERS, _FIRST_LETTERS = frozenset("abcdfgh"), frozenset("abcdefgh")
_TITLES = frozenset(["Sr", "Dr", "Fr", "St", "Mr", "Ms"])
# The number of an ordinal number: neither a price, a date, nor a decimal.
_PLAIN_NUMBER = re.compile(r"(?:^|[^\w.,:/$£€¥–])[0-9]{1,4}$")
_UP_TO_12 = re.compile(r"(?:^|[^\w.,:/$£€¥–])(?:[0-9]|1[0-2])$")
_CYRILLIC = re.compile(r"[а-яё]")
# Raised behind a period, letters end an abbreviation that is one with them: "N.<sup>o</sup>". All
# else that is raised there is behind the end of a sentence.
_BEFORE_PERIOD = re.compile(r"(?<![^\W_])([^\W\d_]+)\.$")
_ABBREVIATIONS = frozenset([
    *("No", "Nos", "Nro", "Nr", "no", "nos", "nro", "nr", "Da", "Dn", "Dña", "Dr", "Dra", "Dres"),
    *("Sr", "Sra", "Sres", "Srta", "Sta", "Sto", "St", "Ste", "Mr", "Mrs", "Mme", "Mmes", "Mlle"),
    *("Mlles", "Mgr", "Me", "Ve", "Vve", "Cie", "Cía", "Cia", "Profa", "Exma", "Exmo"),
    *("Excma", "Excmo", "Ilma", "Ilmo", "Lcda", "Lcdo", "Ma", "Fco", "Gral", "Eng", "Enga"),
    *("Arqa", "Wm", "Jno", "Thos", "Chas", "Jas", "Jos", "Robt", "Esqr", "Messrs", "dha", "dho"),
])  # fmt: skip
# Ordinal numbers of Spanish and Portuguese, "1.<sup>o</sup>"; before a capital, an "a" is a mark.
_ORDINAL = re.compile(r"(?:^|[^\w.,:/$£€¥–-])[0-9]{1,3}\.$")
_ORDINAL_ENDS = frozenset(["o", "os", "er", "ro", "a", "as", "ra"])
_GOES_ON = re.compile(r"\s*[a-zà-ÿ]")
# A raised number before these is that of an isotope; at the start of a sentence, where it can be
# that of a verse, only before those that are no words such as "He" and "In".
_ELEMENT = re.compile(r"[A-Z][a-z]?(?![^\W_])")
_SURE_ELEMENT = re.compile(
    r"(?:C|N|O|H|F|P|S|K|B|U|Li|Na|Sr|Cs|Co|Th|Ra|Rn|Fe|Tc|Pu|Xe|Kr)(?![^\W_])"
)
_STARTS_SENTENCE = re.compile(r"[.!?…:;。！？][\s\"'”’»)\]]*$")


def visible(text: str) -> str:
    """Returns a text without invisible characters, such as word joiners."""
    return _INVISIBLE.sub("", text)


def is_sign(text: str) -> bool:
    """Returns whether a text has no letter or digit, and is no degree, prime or currency."""
    if _TOKEN.search(text) or _NO_SIGNS.fullmatch(text):
        return False
    return not any(unicodedata.category(char) == "Sc" for char in text)


def is_bracketed(text: str) -> bool:
    """Returns whether a text is in square brackets, as in [1] and [citation needed]."""
    return _BRACKETED.fullmatch(text) is not None


def is_reference(text: str) -> bool:
    """Returns whether a text can be a mark by itself: signs, brackets, numbers and letters."""
    if is_bracketed(text) or text in _TRADEMARKS:
        return True
    tokens = _TOKEN.findall(unicodedata.normalize("NFKC", text))
    return (bool(tokens) or is_sign(text)) and all(
        _ITEM.fullmatch(token) or token.lower() in _WORDS_OF_REFERENCES for token in tokens
    )


def marks_by_raising(text: str, before: str, after: str) -> bool:
    """Returns whether a raised text is a mark.

    Args:
        text: the text, see `visible`.
        before: the text before it, some words of it at least.
        after: the text after it.
    """
    if not before or before[-1].isspace() or before[-1] in OPENING:
        return is_reference(text) and _is_mark_alone(text, before, after)
    text = unicodedata.normalize("NFKC", text)
    is_charge = _CHARGE.fullmatch(text) is not None
    if is_sign(text) or is_charge:
        return not (is_charge and (_FORMULA.search(before) or _is_power(text, before)))
    if is_bracketed(text) or text in _TRADEMARKS:
        return True
    if _TOKEN.search(text) is None:  # such as a degree
        return False
    if re.search(r"\s", text):  # words that are raised are translated
        return is_reference(text)
    if _NUMBER.fullmatch(text):
        is_cents = _DECIMAL_POINT.search(before) is not None and len(text) == 2
        is_times = _TIMES.search(before) is not None and _COMPARED.match(after) is not None
        return not is_cents and (text == "1" or is_times or not _is_power(text, before))
    return not _ends_word(text, before, after)


def starts_sentence(before: str) -> bool:
    """Returns whether a sentence can start behind a text."""
    return not before.strip() or _STARTS_SENTENCE.search(before) is not None


def _is_mark_alone(text, before, after) -> bool:
    """Returns whether a reference that does not touch the word before it is a mark."""
    if is_sign(text) or is_bracketed(text):
        return True
    if after.startswith(FRACTION_SIGNS):
        return False
    if not after or not after[0].isalnum():
        return True
    if not text[0].isdigit():
        return starts_sentence(before) and after[0].isupper()
    return (_SURE_ELEMENT if starts_sentence(before) else _ELEMENT).match(after) is None


def _is_power(text: str, before: str) -> bool:
    """Returns whether a number raised behind a text is an exponent."""
    found = _WORD_BEFORE.search(before)
    if found is None or unicodedata.category(before[-1]) == "Lo":
        return False
    word, is_negative = found[0], not text[0].isdigit()
    if not is_negative and _NO_SQUARE.search(before):
        return False
    if len(word) == 1:
        return _NO_VARIABLE.search(before) is None or (is_negative and text[-1].isdigit())
    if word in _MATHEMATICS or (is_negative and word in _UNITS):
        return True
    is_length = word in _LENGTHS or _INCHES.search(before) is not None
    return is_length and (is_negative or text in ("2", "3"))


def _ends_word(text: str, before: str, after: str) -> bool:
    """Returns whether raised letters are the end of the word before them, or a power of it."""
    word = _WORD_BEFORE.search(before)
    is_plain = text.isalpha()
    is_suffix = is_plain and len(text) > 1 and _DOUBLED.fullmatch(text) is None
    letter = text.lower() if is_plain and len(text) == 1 else ""
    if before[-1].isdigit():
        is_ordinal = (letter == "e" and _PLAIN_NUMBER.search(before)) or (
            letter in ("a", "o") and _UP_TO_12.search(before)
        )
        is_suffix = is_suffix or _CYRILLIC.fullmatch(letter) is not None
        is_hour = letter == "h" and after[:1].isdecimal()
        is_hour = is_hour or _CENTS.fullmatch(text) is not None
        return is_suffix or is_hour or bool(is_ordinal)
    if word is None:
        return _ends_abbreviation(text, before, after)
    if _ROMAN.fullmatch(word[0]) and (is_suffix or letter in _ROMAN_ENDS):
        return True
    if len(word[0]) == 1 and unicodedata.category(before[-1]) != "Lo":
        return "," not in text and _is_balanced(text) and _NO_VARIABLE.search(before) is None
    if len(word[0]) > 3 or unicodedata.category(before[-1]) == "Lo":
        return is_suffix and len(text) < 3
    if not letter:
        return is_suffix
    if word[0] in _UNITS | _LENGTHS and _BEHIND_NUMBER.search(before):
        return letter not in _NOTE_LETTERS
    return letter not in _marking_letters(word[0])


def _ends_abbreviation(text: str, before: str, after: str) -> bool:
    """Returns whether raised letters behind a sign are the end of an abbreviation or a number."""
    found = _BEFORE_PERIOD.search(before)
    if found is not None:
        return found[1] + text in _ABBREVIATIONS
    is_ordinal = text in _ORDINAL_ENDS and _ORDINAL.search(before) is not None
    return is_ordinal and (text[0] != "a" or _GOES_ON.match(after) is not None)


def _is_balanced(text) -> bool:
    return text.count("(") == text.count(")")


def _marking_letters(word: str) -> frozenset[str]:
    """Returns the letters that are marks behind a word of two or three letters.

    Others make abbreviations of it, as in "Wil<sup>m</sup>" and "Sr<sup>a</sup>".
    """
    if word.islower():
        return _FIRST_LETTERS if len(word) == 2 else frozenset("abcdefghijklmnopqrstuvwxyz")
    return _NOTE_LETTERS - {"a"} if word in _TITLES else _FIRST_LETTERS
