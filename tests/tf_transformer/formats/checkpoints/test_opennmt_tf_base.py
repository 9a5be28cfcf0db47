"""A model of OpenNMT-tf's catalog in its own size, as a run leaves it."""

import numpy as np
import pytest

from tests.parity.checkpoint_parity import (
    SOURCES,
    TARGETS,
    Imported,
    pieces_of,
    write_sentencepiece,
)
from tests.tf_transformer.formats.checkpoints import opennmt_tf_model as original
from tf_transformer.__main__ import main

pytestmark = pytest.mark.slow

MAX_LENGTH = 12


@pytest.mark.exhaustive
def test_the_base_model_of_the_catalog(tmp_path, capsys):
    """The sizes of OpenNMT-tf's WMT tutorial but for the vocabulary: a run's folder as it is."""
    sizes = dict(num_layers=(6, 6), num_units=512, num_heads=8, ffn_inner_dim=2048)
    options = original.OPTIONS | sizes
    theirs, ours = tmp_path / "run", tmp_path / "ours"
    theirs.mkdir()
    processor = write_sentencepiece(theirs / "wmtende.model", SOURCES + TARGETS)
    entries = [*original.SPECIAL, *pieces_of(processor), "<unk>"]
    for side in ("features", "labels"):
        path = theirs / f"model_examples_inputter_{side}_inputter_embedding.txt"
        path.write_text("".join(f"{entry}\n" for entry in entries), encoding="utf-8")
    (theirs / "model_description.py").write_text(
        "from opennmt import models\n"
        'model = lambda: models.get_model_from_catalog("TransformerBase")\n'
    )
    variables = original.random_variables(options, len(entries), len(entries))
    for variable, value in variables.items():  # of the size that training leaves them
        if variable.endswith("kernel"):
            value /= 8
    original.save_checkpoint(theirs, variables, step=500_000)
    assert main(["import", "--input", str(theirs), "--model-dir", str(ours)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2  # and no notes
    imported = Imported(ours, entries, entries, special=["<blank>", "<unk>", "<s>", "</s>"])
    reference = original.Reference(options, variables)
    source, target = imported.batch(SOURCES[:4], TARGETS[:4])
    computed = np.asarray(imported.model({"source": source, "target": target}))
    for text, ids, found in zip(SOURCES, target, computed, strict=False):
        ids = ids[ids != 0]
        rows = [entries.index(piece) for piece in processor.encode(text, out_type=str)]
        expected = reference.logits(rows, imported.target_rows[ids])
        assert np.abs(expected).max() > 1
        np.testing.assert_allclose(found[: len(ids)], expected[:, imported.target_rows], atol=1e-4)
    assert len(imported.translate(SOURCES[:4], MAX_LENGTH)) == 4
