"""The characters that stand for bytes in the pieces of byte-level BPE.

GPT-2 (`bytes_to_unicode` in its encoder.py) writes a printable byte of Latin-1 as that character,
and each of the others as one of the characters from U+0100 on. Here a space is SentencePiece's
symbol for it, instead of GPT-2's U+0120.
"""

SPACE = "\u2581"
_GPT2_SPACE = "\u0120"
_PRINTABLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
# The character of each byte in files.
GPT2_CHARACTERS = tuple(
    chr(byte if byte in _PRINTABLE else 0x100 + _OTHERS.index(byte)) for byte in range(256)
)
# The character of each byte in pieces here.
CHARACTERS = tuple(SPACE if char == _GPT2_SPACE else char for char in GPT2_CHARACTERS)
_BYTES = {character: byte for byte, character in enumerate(CHARACTERS)}


def from_gpt2(name: str) -> str:
    """Returns a piece as it is here, from its name in a file."""
    return name.replace(_GPT2_SPACE, SPACE)


def to_gpt2(piece: str) -> str:
    """Returns the name of a piece in a file, see `from_gpt2`."""
    return piece.replace(SPACE, _GPT2_SPACE)


def text_of(piece: str) -> str:
    """Returns the text of a piece, in which `SPACE` still stands for a space.

    Bytes that are no whole character become U+FFFD. A piece with characters that stand for no byte
    is returned as it is.
    """
    if not all(character in _BYTES for character in piece):
        return piece
    words = piece.split(SPACE)
    return SPACE.join(bytes(map(_BYTES.__getitem__, x)).decode("utf-8", "replace") for x in words)
