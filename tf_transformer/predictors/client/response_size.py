"""Limits the number of values in a response, counted in its bytes before it is parsed.

Two bytes of JSON or protobuf can become an object of a hundred bytes. After this check, parsing
takes memory and time in proportion to the requested outputs.
"""

import math
import re
import time

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from tf_transformer.errors import InputError
from tf_transformer.predictors.signature import Signature

# Values allowed per row of an output whose signature has an unknown size.
_UNKNOWN_SIZE_VALUES = 2**16
# A base64 string takes the start of an object, two strings and a comma, and may be in a list of its
# own; a message has a few fields per axis.
_TOKENS_PER_VALUE = 5
_TOKENS_PER_OUTPUT = 100
# Keeps the parsed objects to a few times the maximum size of a response.
_BYTES_PER_TOKEN = 16
# Strings, and the characters that precede every other value but the first, so that there are at
# least as many tokens as values. Characters within a string do not match. The closing quote is
# optional: otherwise a string without one would be searched again from each quote within it.
_JSON_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{,]', re.DOTALL)
_LONGEST_VARINT = 10
# Types whose packed values, of one byte or more, become up to eight bytes each.
_VARINT_TYPES = {
    FieldDescriptor.TYPE_BOOL,
    FieldDescriptor.TYPE_ENUM,
    FieldDescriptor.TYPE_INT32,
    FieldDescriptor.TYPE_INT64,
}
# All bytes of a varint but its last.
_CONTINUED = bytes(range(128, 256))
_COUNT_PER_CLOCK_READ = 2**12  # of fields or tokens
# Wire types of protobuf.
_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5


def max_num_tokens(signature: Signature, num_rows: int, max_response_bytes: int) -> int:
    """Returns how many JSON tokens, or protobuf fields, a response may have.

    Args:
        signature: the signature that was called.
        num_rows: number of rows requested.
        max_response_bytes: maximum size of a response; it bounds the result, since the sizes in
            the signature come from the server.
    """
    count = 1000
    for spec in signature.outputs.values():
        sizes = spec.shape[1:] if spec.shape else (None,)
        values = math.prod(max(size, 1) for size in sizes if size is not None)
        if None in sizes:
            values = max(values, _UNKNOWN_SIZE_VALUES)
        count += _TOKENS_PER_OUTPUT + _TOKENS_PER_VALUE * num_rows * values
    return min(count, max(_UNKNOWN_SIZE_VALUES, max_response_bytes // _BYTES_PER_TOKEN))


def check_json(body: bytes, max_tokens: int, end: float = math.inf) -> None:
    """Checks the number of JSON tokens.

    Args:
        body: bytes that may be JSON.
        max_tokens: maximum number of strings, commas and starts of lists and objects.
        end: time of `time.monotonic` at which to stop.

    Raises:
        InputError: there are more.
        TimeoutError: `end` is reached.
    """
    for num_tokens, _ in enumerate(_JSON_TOKEN.finditer(body), 1):
        if num_tokens > max_tokens:
            raise InputError(f"more than {max_tokens} strings, values or lists")
        _check_time(num_tokens, end)


def check_message(
    body: bytes, descriptor: Descriptor, max_fields: int, end: float = math.inf
) -> None:
    """Checks the number of fields in a protobuf message.

    Packed integers and booleans count as one field each, since they take less space in the message
    than after parsing. Packed floats count as one field together.

    Args:
        body: bytes that may be a message.
        descriptor: descriptor of the message's type.
        max_fields: maximum number of fields, including those of nested messages.
        end: time of `time.monotonic` at which to stop.

    Raises:
        InputError: there are more, or `body` is not a message.
        TimeoutError: `end` is reached.
    """
    num_fields = 0
    unread = [(0, len(body), descriptor)]  # the unread part of each enclosing message
    while unread:
        position, stop, descriptor = unread.pop()
        while position < stop:
            num_fields += 1
            _check_count(num_fields, max_fields)
            _check_time(num_fields, end)
            tag, position = _read_varint(body, position)
            begin, position = position, _skip(body, position, tag & 7)
            if position > stop:
                raise InputError("a field is truncated")
            field = descriptor.fields_by_number.get(tag >> 3)
            if tag & 7 != _SIZED or field is None:
                continue
            if field.message_type is not None:
                unread.append((position, stop, descriptor))
                _, begin = _read_varint(body, begin)
                position, stop, descriptor = begin, position, field.message_type
            elif field.type in _VARINT_TYPES:
                _, begin = _read_varint(body, begin)
                # Most are not even counted: they have at most `_LONGEST_VARINT` bytes each.
                _check_count(num_fields + (position - begin) // _LONGEST_VARINT, max_fields)
                num_fields += len(body[begin:position].translate(None, _CONTINUED))
                _check_count(num_fields, max_fields)


def _check_time(count, end):
    if count % _COUNT_PER_CLOCK_READ == 0 and time.monotonic() > end:
        raise TimeoutError("timed out")


def _check_count(num_fields, max_fields):
    if num_fields > max_fields:
        raise InputError(f"more than {max_fields} fields")


def _skip(body, position, kind):
    """Returns the end of the value that begins at a position."""
    if kind == _VARINT:
        return _read_varint(body, position)[1]
    if kind == _SIZED:
        size, position = _read_varint(body, position)
        return position + size
    if kind in (_EIGHT_BYTES, _FOUR_BYTES):
        return position + (8 if kind == _EIGHT_BYTES else 4)
    raise InputError(f"unknown wire type {kind}")


def _read_varint(body, position):
    """Returns the varint that begins at a position, and its end."""
    number = 0
    for index, byte in enumerate(body[position : position + _LONGEST_VARINT]):
        number |= (byte & 127) << (7 * index)
        if byte < 128:
            return number, position + index + 1
    raise InputError("a varint has no end")
