"""Translations with alignments from a model in TF Serving."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from export.client import Client
from export.markup.aligned_translation import AlignedTranslation, TranslateTexts
from tf_transformer.decoding.search_options import SEARCH_OPTIONS
from tf_transformer.errors import InputError

_OUTPUTS = ("translation", "source_pieces", "target_pieces", "hard_alignment", "truncated")
_PAIR = re.compile("([0-9]{1,6})-([0-9]{1,6})")


def translate_by_server(
    client: Client, options: Mapping[str, Any] | None = None, prefix: str = ""
) -> TranslateTexts:
    """Returns a function that translates texts with the signatures `align` and `align_options`.

    Args:
        client: a client of the server.
        options: search options by name, such as `beam_size`; without any, those of the server.
        prefix: language tags to put before each text, such as `<2de> `.
    """

    def translate(texts: Sequence[str]) -> list[AlignedTranslation]:
        if not texts:
            return []
        signature = "align_options" if options else "align"
        found = client.signatures.get(signature)
        if found is None or set(_OUTPUTS) - found.outputs.keys():
            raise InputError(
                f"markup needs a server with the signature {signature!r} and the outputs "
                f"{', '.join(_OUTPUTS)}"
            )
        inputs: dict[str, Sequence] = {"text": [prefix + text for text in texts]}
        if options:
            values = {option.name: option.unset for option in SEARCH_OPTIONS} | dict(options)
            inputs |= {
                name: [value] * len(texts)
                for name, value in values.items()
                if name in found.inputs or name in options
            }
        outputs = client.predict(inputs, signature)
        columns = [outputs[name] for name in _OUTPUTS]
        return [aligned_translation(*row) for row in zip(*columns, strict=True)]

    return translate


def aligned_translation(
    text: str, source_pieces: str, target_pieces: str, hard_alignment: str, truncated: bool
) -> AlignedTranslation:
    """Returns a row of the signature `align` as values.

    Args:
        text: the translation.
        source_pieces: pieces of the source, separated by spaces.
        target_pieces: pieces of the translation, separated by spaces.
        hard_alignment: pairs `i-j`, separated by spaces.
        truncated: whether the source was truncated.

    Raises:
        OSError: something is not a pair.
    """
    matches = [_PAIR.fullmatch(word) or _refuse(word) for word in hard_alignment.split()]
    # Not `split()`: a piece may contain another kind of space.
    sources, targets = (x.split(" ") if x else [] for x in (source_pieces, target_pieces))
    links = [(int(match[1]), int(match[2])) for match in matches]
    return AlignedTranslation(text, sources, targets, links, bool(truncated))


def _refuse(word):
    raise OSError(f"expected a pair i-j of a hard alignment. Received: {word[:80]!r}")
