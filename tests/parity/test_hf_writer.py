"""Converted model directories in Transformers: the same ids, logits and translations."""

import itertools

import numpy as np
import pytest

from tests.tf_transformer.formats.random_model import (
    SOURCES,
    TARGETS,
    train_vocabularies,
    write_random_model,
)
from tf_transformer import Translator, load_model
from tf_transformer.formats.convert_model import convert_model
from tf_transformer.formats.import_model import import_model

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = [pytest.mark.parity, pytest.mark.slow]

LENGTH = 20
CASES = {
    "as Marian": (True, dict(positions="marian", activation="swish")),
    "the paper": (True, dict()),
    "separate": (False, dict(positions="concatenated", logits_bias=True)),
    "untied, learned": (
        False,
        dict(tied_embeddings="none", positions="learned", activation="gelu", max_length=200),
    ),
    "inputs": (True, dict(tied_embeddings="inputs", decoder=dict(num_heads=2, d_ff=24))),
    "as M2M100": (
        True,
        dict(norm_position="pre", positions="concatenated", first_position=1),
    ),
}


@pytest.fixture(scope="module", params=CASES)
def both(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("writer")
    joint, settings = CASES[request.param]
    # Transformers' epsilon is fixed.
    settings = settings | {"layer_norm_epsilon": 1e-5}
    write_random_model(folder / "ours", train_vocabularies(joint), **settings)
    convert_model(folder / "ours", "hf", folder / "theirs")
    module = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder / "theirs").eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder / "theirs")
    return folder, load_model(folder / "ours"), module, tokenizer


@pytest.mark.representatives("as Marian", "as M2M100")
def test_ids(both):
    _, (_, source, target), _, tokenizer = both
    ours = source.tokenize(SOURCES).to_list()
    assert [[*ids, 3] for ids in ours] == tokenizer(SOURCES)["input_ids"]
    ours = target.tokenize(TARGETS).to_list()
    assert [[*ids, 3] for ids in ours] == tokenizer(text_target=TARGETS)["input_ids"]


def test_logits(both):
    _, (model, _, _), module, _ = both
    random = np.random.default_rng(1)
    source = random.integers(4, 90, (8, 12)).astype("int32")
    source[3, 5:] = 0
    target = random.integers(4, 90, (8, 10)).astype("int32")
    target[:, 0] = 2
    computed = np.asarray(model({"source": source, "target": target}))
    with torch.no_grad():
        expected = module(
            input_ids=torch.tensor(source.astype("int64")),
            attention_mask=torch.tensor(source != 0),
            decoder_input_ids=torch.tensor(target.astype("int64")),
        ).logits.numpy()
    np.testing.assert_allclose(computed, expected, atol=1e-4)


@pytest.mark.representatives("as Marian", "as M2M100")
def test_greedy_translations(both):
    _, (model, source, target), module, tokenizer = both
    translator = Translator(
        model, source, target, beam_size=1, max_length_factor=0.0, max_length_constant=LENGTH
    )
    sentences = SOURCES[:100]
    batch = tokenizer(sentences, return_tensors="pt", padding=True)
    found = module.generate(**batch, num_beams=1, do_sample=False, max_new_tokens=LENGTH + 1)
    theirs = tokenizer.batch_decode(
        found, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    assert len(set(theirs)) > 1
    assert translator(sentences) == theirs


@pytest.mark.representatives("as Marian", "as M2M100")
def test_round_trip(both, tmp_path):
    folder, *_ = both
    import_model(folder / "theirs", tmp_path / "again")
    first, again = (load_model(path) for path in (folder / "ours", tmp_path / "again"))
    compared = 0
    for ours, theirs in itertools.zip_longest(first[0].weights, again[0].weights):
        np.testing.assert_array_equal(ours, theirs)
        compared += 1
    assert compared > 50
    for name in ("source.spm", "target.spm"):
        assert (folder / "ours" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
