"""Names of the exported signatures; needs no TensorFlow."""

from collections.abc import Iterable

from tf_transformer.errors import InputError

SIGNATURES = (
    *("serving_default", "translate_options", "nbest", "nbest_options", "align", "align_options"),
    *("complete", "complete_options", "tokens", "tokens_options", "score", "sample"),
)
# Only on request.
TERMS = "terms"
# Only of models with several adapters.
ADAPTED = "adapted"


def check_signatures(names: Iterable[str], has_adapters: bool = False) -> None:
    """Checks that signatures of these names exist.

    Args:
        names: the names.
        has_adapters: whether the model has adapters to choose from.

    Raises:
        InputError: one does not exist; the message lists all that do.
    """
    known = (*SIGNATURES, TERMS, *((ADAPTED,) if has_adapters else ()))
    for name in names:
        if name not in known:
            raise InputError(
                f"Unknown signature. Expected one of {', '.join(known)}. Received: {name!r}"
            )
