"""Names of the exported signatures; needs no TensorFlow."""

from collections.abc import Collection

from tf_transformer.errors import InputError
from tf_transformer.known_names import nearest

SIGNATURES = (
    *("serving_default", "translate_options", "nbest", "nbest_options", "align", "align_options"),
    *("complete", "complete_options", "tokens", "tokens_options", "score", "sample"),
)
# Exported only if they are named.
DOCUMENT, DOCUMENT_OPTIONS, TERMS = "document", "document_options", "terms"
DOCUMENT_TERMS = "document_terms"
DOCUMENTS = (DOCUMENT, DOCUMENT_OPTIONS, DOCUMENT_TERMS)
OPTIONAL = (*DOCUMENTS, TERMS)
# Only of models with several adapters.
ADAPTED = "adapted"
# Only with a calibration of confidences.
CONFIDENCE = "confidence"
# Only with a classifier of languages.
LANGUAGE = "language"
# What these signatures need.
_NEEDED_FILES = {
    ADAPTED: "--adapters NAME=F, files of `train --lora`",
    CONFIDENCE: "--confidence F, a file of `train-confidence`",
    LANGUAGE: "--language-id F, a file of `train-language-id`",
}
# Stands for all that are exported without a choice.
ALL = "all"


def expand_signatures(names: Collection[str], added: Collection[str] = ()) -> list[str]:
    """Returns names of signatures, each once, with those that `all` stands for.

    Args:
        names: the names.
        added: the signatures that adapters or other files add to those of every model.

    Raises:
        InputError: one does not exist; the message lists all that do.
    """
    default = (*SIGNATURES, *added)
    known = (ALL, *default, *OPTIONAL)
    for name in names:
        if name in _NEEDED_FILES and name not in known:
            raise InputError(f"The signature {name!r} needs {_NEEDED_FILES[name]}.")
        if name not in known:
            raise InputError(
                f"Unknown signature. Expected one of {', '.join(known)}. Received: {name!r}"
                + nearest(name, known)
            )
    expanded = [name for given in names for name in (default if given == ALL else [given])]
    return list(dict.fromkeys(expanded))
