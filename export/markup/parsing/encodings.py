"""The characters of a document's bytes."""

import codecs
import re
from typing import NamedTuple

from tf_transformer.errors import InputError
from tf_transformer.printable import shown

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Without a byte order mark, the first characters of XML tell.
_STARTS = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
_PREFIX_BYTES = 1024  # in which HTML looks for the encoding
_XML_ENCODING = re.compile(rb"\A<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})[\"']")
_HTML_ENCODING = re.compile(
    rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE
)
# The encodings of the Encoding Standard that Python has too, by Python's names.
_KNOWN = frozenset(
    [
        "utf-8",
        "utf-16",
        "utf-16-le",
        "utf-16-be",
        "ascii",
        "iso8859-1",
        "iso8859-2",
        "iso8859-3",
        "iso8859-4",
        "iso8859-5",
        "iso8859-6",
        "iso8859-7",
        "iso8859-8",
        "iso8859-9",
        "iso8859-10",
        "iso8859-11",
        "iso8859-13",
        "iso8859-14",
        "iso8859-15",
        "iso8859-16",
        "koi8-r",
        "koi8-u",
        "mac-roman",
        "cp866",
        "cp874",
        "cp1250",
        "cp1251",
        "cp1252",
        "cp1253",
        "cp1254",
        "cp1255",
        "cp1256",
        "cp1257",
        "cp1258",
        "gbk",
        "gb2312",
        "gb18030",
        "big5",
        "euc_jp",
        "iso2022_jp",
        "shift_jis",
        "cp932",
        "euc_kr",
        "cp949",
    ]
)
# In HTML, some names mean larger encodings.
_IN_HTML = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "gb2312": "gbk",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
# Names that Python does not know.
_OTHER_NAMES = {
    "iso-8859-8-i": "iso8859-8",
    "tis-620": "cp874",
    "windows-31j": "cp932",
    "windows-874": "cp874",
    "windows-949": "cp949",
    "x-gbk": "gbk",
    "x-sjis": "cp932",
}


class Encoding(NamedTuple):
    """How a document was written.

    Attributes:
        name: Python's name of the encoding.
        bom: the byte order mark, which may be empty.
    """

    name: str
    bom: bytes = b""

    def encode(self, text: str) -> bytes:
        """Returns the bytes of a document; characters that the encoding lacks become references."""
        return self.bom + text.encode(self.name, "xmlcharrefreplace")


def decode_document(data: bytes, markup: str) -> tuple[str, Encoding]:
    """Returns the characters of a document, and its encoding.

    The encoding is that of the byte order mark, else what the document declares, else UTF-8.

    Args:
        data: the document.
        markup: "html" or "xml".

    Raises:
        InputError: the encoding is unknown, or the bytes are not of this encoding.
    """
    encoding = _find_encoding(data, markup)
    body = memoryview(data)[len(encoding.bom) :]
    try:
        return str(body, encoding.name), encoding
    except UnicodeDecodeError as error:
        raise InputError(
            f"expected text in {encoding.name}, which is declared or the default. Received: bytes "
            f"that are not, at offset {error.start + len(encoding.bom)}"
        ) from error


def _find_encoding(data, markup):
    for bom, name in _BOMS:
        if data.startswith(bom):
            return Encoding(name, bom)
    if markup == "xml":
        for start, name in _STARTS:
            if data.startswith(start):
                return Encoding(name)
    pattern = _XML_ENCODING if markup == "xml" else _HTML_ENCODING
    match = pattern.search(data[:_PREFIX_BYTES])
    if match is None:
        return Encoding("utf-8")
    declared = match[1].decode("ascii", "replace")
    try:
        name = codecs.lookup(_OTHER_NAMES.get(declared.lower(), declared)).name
    except LookupError:
        name = ""
    if name not in _KNOWN:
        raise InputError(f"expected a known encoding, such as utf-8. Received: {shown(declared)}")
    if markup == "html":
        name = _IN_HTML.get(name, name)
    # What can be read as ASCII is not UTF-16.
    return Encoding("utf-8" if name.startswith("utf-16") else name)
