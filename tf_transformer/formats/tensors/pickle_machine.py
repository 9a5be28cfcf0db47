"""An interpreter of pickles that builds plain values and tensors, and runs no code.

Python's own `pickle` imports what a file names and calls it. Here a name only selects an entry of
the tables in `pickle_names`; anything else is refused.
"""

from collections.abc import Callable

from tf_transformer.formats.tensors.pickle_names import CALLS, CLASSES, Name, find_name
from tf_transformer.formats.tensors.pickle_values import NumpyType, PickledArray
from tf_transformer.formats.tensors.plain_machine import PlainMachine
from tf_transformer.formats.tensors.stored_file import ByteReader, FormatError
from tf_transformer.printable import shown

# What calls and states copy. A value can be referred to many times, and would be copied as often.
MAX_COPIED_BYTES = 2**28
_ENTRY_BYTES = 64
_MAX_LINE_BYTES = 1_000
_MAX_ARGUMENTS = 16  # a tensor has 7, the state of a NumPy type 8 or 9


class PickleMachine(PlainMachine):
    """Reads one pickle of plain values, tensors, and objects of the classes in `pickle_names`.

    Args:
        reader: the bytes; they are read up to the end of the pickle.
        find_storage: returns the storage that a persistent id stands for.
    """

    def __init__(self, reader: ByteReader, find_storage: Callable[[object], object]):
        super().__init__(reader)
        self._find_storage = find_storage
        # Objects of known classes: id, and the dict of attributes that stands for it.
        self._objects: dict[int, dict] = {}
        self._num_copied = 0

    def _handlers(self) -> dict[bytes, Callable[[], None]]:
        return super()._handlers() | {
            b"c": self._global,
            b"\x93": self._stack_global,
            b"R": self._reduce,
            b"\x81": self._new_object,
            b"b": self._build,
            b"Q": self._persistent,
        }

    def _global(self) -> None:
        module, name = (self._reader.take_line(_MAX_LINE_BYTES).decode() for _ in range(2))
        self._stack.append(find_name(module, name))

    def _stack_global(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise FormatError("damaged: a name that is not text")
        self._stack.append(find_name(module, name))

    def _reduce(self) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        if isinstance(arguments, tuple):
            self._check_arguments(arguments)
        match function, arguments:
            case Name("copyreg._reconstructor"), (Name() as kind, Name("builtins.object"), None):
                self._stack.append(self._new(kind))
            case Name("functools.partial"), tuple():
                self._stack.append(self._new(function))
            case Name(), tuple() if function in CALLS:
                self._count_container()
                self._stack.append(CALLS[function](*arguments))
            case _:
                raise FormatError(f"calls {shown(function)}, which is not supported")

    def _new_object(self) -> None:
        arguments, kind = self._stack.pop(), self._stack.pop()
        if not isinstance(kind, Name) or arguments != ():
            raise FormatError(f"creates {shown(kind)}, which is not supported")
        self._stack.append(self._new(kind))

    def _new(self, kind: Name) -> dict:
        if kind not in CLASSES:
            raise FormatError(f"creates {shown(kind)}, which is not supported")
        self._count_container()
        attributes: dict = {}
        self._objects[id(attributes)] = attributes
        return attributes

    def _build(self) -> None:
        """Sets the state of an object. Others than dicts have no attributes that are needed."""
        state = self._stack.pop()
        target = self._stack[-1]
        if id(target) in self._objects:
            if isinstance(state, dict):
                self._count_copied(_ENTRY_BYTES * len(state))
                target.update(state)
        elif isinstance(target, NumpyType | PickledArray) and isinstance(state, tuple):
            self._check_arguments(state)
            target.set_state(state)
        elif not isinstance(target, dict):  # an `OrderedDict`: its attributes, such as _metadata
            raise FormatError(f"sets the state of a {type(target).__name__}, not supported")

    def _check_arguments(self, arguments: tuple) -> None:
        if len(arguments) > _MAX_ARGUMENTS:
            raise FormatError(f"contains a call with {len(arguments):,} arguments, not supported")
        for argument in arguments:
            if isinstance(argument, str | bytes):
                self._count_copied(len(argument))
            elif isinstance(argument, list):
                self._count_copied(_ENTRY_BYTES * len(argument))

    def _count_copied(self, num_bytes: int) -> None:
        self._num_copied += num_bytes
        if self._num_copied > MAX_COPIED_BYTES:
            raise FormatError("contains the same values too many times")

    def _persistent(self) -> None:
        self._stack.append(self._find_storage(self._stack.pop()))
