"""An interpreter of the instructions of pickles that build plain values.

They are those of protocols 1 to 5, which https://docs.python.org/3/library/pickletools.html
explains. `pickletools` is not used to decode them, because it has no limits.
"""

import pickletools
import struct
from collections.abc import Callable
from typing import Any

from tf_transformer.formats.tensors.pickle_values import checked_key
from tf_transformer.formats.tensors.stored_file import ByteReader, FormatError
from tf_transformer.printable import shown

# The word counts of a large corpus, which OpenNMT-py stores, have some million entries of 3
# instructions. Together with the limit of containers this bounds the memory to 2 GB.
MAX_INSTRUCTIONS = 20_000_000
# 6 for each tensor.
MAX_CONTAINERS = 1_000_000
# Containers that are being filled at the same time; real files nest about 10.
MAX_MARKS = 1_000
_MAX_TEXT_BYTES = 2**24

_CONSTANTS = {b"N": None, b"\x88": True, b"\x89": False}
_NUMBERS = {b"K": "<B", b"M": "<H", b"J": "<i", b"G": ">d"}
_EMPTY: dict[bytes, Callable[[], object]] = {b")": tuple, b"]": list, b"}": dict, b"\x8f": list}
# The size's format, and whether the bytes are text.
_COUNTED = {
    b"X": ("<I", True),
    b"\x8c": ("<B", True),
    b"\x8d": ("<Q", True),
    b"U": ("<B", True),  # a string of Python 2
    b"T": ("<I", True),
    b"B": ("<I", False),
    b"C": ("<B", False),
    b"\x8e": ("<Q", False),
}
_MEMO = {b"h": "<B", b"j": "<I", b"q": "<B", b"r": "<I"}
_STOP = b"."


