"""Folders that CTranslate2's converter made from Transformers' models, and those models."""

import numpy as np
import pytest

from tests.parity.hf_marian_model import write_folder
from tf_transformer import Translator, load_model
from tf_transformer.formats.import_model import import_model
from training.demo.corpus import generate_pairs

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
ctranslate2 = pytest.importorskip("ctranslate2")

pytestmark = [pytest.mark.parity, pytest.mark.slow]


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
