"""The vocabularies of fairseq: `dict.LANGUAGE.txt`."""

import itertools
import pathlib
import re

from tf_transformer.errors import InputError
from tf_transformer.formats.vocabulary_rows import VocabularyRows
from tf_transformer.printable import shown
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.text.reading import decode_text

PATTERN = "dict.*.txt"
# The largest known dictionary, of 256,000 pieces, takes about 5 MB.
_MAX_BYTES = 2**28
# The ids before those of the file.
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_LANGUAGE = re.compile(r"[\w-][\w.-]*")


def find_languages(folder: pathlib.Path, source_size: int, target_size: int) -> tuple[str, str]:
    """Returns the languages of a checkpoint that does not name them, by the sizes of dictionaries.

    Args:
        folder: the folder of the dictionaries.
        source_size: number of ids of the source.
        target_size: number of ids of the target.

    Raises:
        InputError: there are no two dictionaries of these sizes, or it is not clear which is which.
    """
    names = sorted(path.name.split(".", 1)[1].removesuffix(".txt") for path in folder.glob(PATTERN))
    if names == ["source", "target"]:
        return "source", "target"
    sizes = {name: read_dictionary(folder, name).original_size for name in names}
    pairs = [
        pair
        for pair in itertools.permutations(sizes, 2)
        if [sizes[name] for name in pair] == [source_size, target_size]
    ]
    if len(pairs) != 1:
        raise InputError(
            f"{folder}: the checkpoint does not name its languages; expected the dictionaries "
            f"dict.source.txt and dict.target.txt, of {source_size} and {target_size} ids; found "
            f"{', '.join(f'dict.{name}.txt' for name in names[:5]) or 'none'}"
        )
    return pairs[0]


def read_dictionary(folder: pathlib.Path, language: str) -> VocabularyRows:
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
    if not _LANGUAGE.fullmatch(language):
        raise InputError(f"expected the name of a language. Received: {shown(language)}")
    path = folder / f"dict.{language}.txt"
    text = decode_text(read_regular(path, _MAX_BYTES), path)
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
