"""The members of an untrusted ZIP archive, as PyTorch and NumPy write them.

Python's `zipfile` reads a directory of any size into memory, and does not say where in the archive
a member begins. Here the directory is limited and checked, and stored members can be read in place.
A comment at the end of an archive, which neither of the two writes, is not supported.
"""

import dataclasses
import struct
import zlib
from collections.abc import Iterator

from tf_transformer.formats.tensors.stored_file import FormatError, StoredFile
from tf_transformer.printable import shown

_END = struct.Struct("<4s4H2LH")
_END_64_LOCATOR = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_ZIP64 = 2**32 - 1  # in place of a number that is in the extra field
# A checkpoint has a member for each tensor, optimizer included: at most some 10,000.
_MAX_DIRECTORY_BYTES = 2**24
_MAX_MEMBERS = 100_000
_STORED, _DEFLATED, _ENCRYPTED = 0, 8, 1
_CHUNK = 2**16


@dataclasses.dataclass(frozen=True)
class Member:
    """A file in an archive.

    Attributes:
        name: its name.
        stored: whether its bytes are in the archive as they are; they are deflated otherwise.
        begin: position of its first byte in the archive.
        num_stored: number of bytes in the archive.
        size: number of bytes when inflated.
        crc: CRC-32 of the inflated bytes.
    """

    name: str
    stored: bool
    begin: int
    num_stored: int
    size: int
    crc: int


def is_zip(file: StoredFile) -> bool:
    """Returns whether a file begins like a ZIP archive."""
    return file.size >= 4 and file.read(0, 4) in (b"PK\x03\x04", b"PK\x05\x06")


def read_directory(file: StoredFile) -> dict[str, Member]:
    """Returns the members of an archive by name, in the order of its directory.

    Raises:
        FormatError: the archive is damaged, too large, encrypted, or compressed by a method other
            than deflate, has a name twice or a name that is not UTF-8, or members that overlap.
    """
    num_members, size, begin = _find_directory(file)
    if num_members > _MAX_MEMBERS or size > _MAX_DIRECTORY_BYTES:
        raise FormatError(
            f"expected at most {_MAX_MEMBERS:,} members, named in {_MAX_DIRECTORY_BYTES:,} bytes; "
            f"got {num_members:,} in {size:,} bytes"
        )
    directory = file.read(begin, size)
    members: dict[str, Member] = {}
    headers, position = [], 0
    try:
        for _ in range(num_members):
            member, header, position = _entry(file, directory, position)
            if member.name in members:
                raise FormatError(f"the archive has two members named {shown(member.name)}")
            members[member.name] = member
            headers.append((header, member.begin + member.num_stored))
    except struct.error as error:
        raise FormatError("damaged: the archive's directory is cut off") from error
    position = 0
    for header, end in sorted(headers):
        if header < position:
            raise FormatError("members of the archive overlap")
        position = end
    if position > begin:
        raise FormatError("a member of the archive overlaps its directory")
    return members


def inflate(file: StoredFile, member: Member, max_bytes: int | None = None) -> Iterator[bytes]:
    """Yields the bytes of a member in pieces, never more than the directory declares.

    Args:
        file: the archive.
        member: the member.
        max_bytes: number of bytes from the beginning that are needed; None for all, which checks
            their number and the CRC, too.

    Raises:
        FormatError: the member is damaged, or has more or fewer bytes than the directory declares.
    """
    left = member.size + 1 if max_bytes is None else min(max_bytes, member.size)
    crc = 0
    try:
        for piece in _pieces(file, member, left):
            left -= len(piece)
            crc = zlib.crc32(piece, crc)
            if left == 0 and max_bytes is None:
                raise FormatError(f"{shown(member.name)} is larger than the archive declares")
            yield piece
    except zlib.error as error:
        raise FormatError(f"{shown(member.name)} is damaged ({error})") from error
    if max_bytes is None and (left != 1 or crc != member.crc):
        raise FormatError(f"{shown(member.name)} is damaged")


