"""CRC-32C (Castagnoli), the checksum in TensorFlow's checkpoints, computed with NumPy.

Without its initial and final inversion, the checksum of bytes is linear over GF(2), so that the
parts of a text are computed side by side, and joined by operators that append zero bytes.
"""

import functools

import numpy as np

_POLYNOMIAL = 0x82F63B78  # bits reversed
_NUM_BITS = 32
_INVERSION = np.uint32(0xFFFFFFFF)
# Bytes that are computed at a time, in at most so many parts.
_CHUNK, _MAX_PARTS = 2**24, 2**14
# Stored checksums are rotated and shifted, since data with a checksum inside has a trivial one.
_MASK_DELTA, _MASK_ROTATION = 0xA282EAD8, 15


def crc32c(data: np.ndarray) -> int:
    """Returns the checksum of bytes.

    Args:
        data: uint8, `(num_bytes,)`.
    """
    state = np.full(1, _INVERSION)
    for begin in range(0, len(data), _CHUNK):
        chunk = data[begin : begin + _CHUNK]
        state = _append_zeros(state, len(chunk)) ^ _linear(chunk)
    return int(state[0] ^ _INVERSION)


def unmasked(stored: int) -> int:
    """Returns the checksum that a stored number stands for."""
    rotated = (stored - _MASK_DELTA) % 2**_NUM_BITS
    return (rotated >> (_NUM_BITS - _MASK_ROTATION) | rotated << _MASK_ROTATION) % 2**_NUM_BITS


def _linear(chunk: np.ndarray) -> np.ndarray:
    """Returns the checksum without inversions, `(1,)`, which zero bytes in front do not change."""
    num_parts = min(1 << (len(chunk).bit_length() // 2 + 2), _MAX_PARTS)
    size = -(-len(chunk) // num_parts)
    padded = np.zeros(num_parts * size, np.uint8)
    padded[len(padded) - len(chunk) :] = chunk
    states, table = np.zeros(num_parts, np.uint32), _byte_table()
    for column in np.ascontiguousarray(padded.reshape(num_parts, size).T):
        states = table[(states ^ column) & 0xFF] ^ (states >> 8)
    while len(states) > 1:
        states = _append_zeros(states[::2], size) ^ states[1::2]
        size *= 2
    return states


@functools.cache
def _byte_table() -> np.ndarray:
    """Returns what each byte adds to the checksum, `(256,)`."""
    table: np.ndarray = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> 1) ^ (table & 1) * np.uint32(_POLYNOMIAL)
    return table


def _append_zeros(states: np.ndarray, num_bytes: int) -> np.ndarray:
    """Returns the linear checksums of texts with zero bytes appended."""
    for position in range(num_bytes.bit_length()):
        if num_bytes >> position & 1:
            states = _apply(_zeros_operator(position), states)
    return states


@functools.cache
def _zeros_operator(exponent: int) -> np.ndarray:
    """Returns the images of single bits, `(32,)`, when 2**exponent zero bytes are appended."""
    if exponent == 0:
        bits = np.uint32(1) << np.arange(_NUM_BITS, dtype=np.uint32)
        return _byte_table()[bits & 0xFF] ^ (bits >> 8)
    half = _zeros_operator(exponent - 1)
    return _apply(half, half)


def _apply(operator: np.ndarray, states: np.ndarray) -> np.ndarray:
    result = np.zeros_like(states)
    for bit in range(_NUM_BITS):
        result ^= (states >> np.uint32(bit) & 1) * operator[bit]
    return result
