"""Translations with alignments from a model in TF Serving."""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from export.markup.aligned_translation import (
    AlignedTranslation,
    TranslateTexts,
    aligned_translation,
)
from tf_transformer.decoding.search_options import SEARCH_OPTIONS
from tf_transformer.errors import InputError
from tf_transformer.predictors.client import Client

_OUTPUTS = ("translation", "source_pieces", "target_pieces", "hard_alignment", "truncated")


def translate_by_server(
    client: Client,
    options: Mapping[str, Any] | None = None,
    prefix: str = "",
    keep_capitals: bool = False,
) -> TranslateTexts:
    """Returns a function that translates texts with the signatures `align` and `align_options`.

    A text in capitals, of two words or more, is sent in lower case with a capital, and its
    translation is written in capitals.

    Args:
        client: a client of the server.
        options: search options by name, such as `beam_size`; without any, those of the server.
        prefix: language tags to put before each text, such as `<2de> `.
        keep_capitals: whether texts in capitals are sent as they are.
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
        is_upper = [not keep_capitals and _is_upper(text) for text in texts]
        sources = [
            text.capitalize() if upper else text
            for text, upper in zip(texts, is_upper, strict=True)
        ]
        inputs: dict[str, Sequence] = {"text": [prefix + source for source in sources]}
        if options:
            values = {option.name: option.unset for option in SEARCH_OPTIONS} | dict(options)
            inputs |= {
                name: [value] * len(texts)
                for name, value in values.items()
                if name in found.inputs or name in options
            }
        outputs = client.predict(inputs, signature)
        columns = [outputs[name] for name in _OUTPUTS]
        rows = [aligned_translation(*row) for row in zip(*columns, strict=True)]
        return [
            row._replace(text=row.text.upper()) if upper else row
            for row, upper in zip(rows, is_upper, strict=True)
        ]

    return translate


def _is_upper(text):
    """Returns whether all letters are capitals, in two words or more, see `find_capitals`."""
    is_upper = text.isupper() and not any(map(_has_no_case, text))
    return is_upper and sum(sum(map(str.isupper, word)) > 1 for word in text.split()) > 1


def _has_no_case(char):
    return unicodedata.category(char) == "Lo" and char not in "ªº"
