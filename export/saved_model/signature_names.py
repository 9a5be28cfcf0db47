"""Names of the exported signatures; needs no TensorFlow."""

from collections.abc import Iterable

from tf_transformer.errors import InputError

SIGNATURES = (
    *("serving_default", "translate_options", "nbest", "nbest_options", "align", "align_options"),
    *("complete", "complete_options", "tokens", "tokens_options", "score", "sample"),
)


def check_signatures(names: Iterable[str]) -> None:
    """Checks that signatures of these names exist.

    Raises:
        InputError: one does not exist; the message lists all that do.
    """
    for name in names:
        if name not in SIGNATURES:
            raise InputError(
                f"Unknown signature. Expected one of {', '.join(SIGNATURES)}. Received: {name!r}"
            )
