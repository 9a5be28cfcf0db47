"""The names of an export's signatures. Importing this needs no TensorFlow."""

from collections.abc import Iterable

from tf_transformer.errors import InputError

SIGNATURES = (
    *("serving_default", "translate_options", "nbest", "nbest_options", "align", "align_options"),
    *("complete", "complete_options", "tokens", "tokens_options", "score", "sample"),
)


def check_signatures(names: Iterable[str]) -> None:
    """Refuses names that are of no signature.

    Raises:
        ValueError: names the first, and all that there are.
    """
    for name in names:
        if name not in SIGNATURES:
            raise InputError(f"No signature {name!r}; there are {', '.join(SIGNATURES)}")
