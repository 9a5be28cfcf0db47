"""The check of what a user hands over as several texts."""

from collections.abc import Iterable

from tf_transformer.errors import InputError


def list_of_texts(texts: Iterable[str | bytes], name: str) -> list[str | bytes]:
    """Returns the texts as a list.

    Args:
        texts: strings, or their UTF-8 bytes.
        name: of the argument, for the message.

    Raises:
        ValueError: no list; one string, which would be taken for as many texts as it has
            characters; or something among the texts that is no string.
    """
    if isinstance(texts, str | bytes):
        raise InputError(
            f"`{name}` must be a list of strings. Received: a single string, {texts[:40]!r}; put "
            "it into a list"
        )
    try:
        texts = list(texts)
    except TypeError as error:  # a tensor of one string, among others
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
