"""Recognition of the format of another toolkit's model."""

import pathlib
from collections.abc import Iterator

from tf_transformer.errors import InputError
from tf_transformer.formats.checkpoints.fairseq import Fairseq
from tf_transformer.formats.checkpoints.opennmt_py import OpenNMTPy
from tf_transformer.formats.checkpoints.opennmt_tf import OpenNMTTF
from tf_transformer.formats.ctranslate2.reader import CTranslate2
from tf_transformer.formats.foreign_content import NUM_BYTES, describe
from tf_transformer.formats.hf.bart import HFBart
from tf_transformer.formats.hf.folder import CONFIG_NAME, read_model_type
from tf_transformer.formats.hf.indictrans import HFIndicTrans
from tf_transformer.formats.hf.m2m100 import HFM2M100
from tf_transformer.formats.hf.marian import HFMarian
from tf_transformer.formats.hf.mbart import HFMBart
from tf_transformer.formats.hf.pegasus import HFPegasus
from tf_transformer.formats.hf.t5 import HFT5
from tf_transformer.formats.imported_model import ModelFormat
from tf_transformer.formats.keras_hub.reader import KerasHub
from tf_transformer.formats.marian.reader import Marian
from tf_transformer.known_names import nearest
from tf_transformer.printable import shown
from tf_transformer.storage.json_files import read_json
from tf_transformer.storage.regular_files import regular_size

FORMATS: tuple[ModelFormat, ...] = (
    HFMarian(),
    HFM2M100(),
    HFMBart(),
    HFBart(),
    HFT5(),
    HFPegasus(),
    HFIndicTrans(),
    KerasHub(),
    Marian(),
    CTranslate2(),
    Fairseq(),
    OpenNMTPy(),
    OpenNMTTF(),
)
# Files whose content decides on the format of a folder.
_DECIDING = (CONFIG_NAME, "*.npz", "*.pt", "*.index", "model*.bin", "model*.bin.gz")
_MAX_FILES = 20


def find_format(path: pathlib.Path, name: str | None = None) -> ModelFormat:
    """Returns the format of a model.

    Args:
        path: file or folder of the model.
        name: name of the format; None recognizes it.

    Raises:
        InputError: there is no such format, or the model's is not recognized.
        FileNotFoundError: there is no such file or folder.
    """
    path.stat()
    names = {known.name: known for known in FORMATS}
    if name is not None:
        if name not in names:
            raise InputError(
                f"unknown format {name!r}, expected one of {', '.join(names)}{nearest(name, names)}"
            )
        return names[name]
    for known in FORMATS:
        if known.recognizes(path):
            return known
    model_type = read_model_type(path)
    if model_type is not None:
        raise InputError(f"{path}: model_type {shown(model_type)} is not supported")
    _check_deciding_files(path)
    raise InputError(
        f"{path}: not recognized as a model of one of the formats {', '.join(names)}; "
        "name its format, or the file of a model instead of its folder"
    )


def _check_deciding_files(path: pathlib.Path) -> None:
    """Raises an error if a file by which a format is recognized is damaged, or no model."""
    for file in _deciding_files(path):
        regular_size(file)
        with open(file, "rb") as opened:
            if hint := describe(opened.read(NUM_BYTES)):
                raise InputError(f"{file}: {hint}")
        if file.name == CONFIG_NAME:
            read_json(file)


def _deciding_files(path: pathlib.Path) -> Iterator[pathlib.Path]:
    if not path.is_dir():
        yield path
        return
    for pattern in _DECIDING:
        yield from sorted(path.glob(pattern))[:_MAX_FILES]
