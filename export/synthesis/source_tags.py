"""The language tags of what a multilingual model translates for a synthetic corpus."""

from collections.abc import Sequence

from tf_transformer.inference.translator import Translator
from tf_transformer.text.language_tags import add_tags, check_tag
from tf_transformer.text.text_file import TextFile


def tagged_lines(
    translator: Translator, lines: Sequence[str], numbers: Sequence[int], text: TextFile, tags: str
) -> list[str]:
    """Returns lines as the model reads them.

    Args:
        translator: the translator.
        lines: lines that are not blank.
        numbers: their numbers in the text, for error messages.
        text: the text.
        tags: tags to add, each with a space; "" if the lines have those that the model needs.

    Raises:
        InputError: a line has a tag already, or lacks one that the model needs.
    """
    languages = translator.source_tokenizer.languages
    num_tags = 1 + translator.model.config.num_target_tags
    found = []
    for line, number in zip(lines, numbers, strict=True):
        where = f"{text}:{number}"
        if tags:
            line = add_tags(line.encode(), tags, where).decode()
        else:
            check_tag(line, languages, where, num_tags)
        found.append(line)
    return found
