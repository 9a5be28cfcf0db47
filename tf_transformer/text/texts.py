"""The type check of arguments that are lists of strings."""

from collections.abc import Iterable

from tf_transformer.errors import InputError


def list_of_texts(texts: Iterable[str | bytes], name: str) -> list[str | bytes]:
    """Checks texts and returns them as a list.

    Args:
        texts: strings, or their UTF-8 bytes.
        name: name of the argument, for the error message.

    Raises:
        InputError: `texts` is a single string or not iterable, or an entry is not a string.
    """
    if isinstance(texts, str | bytes):
        raise InputError(
            f"`{name}` must be a list of strings. Received: a single string, {texts[:40]!r}. Put "
            "it into a list"
        )
    try:
        texts = list(texts)
    except TypeError as error:  # for example, of a scalar tensor
        raise InputError(
            f"`{name}` must be a list of strings. Received: {type(texts).__name__}"
        ) from error
    for index, text in enumerate(texts):
        if not isinstance(text, str | bytes):
            raise InputError(
                f"`{name}` must be a list of strings. Received: {type(text).__name__} at index "
                f"{index}"
            )
    return texts