class PlainMachine:
    """Reads one pickle of plain values. A subclass adds instructions for others.

    Args:
        reader: the bytes; they are read up to the end of the pickle.
    """

    def __init__(self, reader: ByteReader):
        self._reader = reader
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []  # what was on the stack before each mark
        self._memo: dict[int, Any] = {}
        self._num_containers = 0

    def run(self) -> Any:
        """Returns the value of the pickle.

        Raises:
            FormatError: the pickle is damaged or too large, or contains something else than plain
                values and tensors.
        """
        take, handlers = self._reader.take, self._handlers()
        try:
            for _ in range(MAX_INSTRUCTIONS):
                code = take(1)
                if (handler := handlers.get(code)) is not None:
                    handler()
                elif code == _STOP:
                    return self._result()
                else:
                    raise FormatError(_unknown(code))
        except (IndexError, UnicodeDecodeError) as error:
            raise FormatError("damaged: the pickle is not valid") from error
        raise FormatError(f"contains a pickle of more than {MAX_INSTRUCTIONS:,} instructions")

    def _handlers(self) -> dict[bytes, Callable[[], None]]:
        """Returns what to do for each instruction. Not an attribute, which would be a cycle."""
        return {
            **{code: self._constant(value) for code, value in _CONSTANTS.items()},
            **{code: self._number(layout) for code, layout in _NUMBERS.items()},
            **{code: self._empty(kind) for code, kind in _EMPTY.items()},
            **{code: self._counted(*how) for code, how in _COUNTED.items()},
            **{code: self._get(_MEMO[code]) for code in (b"h", b"j")},
            **{code: self._put(_MEMO[code]) for code in (b"q", b"r")},
            **{bytes([0x84 + count]): self._short_tuple(count) for count in (1, 2, 3)},
            b"\x80": self._protocol,
            b"\x95": self._frame,
            b"\x94": self._memoize,
            b"\x8a": self._long,
            b"I": self._decimal,
            b"L": self._decimal,
            b"(": self._mark,
            b"t": self._tuple,
            b"a": self._append,
            b"e": self._appends,
            b"\x90": self._appends,  # to a set, for which a list stands
            b"\x91": self._frozen_set,
            b"s": self._set_item,
            b"u": self._set_items,
        }

    def _result(self) -> Any:
        if len(self._stack) != 1 or self._below:
            raise FormatError("damaged: the pickle ends too early")
        return self._stack[0]

    # ---- Plain values ----

    def _constant(self, value: object) -> Callable[[], None]:
        return lambda: self._stack.append(value)

    def _number(self, layout: str) -> Callable[[], None]:
        form = struct.Struct(layout)
        return lambda: self._stack.append(self._unpack(form))

    def _unpack(self, form: struct.Struct) -> Any:
        return form.unpack(self._reader.take(form.size))[0]

    def _long(self) -> None:
        content = self._reader.take(self._reader.take(1)[0])
        # Dicts with longer integers as keys can take quadratic time, see `checked_key`.
        if len(content) > 8:
            raise FormatError("contains an integer of more than 64 bits")
        self._stack.append(int.from_bytes(content, "little", signed=True))

    def _decimal(self) -> None:
        """Protocol 1 writes booleans and long integers as decimal digits."""
        text = self._reader.take_line(24).removesuffix(b"L")
        if text in (b"00", b"01"):
            self._stack.append(text == b"01")
            return
        if not text.removeprefix(b"-").isdigit() or not -(2**63) <= int(text) < 2**63:
            raise FormatError("contains an integer of more than 64 bits, or a damaged one")
        self._stack.append(int(text))

    def _counted(self, layout: str, is_text: bool) -> Callable[[], None]:
        form = struct.Struct(layout)

        def handle() -> None:
            if (size := self._unpack(form)) > _MAX_TEXT_BYTES:
                raise FormatError(f"contains a text of more than {_MAX_TEXT_BYTES:,} bytes")
            content = self._reader.take(size)
            self._stack.append(content.decode("utf-8", "surrogatepass") if is_text else content)

        return handle

    # ---- Containers ----

    def _count_container(self) -> None:
        self._num_containers += 1
        if self._num_containers > MAX_CONTAINERS:
            raise FormatError(f"contains more than {MAX_CONTAINERS:,} lists, dicts and tuples")

    def _empty(self, kind: Callable[[], object]) -> Callable[[], None]:
        def handle() -> None:
            self._count_container()
            self._stack.append(kind())

        return handle

    def _mark(self) -> None:
        if len(self._below) >= MAX_MARKS:
            raise FormatError(f"contains values that are nested more than {MAX_MARKS:,} deep")
        self._below.append(self._stack)
        self._stack = []

    def _pop_mark(self) -> list[Any]:
        items, self._stack = self._stack, self._below.pop()
        return items

    def _tuple(self) -> None:
        self._count_container()
        items = self._pop_mark()
        self._stack.append(tuple(items))

    def _short_tuple(self, count: int) -> Callable[[], None]:
        def handle() -> None:
            self._count_container()
            if len(self._stack) < count:
                raise FormatError("damaged: the pickle is not valid")
            self._stack[-count:] = [tuple(self._stack[-count:])]

        return handle

    def _append(self) -> None:
        item = self._stack.pop()
        self._top(list).append(item)

    def _appends(self) -> None:
        items = self._pop_mark()
        self._top(list).extend(items)

    def _frozen_set(self) -> None:
        self._count_container()
        items = self._pop_mark()
        self._stack.append(items)

    def _set_item(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._add(self._top(dict), key, value)

    def _set_items(self) -> None:
        items = self._pop_mark()
        content = self._top(dict)
        if len(items) % 2:
            raise FormatError("damaged: a key without a value")
        for index in range(0, len(items), 2):
            self._add(content, items[index], items[index + 1])

    def _add(self, content: dict, key: object, value: object) -> None:
        if checked_key(key) in content:
            raise FormatError(f"contains a dict with the key {shown(key)} twice")
        content[key] = value

    def _top(self, kind: type) -> Any:
        if type(self._stack[-1]) is not kind:
            raise FormatError(f"damaged: an entry of a {type(self._stack[-1]).__name__}")
        return self._stack[-1]

    # ---- Memo ----

    def _get(self, layout: str) -> Callable[[], None]:
        form = struct.Struct(layout)

        def handle() -> None:
            if (index := self._unpack(form)) not in self._memo:
                raise FormatError("damaged: a reference to a value that does not exist")
            self._stack.append(self._memo[index])

        return handle

    def _put(self, layout: str) -> Callable[[], None]:
        form = struct.Struct(layout)

        def handle() -> None:
            self._memo[self._unpack(form)] = self._stack[-1]

        return handle

    def _memoize(self) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    # ---- Protocol ----

    def _protocol(self) -> None:
        if (version := self._reader.take(1)[0]) > 5:
            raise FormatError(f"contains a pickle of protocol {version}; at most 5 is supported")

    def _frame(self) -> None:
        self._reader.take(8)  # a hint of how much to read at once


def _unknown(code: bytes) -> str:
    names = [opcode.name for opcode in pickletools.opcodes if opcode.code == code.decode("latin-1")]
    if not names:
        return "damaged: a pickle with an unknown instruction"
    return (
        f"contains the pickle instruction {names[0]}, which tensors and plain values do not need; "
        "files that need code to be loaded are refused"
    )
