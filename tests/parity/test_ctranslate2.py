"""Folders that CTranslate2's converter made from Transformers' models, and those models."""

import argparse
import shutil

import numpy as np
import pytest

from tests.parity.checkpoint_parity import SOURCES, TARGETS
from tests.parity.hf_marian_model import write_folder
from tf_transformer import Translator, load_model
from tf_transformer.formats.import_model import import_model
from training.demo.corpus import generate_pairs

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
ctranslate2 = pytest.importorskip("ctranslate2")

pytestmark = [pytest.mark.parity, pytest.mark.slow]


@pytest.mark.representatives("int8")
@pytest.mark.parametrize("quantization", [None, "float16", "int8"])
def test_marian(quantization, tmp_path):
    lines = [list(side) for side in zip(*generate_pairs(1000, seed=1), strict=True)]
    write_folder(tmp_path / "hf", *lines, tags=())
    converter = ctranslate2.converters.TransformersConverter(
        str(tmp_path / "hf"), copy_files=["source.spm", "target.spm"]
    )
    converter.convert(str(tmp_path / "ctranslate2"), quantization=quantization)
    for name in ("hf", "ctranslate2"):
        import_model(tmp_path / name, tmp_path / f"{name}-imported")
    (ours, source, target), (again, source_again, target_again) = (
        load_model(tmp_path / f"{name}-imported") for name in ("hf", "ctranslate2")
    )
    assert source.pieces[4:] == source_again.pieces[4:]
    assert target.pieces[4:] == target_again.pieces[4:]
    rows = source.tokenize(lines[0][:8]).to_tensor()
    inputs = {"source": rows, "target": np.array([[2, 5, 6, 7]] * 8)}
    expected, found = (model(inputs).numpy()[:, :, 3:] for model in (ours, again))
    tolerance = {None: 1e-4, "float16": 0.02, "int8": 0.1}[quantization]
    np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())
    if quantization is None:
        translators = [
            Translator.load(tmp_path / f"{name}-imported", beam_size=1)
            for name in ("hf", "ctranslate2")
        ]
        first, second = (translator(lines[0]) for translator in translators)
        assert first == second


def test_opennmt_py(tmp_path):
    """As Argos' packages are made: the source has no end."""
    from tests.parity.test_opennmt_py import Both

    options = dict(self_attn_type="scaled-dot", add_qkvbias=True, share_embeddings=True)
    both = Both(tmp_path, options, "3", True)
    path = tmp_path / "theirs" / "model_step_5.pt"
    converter = ctranslate2.converters.OpenNMTPyConverter(str(path))
    with torch.serialization.safe_globals([argparse.Namespace]):
        converter.convert(str(tmp_path / "ctranslate2"))
    copied = tmp_path / "ctranslate2" / "sentencepiece.model"
    shutil.copy(tmp_path / "theirs" / "both.model", copied)
    import_model(tmp_path / "ctranslate2", tmp_path / "again")
    again, source, _ = load_model(tmp_path / "again")
    assert not again.config.source_end
    assert (again.config.positions, again.config.norm_position) == ("interleaved", "pre")
    ours, lines = both.ours, [SOURCES[:16], TARGETS[:16]]
    assert source.tokenize(SOURCES).to_list() == ours.source.tokenize(SOURCES).to_list()
    source_ids, target_ids = ours.batch(*lines)
    inputs = {"source": source_ids, "target": target_ids}
    expected, found = (model(inputs).numpy()[:, :, 3:] for model in (ours.model, again))
    np.testing.assert_allclose(found, expected, atol=1e-3)  # epsilon is 1e-5 in CTranslate2
    theirs = ctranslate2.Translator(str(tmp_path / "ctranslate2"), intra_threads=1)
    rows = [source.tokenize([line]).to_list()[0] for line in SOURCES]
    pieces = [[source.pieces[token_id] for token_id in row] for row in rows]
    results = theirs.translate_batch(
        pieces, beam_size=1, max_decoding_length=12, disable_unk=True,
        suppress_sequences=[["<blank>"], ["<s>"]],
    )  # fmt: skip
    translator = Translator.load(
        tmp_path / "again", beam_size=1, max_length_factor=0.0, max_length_constant=12
    )
    expected = ["".join(result.hypotheses[0]).replace("\u2581", " ").strip() for result in results]
    assert translator(SOURCES) == expected
