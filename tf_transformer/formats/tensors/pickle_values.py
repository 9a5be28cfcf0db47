"""What stands for the results of the functions that a pickle of tensors calls.

Each function gets the arguments of the call, from the file, and checks them. It returns a
tensor or a plain value, and calls nothing that a file names.
"""

import numpy as np

from tf_transformer.formats.tensors.dtypes import ITEM_SIZES, NUMPY_NAMES, decode, num_values
from tf_transformer.formats.tensors.stored_file import FormatError
from tf_transformer.formats.tensors.tensor_file import Storage, StoredTensor
from tf_transformer.printable import shown


class NumpyType:
    """A NumPy dtype.

    Args:
        code: its kind and size, such as `f8`.
    """

    def __init__(self, code: str):
        if code not in NUMPY_NAMES:
            raise FormatError(f"contains values of the NumPy type {shown(code)}, not supported")
        self.name, self.code, self.big_endian = NUMPY_NAMES[code], code, False

    def set_state(self, state: object) -> None:
        """Sets the byte order, the second entry of the state of a dtype."""
        match state:
            case (int(), ("<" | ">" | "|" | "=") as order, *_):
                self.big_endian = order == ">"
            case _:
                raise FormatError("damaged: the description of a NumPy type")


class PickledArray:
    """A NumPy array in a pickle, in memory; its values follow after its creation."""

    def __init__(self) -> None:
        self.dtype = ""
        self._values: np.ndarray = np.empty(0)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self._values.shape

    @property
    def num_bytes(self) -> int:
        """Bytes of the values."""
        return self._values.nbytes

    def set_state(self, state: object) -> None:
        """Sets the values from the state of an array."""
        match state:
            case (1, tuple(shape), NumpyType() as kind, bool(fortran), bytes(content)):
                pass
            case _:
                raise FormatError("contains a NumPy array of objects, or a damaged one")
        if num_values(shape) * ITEM_SIZES[kind.name] != len(content):
            raise FormatError("the shape of an array does not match the bytes of its values")
        raw = np.frombuffer(content, np.uint8)
        values = decode(raw, kind.name, big_endian=kind.big_endian)
        self._values = values.reshape(shape, order="F" if fortran else "C")
        self.dtype = kind.name

    def read(self) -> np.ndarray:
        """Returns a copy of the values, see `Tensor`."""
        return np.array(self._values, order="C")


def checked_key(key: object) -> "str | int":
    """Returns the key of a dict.

    Raises:
        FormatError: it is not a string or an integer. For other types hostile files could contain
            many keys with equal hashes, which take quadratic time.
    """
    if type(key) is not str and type(key) is not int:
        raise FormatError(f"contains a dict with keys of type {type(key).__name__}, not supported")
    return key


def make_tensor(*arguments: object) -> StoredTensor:
    """Stands for `_rebuild_tensor` and `_rebuild_tensor_v2`."""
    match arguments:
        case (Storage() as storage, int(start), tuple(shape), tuple(strides), *rest):
            if any(rest[2:]):  # after requires_grad and hooks
                raise FormatError("contains a conjugated or negated tensor, not supported")
            return StoredTensor(storage, start, shape, strides)
    raise FormatError("damaged: the description of a tensor")


def make_parameter(*arguments: object) -> StoredTensor:
    """Stands for `_rebuild_parameter` and `_rebuild_parameter_with_state`."""
    match arguments:
        case (StoredTensor() as tensor, *_):
            return tensor
    raise FormatError("damaged: the description of a parameter")


def make_dict(*arguments: object) -> dict:
    """Stands for `OrderedDict` and `Counter`, which get a dict, or pairs from Python 2."""
    match arguments:
        case ():
            return {}
        case (dict(content),):
            return content
        case (list(pairs),) if all(type(pair) is list and len(pair) == 2 for pair in pairs):
            return {checked_key(key): value for key, value in pairs}
    raise FormatError("damaged: the description of a dict")


def make_empty_dict(*_: object) -> dict:
    """Stands for `defaultdict`, whose entries follow."""
    return {}


def make_list(*arguments: object) -> list:
    """Stands for `set` and `frozenset`, which get a list."""
    match arguments:
        case (list(content),):
            return content
    raise FormatError("damaged: the description of a set")


def make_size(*arguments: object) -> tuple:
    """Stands for `torch.Size`, a tuple."""
    match arguments:
        case (tuple(shape),):
            return shape
    raise FormatError("damaged: the description of a shape")


def make_device(*arguments: object) -> str:
    """Stands for `torch.device`, such as cuda:0."""
    match arguments:
        case (str(kind),):
            return kind
        case (str(kind), int(index)):
            return f"{kind}:{index}"
    raise FormatError("damaged: the description of a device")


def make_bytes(*arguments: object) -> bytes:
    """Stands for `encode`, with which pickles for Python 2 contain bytes."""
    match arguments:
        case (str(text), "latin1"):
            try:
                return text.encode("latin1")
            except UnicodeEncodeError as error:
                raise FormatError("damaged: bytes that are none") from error
    raise FormatError("damaged: the description of bytes")


def make_empty_bytes(*arguments: object) -> bytes:
    """Stands for `bytes` without arguments, with which pickles for Python 2 contain empty bytes."""
    if arguments:
        raise FormatError("damaged: the description of bytes")
    return b""


def make_numpy_type(*arguments: object) -> NumpyType:
    """Stands for `numpy.dtype`; the byte order follows."""
    match arguments:
        case (str(code), *_):
            return NumpyType(code)
    raise FormatError("damaged: the description of a NumPy type")


def make_numpy_scalar(*arguments: object) -> bool | int | float:
    """Stands for a value of a NumPy type."""
    match arguments:
        case (NumpyType() as kind, bytes(content)) if len(content) == ITEM_SIZES[kind.name]:
            order = ">" if kind.big_endian else "<"
            return np.frombuffer(content, np.dtype(f"{order}{kind.code}"))[0].item()
    raise FormatError("damaged: the description of a NumPy value")


def make_numpy_array(*_: object) -> PickledArray:
    """Stands for an empty array; its values follow."""
    return PickledArray()
