"""The vocabularies of fairseq: `dict.LANGUAGE.txt`."""

import pathlib
import re

from tf_transformer.errors import InputError
from tf_transformer.formats.vocabulary_rows import VocabularyRows
from tf_transformer.printable import shown
from tf_transformer.storage.regular_files import read_regular

PATTERN = "dict.*.txt"
# The largest known dictionary, of 256,000 pieces, takes about 5 MB.
_MAX_BYTES = 2**28
# The ids before those of the file.
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_LANGUAGE = re.compile(r"[\w-][\w.-]*")


def read_dictionary(folder: pathlib.Path, language: str | None) -> VocabularyRows:
    """Reads the vocabulary of a language, a line `ENTRY COUNT` for each id from 4 on.

    The file contains all other ids, those too that fairseq adds to get a multiple of 8
    (`madeupword0000`).

    Args:
        folder: the folder of the file.
        language: name of the language in the name of the file.

    Raises:
        InputError: `language` is not the name of a language, or the file is damaged.
        FileNotFoundError: there is no such file.
    """
    if language is None or not _LANGUAGE.fullmatch(language):
        raise InputError(f"expected the name of a language. Received: {shown(language)}")
    path = folder / f"dict.{language}.txt"
    try:
        text = read_regular(path, _MAX_BYTES).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 ({error})") from error
    entries = dict.fromkeys(_SPECIAL)
    lines = re.split("\r\n|\r|\n", text)
    for number, line in enumerate(lines[:-1] if not lines[-1] else lines, 1):
        entry, _, count = line.rstrip().rpartition(" ")
        if not entry or not re.fullmatch("-?[0-9]+", count):
            raise InputError(f"{path}:{number}: expected ENTRY COUNT, got {shown(line)}")
        if entry in entries:
            raise InputError(f"{path}:{number}: {shown(entry)} occurs twice")
        entries[entry] = None
    return VocabularyRows.of(list(entries), begin=0, pad=1, end=2, unknown=3)
