"""Packages of Argos Translate: a zip archive, or what was unpacked from it.

    NAME/sentencepiece.model    NAME/model/, a folder of CTranslate2    NAME/stanza/ and others

The sentence splitter in `stanza` is not used: this project has its own.
"""

import pathlib
import re
import tempfile

from tf_transformer.errors import InputError
from tf_transformer.formats.tensors.stored_file import FormatError, StoredFile, naming
from tf_transformer.formats.tensors.zip_archive import inflate, read_directory

SUFFIX = ".argosmodel"
WEIGHTS_NAME = "model.bin"
_MODEL, _SENTENCEPIECE = "model", "sentencepiece.model"
_WANTED = re.compile(r"[^/\\]+/(model/[\w-][\w.-]*|sentencepiece\.model)")
# Weights shrink little: what unpacks to much more is no model.
_LARGEST_RATIO = 8


def unpack(path: pathlib.Path) -> tempfile.TemporaryDirectory:
    """Unpacks what is needed of a package into a temporary folder, which its object removes.

    Args:
        path: the archive.

    Raises:
        InputError: it is no such archive, is damaged, or unpacks to more than 8 times its size.
    """
    folder = tempfile.TemporaryDirectory(prefix="argos-")
    with naming(path):
        file = StoredFile(path)
        try:
            members = [x for x in read_directory(file).values() if _WANTED.fullmatch(x.name)]
            size, limit = sum(member.size for member in members), _LARGEST_RATIO * file.size
            if size > limit:
                raise FormatError(f"unpacks to {size:,} bytes; expected at most {limit:,}")
            for member in members:
                target = pathlib.Path(folder.name, member.name.partition("/")[2])
                target.parent.mkdir(exist_ok=True)
                if target.exists():
                    raise FormatError("several folders in one package; expected one")
                with open(target, "xb") as opened:
                    opened.writelines(inflate(file, member))
        finally:
            file.close()
    if not pathlib.Path(folder.name, _MODEL, WEIGHTS_NAME).exists():
        raise InputError(f"{path}: expected NAME/{_MODEL}/{WEIGHTS_NAME} in the package")
    return folder


def weights_path(path: pathlib.Path) -> pathlib.Path:
    """Returns `model.bin` of a folder of CTranslate2, or of a package, or the path of a file."""
    if not path.is_dir():
        return path
    inner = path / _MODEL / WEIGHTS_NAME
    return inner if inner.is_file() else path / WEIGHTS_NAME


def sentencepiece_folder(model: pathlib.Path) -> pathlib.Path:
    """Returns where the SentencePiece models are: in a package beside the model's folder.

    Args:
        model: folder of the model.
    """
    is_package = model.resolve().name == _MODEL and (model.parent / _SENTENCEPIECE).is_file()
    return model.parent if is_package else model