def _pieces(file: StoredFile, member: Member, left: int) -> Iterator[bytes]:
    """Yields the first `left` bytes of a member, or fewer if there are no more."""
    inflater = None if member.stored else zlib.decompressobj(-zlib.MAX_WBITS)
    position, stop, content = member.begin, member.begin + member.num_stored, b""
    while left > 0:
        if not content and position < stop:
            content = file.read(position, min(_CHUNK, stop - position))
            position += len(content)
        if inflater is None:
            piece, content = content[:left], b""
        else:
            piece = inflater.decompress(content, min(left, _CHUNK))
            content = inflater.unconsumed_tail
        if not piece and not content and position == stop:
            return
        left -= len(piece)
        yield piece


def _find_directory(file: StoredFile) -> tuple[int, int, int]:
    """Returns the number of members, and the size and position of the directory."""
    end = file.size - _END.size
    mark, _, _, _, num_members, size, begin, num_comment = _END.unpack(file.read(end, _END.size))
    if mark != b"PK\x05\x06" or num_comment:
        raise FormatError("damaged, or cut off: no directory is at the end of the ZIP archive")
    if _ZIP64 in (size, begin) or num_members == 2**16 - 1:
        locator = file.read(end - _END_64_LOCATOR.size, _END_64_LOCATOR.size)
        mark, _, end, _ = _END_64_LOCATOR.unpack(locator)
        record = _END_64.unpack(file.read(end, _END_64.size))
        if mark != b"PK\x06\x07" or record[0] != b"PK\x06\x06":
            raise FormatError("damaged: the directory of the ZIP archive is not found")
        num_members, size, begin = record[7:]
    if begin + size > end:
        raise FormatError("damaged: the ZIP archive's directory is outside of it")
    return num_members, size, begin


def _entry(file: StoredFile, directory: bytes, position: int) -> tuple[Member, int, int]:
    """Returns a member, where its header begins, and where the next entry begins."""
    entry = _ENTRY.unpack_from(directory, position)
    mark, _, _, flags, method, _, _, crc, num_stored, size, *lengths = entry[:13]
    begin = entry[-1]
    position += _ENTRY.size
    name_bytes = directory[position : position + lengths[0]]
    extra = directory[position + lengths[0] : position + sum(lengths[:2])]
    position += sum(lengths)
    if mark != b"PK\x01\x02" or position > len(directory):
        raise FormatError("damaged: the archive's directory is cut off")
    try:
        name = name_bytes.decode()
    except UnicodeDecodeError as error:
        raise FormatError("the name of a member of the archive is not UTF-8") from error
    if flags & _ENCRYPTED or method not in (_STORED, _DEFLATED):
        raise FormatError(f"{shown(name)} is encrypted, or compressed by an unknown method")
    size, num_stored, begin = _with_zip64(extra, size, num_stored, begin)
    header = _LOCAL_HEADER.unpack(file.read(begin, _LOCAL_HEADER.size))
    values_begin = begin + _LOCAL_HEADER.size + header[-2] + header[-1]
    if header[0] != b"PK\x03\x04" or (method == _STORED and size != num_stored):
        raise FormatError(f"damaged: the sizes or the header of {shown(name)} are wrong")
    if file.read(begin + _LOCAL_HEADER.size, header[-2]) != name_bytes:
        raise FormatError(f"damaged: {shown(name)} has another name in its header")
    member = Member(name, method == _STORED, values_begin, num_stored, size, crc)
    return member, begin, position


def _with_zip64(extra: bytes, *numbers: int) -> Iterator[int]:
    """Yields the numbers, with those that do not fit replaced by the ones in the extra field."""
    while len(extra) >= 4:
        kind, length = struct.unpack_from("<2H", extra)
        if kind == 1:
            break
        extra = extra[4 + length :]
    large = struct.iter_unpack("<Q", extra[4 : 4 + (length & ~7)]) if len(extra) >= 4 else iter(())
    for number in numbers:
        yield number if number != _ZIP64 else next(large, (number,))[0]
