"""Tokens without a translation, which stand on both sides: emoji, tags, addresses, numbers."""

import tensorflow as tf

from training.noise.draws import choices, integers, uniform

KINDS = ("emoji", "tag", "address", "number")

_DIGITS = "0123456789"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_JOINER = "\u200d"
# None of them is the name of a language tag, which is <2...>, or of <bt>.
_TAG_NAMES = ("a", "b", "g", "i", "p", "s", "u", "x", "ph", "bpt", "ept", "var")
_DOMAINS = ("com", "org", "net", "de", "cn", "fr", "io", "info")


def _emoji() -> list[str]:
    """Returns emoji of one character, with skin tones, joined ones, and flags."""
    ranges = ((0x1F600, 0x1F64F), (0x1F330, 0x1F393), (0x1F400, 0x1F43E), (0x1F680, 0x1F6C5))
    single = [chr(code) for first, last in ranges for code in range(first, last + 1)]
    tones = [
        hand + chr(tone) for hand in "\U0001f44b\U0001f44d\U0001f44f\U0001f64f"
        for tone in range(0x1F3FB, 0x1F400)
    ]  # fmt: skip
    joined = [
        person + _JOINER + thing
        for person in "\U0001f468\U0001f469\U0001f9d1"
        for thing in "\U0001f373\U0001f393\U0001f3eb\U0001f4bb\U0001f52c\U0001f680"
    ]
    flags = [
        "".join(chr(0x1F1E6 + ord(letter) - ord("A")) for letter in country)
        for country in ("BR", "CN", "DE", "ES", "FR", "GB", "IN", "JP", "TR", "US")
    ]
    return [*single, *tones, *joined, *flags, "\u2764\ufe0f", "\u2705", "\u2728"]


_EMOJI = _emoji()


def kinds_of_copies(keys: tf.Tensor) -> tf.Tensor:
    """Returns the index in `KINDS` of each pair's token, `(batch,)`."""
    return integers(keys, "kind of copy", len(KINDS))


def make_copies(keys: tf.Tensor) -> tf.Tensor:
    """Makes a token for each pair, all kinds equally likely.

    Args:
        keys: key of each pair, see `pair_keys`.

    Returns:
        `(batch,)` strings without white space.
    """
    made = [_make_emoji(keys), _make_tags(keys), _make_addresses(keys), _make_numbers(keys)]
    return tf.gather(tf.stack(made, axis=1), kinds_of_copies(keys), batch_dims=1)


def insert_copies(
    source: tf.Tensor, target: tf.Tensor, tokens: tf.Tensor, keys: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Inserts a token into both sides of each pair, at the begin of both or at the end of both.

    There, no word alignment is needed to know where it belongs.

    Args:
        source: `(batch,)` strings; the token follows language tags at the begin.
        target: `(batch,)` strings.
        tokens: `(batch,)` strings.
        keys: key of each pair, see `pair_keys`.

    Returns:
        The new source and target.
    """
    is_first = uniform(keys, "place of copy") < 0.5
    tags = tf.strings.regex_replace(source, rf"(?s)^({_TAGS}).*$", r"\1")
    body = tf.strings.regex_replace(source, f"^{_TAGS}", "", replace_global=False)
    source = _insert(body, tokens, is_first)
    return tf.strings.join([tags, source]), _insert(target, tokens, is_first)


# Language tags (see `text.language_tags`) and others such as <bt> at the begin of a source.
_TAGS = r"\s*(?:(?:<[^<>\s]+>|>>[A-Za-z0-9_-]+<<)\s*)*"


def _insert(text, tokens, is_first):
    text = tf.strings.strip(text)
    return tf.where(
        is_first,
        tf.strings.join([tokens, text], " "),
        tf.strings.join([text, tokens], " "),
    )


def _make_emoji(keys):
    emoji = tf.gather(_EMOJI, integers(keys, "emoji", len(_EMOJI)))
    is_twice = uniform(keys, "emoji twice") < 0.25
    return tf.where(is_twice, tf.strings.join([emoji, emoji]), emoji)


def _make_tags(keys):
    name = tf.gather(_TAG_NAMES, integers(keys, "name of tag", len(_TAG_NAMES)))
    name = tf.strings.join([name, _spell(keys, "number of tag", _DIGITS, 0, 2)])
    forms = [("<", ">"), ("</", ">"), ("<", "/>"), ("{", "}")]
    return choices(
        keys, "form of tag", [tf.strings.join([first, name, last]) for first, last in forms]
    )


def _make_addresses(keys):
    domain = tf.strings.join(
        [
            _spell(keys, "domain", _LETTERS, 3, 9),
            tf.gather(_DOMAINS, integers(keys, "top-level domain", len(_DOMAINS))),
        ],
        ".",
    )
    path = _spell(keys, "path", _LETTERS + _DIGITS, 1, 8)
    return choices(
        keys,
        "form of address",
        [
            tf.strings.join(["https://", domain, "/", path]),
            tf.strings.join(["https://www.", domain, "/", path]),
            tf.strings.join(["www.", domain]),
            tf.strings.join([path, "@", domain]),
        ],
    )


def _make_numbers(keys):
    digits = _spell(keys, "digits", _DIGITS, 3, 8)
    letters = _spell(keys, "letters", _LETTERS.upper(), 1, 3)
    return choices(
        keys,
        "form of number",
        [
            digits,
            tf.strings.join(["#", digits]),
            tf.strings.join([letters, "-", digits]),
            tf.strings.join([letters, digits]),
        ],
    )


def _spell(keys, purpose, alphabet, shortest, longest):
    """Returns words of random length and letters, `(batch,)`."""
    base = len(alphabet)
    powers = tf.constant([base**place for place in range(longest)], tf.int64)
    numbers = integers(keys, purpose, base**longest)[:, tf.newaxis]
    letters = tf.gather(list(alphabet), numbers // powers % base)
    lengths = shortest + integers(keys, f"length of {purpose}", longest - shortest + 1)
    is_within = tf.range(longest, dtype=tf.int64) < lengths[:, tf.newaxis]
    return tf.strings.reduce_join(tf.where(is_within, letters, ""), axis=1)
