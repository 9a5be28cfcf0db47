"""The fields of a protocol buffer's message, without its definition."""

from tf_transformer.formats.tensors.stored_file import FormatError

_MAX_VARINT_BYTES = 10
# How a value is stored: a number of variable size, 8 bytes, a size and so many bytes, 4 bytes.
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_FIXED = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}
_MAX_FIELDS = 1_000


def read_varint(content: bytes, position: int) -> tuple[int, int]:
    """Returns a number of variable size, and the position after it.

    Raises:
        FormatError: it does not end, or is larger than 64 bits.
    """
    number = 0
    for index, byte in enumerate(content[position : position + _MAX_VARINT_BYTES]):
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            if number >= 2**64:
                break
            return number, position + index + 1
    raise FormatError("damaged: a number does not end")


def read_fields(message: bytes) -> dict[int, list[int | bytes]]:
    """Returns the values of each field, by its number, in the order of the message.

    Raises:
        FormatError: it is no message, or has more than a thousand values.
    """
    fields: dict[int, list[int | bytes]] = {}
    position = count = 0
    while position < len(message):
        tag, position = read_varint(message, position)
        kind = tag & 7
        value: int | bytes
        if kind == _VARINT:
            value, position = read_varint(message, position)
        elif kind in _FIXED or kind == _BYTES:
            size = _FIXED.get(kind)
            if size is None:
                size, position = read_varint(message, position)
            content = message[position : position + size]
            if len(content) != size:
                raise FormatError("damaged: a message ends early")
            value = content if kind == _BYTES else int.from_bytes(content, "little")
            position += size
        else:
            raise FormatError("damaged: a field of unknown kind")
        fields.setdefault(tag >> 3, []).append(value)
        count += 1
        if count > _MAX_FIELDS:
            raise FormatError(f"a message of more than {_MAX_FIELDS:,} values")
    return fields


def number_of(fields: dict[int, list[int | bytes]], field: int) -> int:
    """Returns a number, the last one given; 0 if there is none.

    Raises:
        FormatError: it is not a number.
    """
    value = fields.get(field, [0])[-1]
    if not isinstance(value, int):
        raise FormatError("damaged: expected a number in a message")
    return value
