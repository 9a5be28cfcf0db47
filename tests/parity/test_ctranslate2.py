"""Folders that CTranslate2's converter made from Transformers' models, and those models."""

import argparse
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.parity.checkpoint_parity import SOURCES, TARGETS
from tests.parity.hf_m2m100_model import write_folder as write_multilingual
from tests.parity.hf_marian_model import write_folder
from tf_transformer import Translator, load_model
from tf_transformer.formats.import_model import import_model
from training.demo.corpus import generate_pairs

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
ctranslate2 = pytest.importorskip("ctranslate2")

pytestmark = [pytest.mark.parity, pytest.mark.slow]
NUM_TRANSLATED = 300


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


LANGUAGES = {
    "m2m100": ("__de__", "__en__"),
    "nllb": ("deu_Latn", "eng_Latn"),
    "nllb_saved": ("deu_Latn", "eng_Latn"),
}


def vocabulary_with_codes(loader, model, tokenizer):
    """As CTranslate2 has it from Transformers 4, whose tokenizer of M2M100 names its codes."""
    base = ctranslate2.converters.transformers.BartLoader
    tokens = base.get_vocabulary(loader, model, tokenizer)
    tokens += [code for code in tokenizer.lang_code_to_token.values() if code not in tokens]
    return tokens + [f"madeupword{i}" for i in range(model.config.vocab_size - len(tokens))]


@pytest.mark.representatives("nllb")
@pytest.mark.parametrize("kind", LANGUAGES)
def test_multilingual(kind, tmp_path, monkeypatch):
    """The tags come from the vocabulary, the pieces from the original's files beside it."""
    lines = [list(side) for side in zip(*generate_pairs(1000, seed=1), strict=True)]
    _, tokenizer = write_multilingual(tmp_path / "hf", [*lines[0], *lines[1]], kind)
    lines = [side[:NUM_TRANSLATED] for side in lines]
    if kind == "m2m100":
        loader = ctranslate2.converters.transformers.M2M100Loader
        monkeypatch.setattr(loader, "get_vocabulary", vocabulary_with_codes)
    copied = "tokenizer.json" if kind == "nllb_saved" else "sentencepiece.bpe.model"
    converter = ctranslate2.converters.TransformersConverter(
        str(tmp_path / "hf"), copy_files=[copied]
    )
    converter.convert(str(tmp_path / "ctranslate2"))
    import_model(tmp_path / "ctranslate2", tmp_path / "ours")
    model, ours, _ = load_model(tmp_path / "ours")
    assert model.config.language_tags == "source_and_target"
    target, source = LANGUAGES[kind]
    tags = "".join(f">>{code.strip('_')}<< " for code in (target, source))
    assert len(ours.languages) == (100 if kind == "m2m100" else 3)
    pieces = [tokenizer.convert_ids_to_tokens(ids) for ids in tokenizer(lines[0])["input_ids"]]
    assert pieces[0][0] == source and pieces[0][-1] == "</s>"
    theirs = ctranslate2.Translator(str(tmp_path / "ctranslate2"), intra_threads=1)
    results = theirs.translate_batch(
        pieces, target_prefix=[[target]] * len(pieces), beam_size=1, max_decoding_length=25,
        disable_unk=True, suppress_sequences=[["<pad>"], ["<s>"]],
    )  # fmt: skip
    found = Translator.load(
        tmp_path / "ours", beam_size=1, max_length_factor=0.0, max_length_constant=24
    )([tags + line for line in lines[0]])
    ids = {name: token_id for token_id, name in enumerate(ours.pieces)}
    ends = "__" if kind == "m2m100" else ""
    ids |= {f"{ends}{x[2:-2]}{ends}": ids[f"\u2581{x}"] for x in ours.languages}
    rows = [[ids[name] for name in result.hypotheses[0][1:]] for result in results]
    expected = [ours.detokenize(tf.constant([row], tf.int32)).numpy()[0].decode() for row in rows]
    assert len(set(expected)) > 5
    assert found == expected


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
    rows = source.tokenize(SOURCES[:NUM_TRANSLATED]).to_list()
    pieces = [[source.pieces[token_id] for token_id in row] for row in rows]
    results = theirs.translate_batch(
        pieces, beam_size=1, max_decoding_length=12, disable_unk=True,
        suppress_sequences=[["<blank>"], ["<s>"]],
    )  # fmt: skip
    translator = Translator.load(
        tmp_path / "again", beam_size=1, max_length_factor=0.0, max_length_constant=12
    )
    expected = ["".join(result.hypotheses[0]).replace("\u2581", " ").strip() for result in results]
    assert translator(SOURCES[:NUM_TRANSLATED]) == expected
