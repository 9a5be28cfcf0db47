"""How much an answer may hold, counted in its bytes before objects are made of them.

Two bytes of JSON or of a message can become an object of a hundred. What is parsed afterwards takes
memory and time that what was asked for accounts for.
"""

import itertools
import math
import re

from google.protobuf.descriptor import Descriptor

from export.client.signature import Signature
from tf_transformer.errors import InputError

# Of one row, in an output whose signature leaves a size open.
_OPEN_VALUES = 2**16
# A string in base64 takes the beginning of an object, two strings and a comma, and may have a list
# of its own; a message has some fields for each axis.
_TOKENS_PER_VALUE = 5
_TOKENS_PER_OUTPUT = 100
# So that objects take a few times what an answer may have in bytes.
_BYTES_PER_TOKEN = 16
# Strings, and what stands before every other value but the first: so there are at least as many as
# values. Within a string there is none.
_JSON_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[{,]', re.DOTALL)
_LONGEST_VARINT = 10
# Kinds of fields on the wire.
_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5


def most_tokens(signature: Signature, num_rows: int, max_response_bytes: int) -> int:
    """Returns how many tokens of JSON, or fields of a message, an answer may have.

    Args:
        signature: whose outputs it holds.
        num_rows: that were asked for.
        max_response_bytes: most bytes of an answer; a signature that a server has sent may say
            anything.
    """
    count = 1000
    for spec in signature.outputs.values():
        sizes = spec.shape[1:] if spec.shape else (None,)
        values = math.prod(max(size, 1) for size in sizes if size is not None)
        if None in sizes:
            values = max(values, _OPEN_VALUES)
        count += _TOKENS_PER_OUTPUT + _TOKENS_PER_VALUE * num_rows * values
    return min(count, max(_OPEN_VALUES, max_response_bytes // _BYTES_PER_TOKEN))


def check_json(body: bytes, max_tokens: int) -> None:
    """Refuses JSON of too many tokens.

    Args:
        body: perhaps JSON.
        max_tokens: most strings, commas and beginnings of lists and objects.

    Raises:
        ValueError: there are more.
    """
    if next(itertools.islice(_JSON_TOKEN.finditer(body), max_tokens, None), None) is not None:
        raise InputError(f"more than {max_tokens} strings, values or lists")


def check_message(body: bytes, descriptor: Descriptor, max_fields: int) -> None:
    """Refuses a message of too many fields; numbers that are packed are one.

    Args:
        body: perhaps a message.
        descriptor: of its type.
        max_fields: most fields of it and of the messages in it together.

    Raises:
        ValueError: there are more, or it is no message.
    """
    num_fields = 0
    rests = [(0, len(body), descriptor)]  # of the messages around one another
    while rests:
        position, end, descriptor = rests.pop()
        while position < end:
            num_fields += 1
            if num_fields > max_fields:
                raise InputError(f"more than {max_fields} fields")
            tag, position = _read_varint(body, position)
            begin, position = position, _skip(body, position, tag & 7)
            if position > end:
                raise InputError("a field is cut off")
            field = descriptor.fields_by_number.get(tag >> 3)
            if tag & 7 == _SIZED and field is not None and field.message_type is not None:
                rests.append((position, end, descriptor))
                _, begin = _read_varint(body, begin)
                position, end, descriptor = begin, position, field.message_type


def _skip(body, position, kind):
    """Where the value ends that begins at a position."""
    if kind == _VARINT:
        return _read_varint(body, position)[1]
    if kind == _SIZED:
        size, position = _read_varint(body, position)
        return position + size
    if kind in (_EIGHT_BYTES, _FOUR_BYTES):
        return position + (8 if kind == _EIGHT_BYTES else 4)
    raise InputError(f"a field of kind {kind}")


def _read_varint(body, position):
    """The number that begins at a position, and where it ends."""
    number = 0
    for index, byte in enumerate(body[position : position + _LONGEST_VARINT]):
        number |= (byte & 127) << (7 * index)
        if byte < 128:
            return number, position + index + 1
    raise InputError("a number without end")
