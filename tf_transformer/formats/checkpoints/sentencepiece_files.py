"""The SentencePiece models beside a vocabulary, and tokenizers from both."""

import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from tf_transformer.errors import InputError
from tf_transformer.formats.sentencepiece_ids import read_with_ids
from tf_transformer.formats.vocabulary_rows import VocabularyRows
from tf_transformer.formats.word_vocabulary import SEGMENTED_BEFORE, word_model
from tf_transformer.text.vocabulary import WORD_BEGIN

_SUFFIXES = (".model", ".spm")
# Names that files of each side have, besides that of the language.
_SIDES = (("source", "src"), ("target", "tgt", "trg"))


class Tokenizers(NamedTuple):
    """SentencePiece models with the ids of vocabularies.

    Attributes:
        source: model of the source.
        target: model of the target.
        notes: what the user must know, see `ImportedModel`.
    """

    source: bytes
    target: bytes
    notes: tuple[str, ...]


def make_tokenizers(
    folder: pathlib.Path,
    source: VocabularyRows,
    target: VocabularyRows,
    languages: Sequence[str | None],
    separators: str,
) -> Tokenizers:
    """Makes tokenizers from vocabularies, and the SentencePiece models beside them if there are.

    Without one, or if the vocabulary's entries are not SentencePiece's, texts are split into words.

    Args:
        folder: the folder of the vocabularies.
        source: vocabulary of the source.
        target: vocabulary of the target.
        languages: names of the languages of both sides, if they are known.
        separators: what separates words, a key of `WORD_SEPARATORS`.

    Raises:
        InputError: there are several models, and it is not clear which one belongs to a side; a
            model is damaged or that of another vocabulary; or a vocabulary has faulty entries.
    """
    sides = (source, target)
    paths = _find_models(folder, languages)
    if paths is None or not all(map(_has_word_begins, sides)):
        words = [word_model(side.pieces, separators) for side in sides]
        return Tokenizers(words[0], words[1], (SEGMENTED_BEFORE,))
    (source_model, source_notes), (target_model, target_notes) = (
        read_with_ids(path, side.pieces) for path, side in zip(paths, sides, strict=True)
    )
    return Tokenizers(source_model, target_model, tuple({*source_notes, *target_notes}))


def _has_word_begins(rows: VocabularyRows) -> bool:
    return any(piece.startswith(WORD_BEGIN) for piece in rows.pieces)


def _find_models(
    folder: pathlib.Path, languages: Sequence[str | None]
) -> list[pathlib.Path] | None:
    """Returns the SentencePiece models of both sides, the same one twice if there is one."""
    paths = sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES)
    if len(paths) < 2:
        return paths * 2 or None
    found = []
    for names, language in zip(_SIDES, languages, strict=True):
        wanted = {*names, language}
        matches = [path for path in paths if wanted & set(re.split(r"[._-]", path.name))]
        if len(matches) != 1:
            name = f"{language}.model" if language else f"{names[0]}.model"
            raise InputError(
                f"{folder}: expected one SentencePiece model, or one for each side with names such "
                f"as {name}; found {', '.join(path.name for path in paths)}"
            )
        found += matches
    return found
