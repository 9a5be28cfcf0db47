"""Training a vocabulary on a sample of a large corpus."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence

from tf_transformer.text.line_count import LineCounts
from tf_transformer.text.reading import open_text
from tf_transformer.text.text_file import TextFile
from training.config import VocabularyConfig
from training.data.vocabulary import MAX_SENTENCES, train_vocabularies
from training.preparation.processes import phase_bar
from training.prepared.prepared_folder import SentencePieceModels


def train_on_sample(
    files: Sequence[tuple[TextFile | None, TextFile]], counts: LineCounts, config: VocabularyConfig
) -> SentencePieceModels:
    """Trains SentencePiece models on every n-th line: a deterministic sample.

    Args:
        files: pairs of source and target; all sources are None for a language model.
        counts: the counts of all files.
        config: settings of the vocabulary.

    Returns:
        The SentencePiece models of source and target, as `train_vocabularies` returns them.

    Raises:
        InputError: the corpus cannot fill the vocabulary.
    """
    sources, targets = ([file for file in side if file] for side in zip(*files, strict=True))
    return train_vocabularies(sources, targets, config, lambda files: _sample(files, counts))


def _sample(files: Sequence[TextFile], counts: LineCounts) -> Iterator[str]:
    """Yields every n-th line of all files, with a progress bar."""
    num_lines = sum(counts[file.path].lines for file in files)
    stride = -(-num_lines // MAX_SENTENCES)
    with phase_bar("reading for the vocabulary", num_lines // stride, "lines") as progress:
        for file in files:
            for line in _readable_lines(file, stride):
                yield line
                progress.update()


def _readable_lines(file: TextFile, stride: int) -> Iterator[str]:
    """Yields every n-th line of a file, without invalid ones."""
    with open_text(file.path) as lines:
        for number, line in itertools.islice(enumerate(lines, 1), 0, None, stride):
            with contextlib.suppress(ValueError):
                yield file.decode_line(number, line)
