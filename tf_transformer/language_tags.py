"""What a value of the setting `language_tags` means, for programs that have no `pydantic`, too."""


def count_tags(language_tags: str) -> int:
    """Returns the number of tags that a source starts with, if the vocabulary has languages.

    Args:
        language_tags: the setting of this name, see `TransformerConfig`.
    """
    return 1 if language_tags == "source" else 2
