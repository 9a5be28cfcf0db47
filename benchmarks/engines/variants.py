"""The table of what is compared: an engine, and how a model directory is written for it.

Another variant of this project is one more row of `VARIANTS` with the options of `export`.
"""

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

from benchmarks import marian_program
from benchmarks.versions import ROOT
from tf_transformer.errors import InputError
from tf_transformer.formats.convert_model import convert_model
from tf_transformer.formats.writers.ctranslate2_writer import save_ctranslate2
from tf_transformer.shortlists.table import read_shortlist, shortlist_lines
from tf_transformer.storage.model_dir import WEIGHTS_NAME, check_model_dir, read_config
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.storage.weights_file import read_arrays

_INPUT_ERROR = 2  # status of `tf-transformer` after an error that it explains in one line
# Options of this benchmark whose files some variants need.
FILES = ("shortlist", "calibrate")
_SHORTLIST = ("--shortlist", "{shortlist}")
_CALIBRATED = ("--dtype", "int8", "--calibrate", "{calibrate}")


class Request(NamedTuple):
    """What a variant is written for.

    Attributes:
        model_dir: the model directory.
        folder: the folder to write, which does not exist.
        beam_size: width of the beam.
        files: paths by the name of the option of this benchmark, such as `shortlist`.
    """

    model_dir: pathlib.Path
    folder: pathlib.Path
    beam_size: int
    files: Mapping[str, pathlib.Path]


class Variant(NamedTuple):
    """A row of the table.

    Attributes:
        engine: name of its class in `translators.ENGINES`.
        write: writes the model, and raises `InputError` if the format cannot hold it.
        python: the Python that has the engine's packages.
        packages: the packages it needs there.
        needs: the files of `Request.files` without which it is left out.
    """

    engine: str
    write: Callable[[Request], None]
    python: str
    packages: tuple[str, ...]
    needs: tuple[str, ...] = ()


def _exported(*options: str) -> Variant:
    """Returns a variant of this project: `export` with options, in which {name} is a file."""

    def write(request):
        words = [sys.executable, "-m", "tf_transformer", "export", "--length-penalty", "1"]
        words += ["--model-dir", str(request.model_dir), "--output", str(request.folder)]
        words += ["--signatures", "serving_default", "--beam-size", str(request.beam_size)]
        words += [option.format(**request.files) for option in options]
        done = subprocess.run(words, env=environment(), capture_output=True, text=True)
        if done.returncode == _INPUT_ERROR:
            raise InputError(done.stderr.strip())
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: status {done.returncode}\n{done.stderr}")

    packages = ("tensorflow", "tensorflow_text")
    needs = tuple(name for name in FILES if f"{{{name}}}" in options)
    return Variant("saved_model", write, sys.executable, packages, needs)


def _ctranslate2(quantization: str | None, has_shortlist: bool = False) -> Variant:
    """Returns a variant of CTranslate2: float32 or quantized, with a shortlist or not."""

    def write(request):
        convert_model(request.model_dir, "ctranslate2", request.folder)
        source, target = check_model_dir(request.model_dir)
        if quantization:
            config = read_config(request.model_dir)
            weights = dict(read_arrays(request.model_dir / WEIGHTS_NAME, weight_shapes(config)))
            pieces = source.pieces, target.pieces
            save_ctranslate2(config, weights, *pieces, request.folder, quantization)
        if has_shortlist:
            table = read_shortlist(request.files["shortlist"], source, target)
            text = "".join(shortlist_lines(table, source, target))
            (request.folder / "vmap.txt").write_text(text, encoding="utf-8")

    packages = ("ctranslate2", "sentencepiece")
    needs = ("shortlist",) if has_shortlist else ()
    return Variant("ctranslate2", write, sys.executable, packages, needs)


def _marian(gemm_type: str | None = None) -> Variant:
    """Returns a variant of Marian: float32, or with matrices of another type."""

    def write(request):
        convert_model(request.model_dir, "marian", request.folder)
        if (request.folder / "source.yml").exists():
            raise InputError("Marian cannot split text into the pieces of this vocabulary")
        if gemm_type:
            try:
                marian_program.pack(request.folder, gemm_type)
            except RuntimeError as error:
                raise InputError(str(error)) from error

    return Variant("marian", write, marian_program.PYTHON, ("pymarian",))


VARIANTS = {
    # Name: the first word is the family, which has a color in the picture.
    "SavedModel float32": _exported("--dtype", "float32"),
    "SavedModel float32, XLA": _exported("--dtype", "float32", "--xla"),
    "SavedModel int8": _exported("--dtype", "int8"),
    "SavedModel float32, shortlist": _exported("--dtype", "float32", *_SHORTLIST),
    "SavedModel float32, XLA, shortlist": _exported("--dtype", "float32", "--xla", *_SHORTLIST),
    "SavedModel int8, shortlist": _exported("--dtype", "int8", *_SHORTLIST),
    "SavedModel int8, calibrated": _exported(*_CALIBRATED),
    "SavedModel int8, calibrated, shortlist": _exported(*_CALIBRATED, *_SHORTLIST),
    "CTranslate2 float32": _ctranslate2(None),
    "CTranslate2 int8": _ctranslate2("int8"),
    "CTranslate2 float32, shortlist": _ctranslate2(None, has_shortlist=True),
    "CTranslate2 int8, shortlist": _ctranslate2("int8", has_shortlist=True),
    "Marian float32": _marian(),
    "Marian int8": _marian("intgemm8"),
}


def environment(threads: int = 1) -> dict[str, str]:
    """Returns the environment variables of the processes, which use no GPU."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "CUDA_VISIBLE_DEVICES": "",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "OMP_NUM_THREADS": str(threads),
    }
