"""The tensors of a file by other names, without some, and with others."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.formats.tensors.tensor_file import TensorFile


class RenamedTensors(Mapping[str, np.ndarray]):
    """The tensors of a file by other names; each access reads one.

    Args:
        file: the file.
        rename: returns the new name of a tensor, or None to leave it out; without it, names stay.

    Attributes:
        path: the file.

    Raises:
        InputError: two tensors get the same name.
    """

    def __init__(self, file: TensorFile, rename: Callable[[str], str | None] | None = None):
        self.path = file.path
        self._file = file
        self._stored_names: dict[str, str] = {}
        self._added: dict[str, np.ndarray] = {}
        for stored_name in file:
            name = stored_name if rename is None else rename(stored_name)
            if name in self._stored_names:
                raise InputError(
                    f"{self.path}: {stored_name} and {self._stored_names[name]} are the same weight"
                )
            if name is not None:
                self._stored_names[name] = stored_name

    def drop(self, name: str) -> None:
        """Leaves out a tensor, if there is one of this name."""
        self._stored_names.pop(name, None)

    def add(self, name: str, array: np.ndarray) -> None:
        """Adds an array, unless there is one of this name."""
        if name not in self:
            self._added[name] = array

    def keep_one(self, names: list[str]) -> None:
        """Keeps one of the copies of a tied weight, by its first name.

        Raises:
            InputError: the copies have different values.
        """
        found = [name for name in names if name in self._stored_names]
        for name in found[1:]:
            if not self.equal(name, found[0]):
                raise InputError(f"{self.path}: {name} must equal {found[0]}, which it is tied to")
        stored_names = [self._stored_names.pop(name) for name in found]
        if found:
            self._stored_names[names[0]] = stored_names[0]

    def equal(self, first: str, second: str) -> bool:
        """Returns whether there are two tensors of these names, with equal values."""
        if first not in self or second not in self:
            return False
        return np.array_equal(self[first], self[second])

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Returns the shape of a tensor of the file; None if there is no such tensor."""
        stored_name = self._stored_names.get(name)
        return None if stored_name is None else self._file.shapes[stored_name]

    def check_rows(self, name: str, size: int) -> None:
        """Checks that a matrix has a row for each entry of a vocabulary.

        Raises:
            InputError: it is missing, or has another number of rows.
        """
        shape = self.shape(name)
        if shape is None or len(shape) != 2 or shape[0] != size:
            raise InputError(
                f"{self.path}: {name} must have a row for each of the {size} entries of the "
                f"vocabulary, got the shape {shape}"
            )

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._added:
            return self._added[name]
        return self._file[self._stored_names[name]]

    def __contains__(self, name: object) -> bool:
        return name in self._stored_names or name in self._added

    def __iter__(self) -> Iterator[str]:
        return iter([*self._stored_names, *self._added])

    def __len__(self) -> int:
        return len(self._stored_names) + len(self._added)
