"""Translations with alignments from a model in TF Serving."""

from collections.abc import Mapping, Sequence
from typing import Any

from export.client import Client
from export.markup.aligned_translation import (
    AlignedTranslation,
    TranslateTexts,
    aligned_translation,
)
from tf_transformer.decoding.search_options import SEARCH_OPTIONS
from tf_transformer.errors import InputError

_OUTPUTS = ("translation", "source_pieces", "target_pieces", "hard_alignment", "truncated")


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
