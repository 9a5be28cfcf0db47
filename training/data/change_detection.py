"""Detecting changes of the text files that training reads in every epoch."""

from tf_transformer.errors import InputError
from tf_transformer.text.file_state import file_state
from tf_transformer.text.parallel_text import check_parallel, digest
from tf_transformer.text.text_file import TextFile


class ChangeDetector:
    """Detects changes of a parallel corpus since this object was made.

    Args:
        source: the source text; None for a language model.
        target: the target text.
        alignments: their word alignments; None without.

    Attributes:
        num_pairs: number of sentence pairs.
        digest: digest of all sentences and alignments.

    Raises:
        InputError: the texts are not parallel, see `check_parallel`.
    """

    def __init__(
        self, source: TextFile | None, target: TextFile, alignments: TextFile | None = None
    ):
        # Without alignments, the digest is that of versions that had none.
        self._files = (source, target, *([alignments] if alignments else []))
        self._states = self._read_states()
        self.num_pairs = check_parallel(source or target, target)
        self.digest = digest(*self._files)

    def _read_states(self):
        return {file.path: file_state(file.path) for file in self._files if file}

    def check(self) -> None:
        """Reads the texts again if the size or modification time of a file has changed.

        Raises:
            InputError: the sentences have changed; the message names the file.
        """
        states = self._read_states()
        changed = [path for path, state in states.items() if state != self._states[path]]
        if not changed:
            return
        try:
            is_same = digest(*self._files) == self.digest
        except (OSError, ValueError):
            is_same = False
        if not is_same:
            raise InputError(
                f"{changed[0]} has changed during training; restore it and run the same command "
                "again to resume"
            )
        self._states = states
