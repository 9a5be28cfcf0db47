"""Folders as those of Firefox's models, with random weights."""

import functools
import pathlib
import tempfile

import numpy as np

from tests.tf_transformer.formats.marian.binary_files import as_binary, as_shortlist, model_items
from tests.tf_transformer.formats.marian.marian_files import HELD, read_npz
from tests.tf_transformer.formats.random_model import (
    STUDENT,
    train_vocabularies,
    write_random_model,
)
from tf_transformer.formats.convert_model import convert_model

MODEL, SHORTLIST = "model.ende.intgemm.alphas.bin", "lex.50.50.ende.s2t.bin"
FIRST = 9


@functools.cache
def student(joint: bool) -> tuple[dict[str, np.ndarray], dict[str, bytes]]:
    """The arrays of a student, as in Marian's `model.npz`, and its vocabularies by side."""
    settings = STUDENT if joint else STUDENT | dict(tied_embeddings="target")
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        write_random_model(
            folder / "ours", train_vocabularies(joint), end_bias=4.0, **(HELD | settings)
        )
        convert_model(folder / "ours", "marian", folder / "theirs")
        sides = {side: (folder / "theirs" / f"{side}.spm") for side in ("source", "target")}
        arrays = read_npz(folder / "theirs" / "model.npz")
        return arrays, {side: path.read_bytes() for side, path in sides.items()}


def candidates(num_sources: int, num_targets: int) -> list[list[int]]:
    """Random target ids of each source id; some have none."""
    random = np.random.default_rng(1)
    counts = random.integers(0, 8, num_sources)
    return [random.choice(num_targets, count, replace=False).tolist() for count in counts]


def write_firefox(folder: pathlib.Path, joint: bool = True, **items) -> list[list[int]]:
    """Writes a folder, and returns the candidates in its shortlist.

    Args:
        folder: the folder to create.
        joint: whether there is one vocabulary.
        **items: arguments of `model_items`.
    """
    arrays, vocabularies = student(joint)
    folder.mkdir()
    if joint:
        (folder / "vocab.ende.spm").write_bytes(vocabularies["source"])
    else:
        (folder / "srcvocab.ende.spm").write_bytes(vocabularies["source"])
        (folder / "trgvocab.ende.spm").write_bytes(vocabularies["target"])
    items = dict(origin="browsermt", alphas=True) | items
    (folder / MODEL).write_bytes(as_binary(model_items(arrays, **items)))
    names = ("Wemb", "Wemb") if joint else ("encoder_Wemb", "decoder_Wemb")
    rows = candidates(*(len(arrays[name]) for name in names))
    (folder / SHORTLIST).write_bytes(as_shortlist(rows, FIRST))
    (folder / "metadata.json").write_text('{"architecture": "tiny"}')
    return rows
