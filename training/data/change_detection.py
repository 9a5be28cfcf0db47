"""Texts that are read again and again while a model is trained must stay what they were."""

from tf_transformer.errors import InputError
from tf_transformer.text.text_file import TextFile
from training.data.corpus import check_parallel, digest, file_state


class TextWatch:
    """A parallel corpus as it was, and whether it still is.

    Args:
        source, target: the texts; a language model has no source.

    Attributes:
        num_pairs: of sentences.
        digest: of all of them.

    Raises:
        ValueError: the texts are faulty, see `check_parallel`.
    """

    def __init__(self, source: TextFile | None, target: TextFile):
        self._files = (source, target)
        self._states = self._read_states()
        self.num_pairs = check_parallel(source or target, target)
        self.digest = digest(source, target)

    def _read_states(self):
        return {file.path: file_state(file.path) for file in self._files if file}

    def check(self) -> None:
        """Reads the texts once more where size or time of a file are others.

        Raises:
            ValueError: names the file that is no longer what it was.
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
                f"{changed[0]} has changed while it was trained with; bring it back, and the same "
                "command goes on"
            )
        self._states = states
