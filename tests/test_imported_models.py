"""What works on an imported model: every command, every signature, every dtype."""

import json

import numpy as np
import pytest
import tensorflow as tf

from export.saved_model.signature_names import SIGNATURES
from tests.tf_transformer.formats.random_model import SOURCES, TARGETS, write_random_model
from tf_transformer.__main__ import main
from tf_transformer.formats.convert_model import convert_model
from tf_transformer.formats.import_model import import_model
from tf_transformer.inference.translator import Translator
from tf_transformer.storage.model_dir import read_config
from tf_transformer.text.sentencepiece_model_pb2 import ModelProto
from training.config import VocabularyConfig
from training.data.vocabulary import train_vocabularies

pytestmark = pytest.mark.slow

CASES = {
    "marian": dict(
        positions="marian", activation="swish", begin_embedding="zero", logits_bias=True
    ),
    "m2m100": dict(
        norm_position="pre",
        positions="concatenated",
        first_position=2,
        begin_embedding="end",
        language_tags="source_and_target",
    ),
}
LANGUAGES = {
    "marian": ["--target-language", "deu"],
    "m2m100": ["--target-language", "deu", "--source-language", "eng"],
}
# The formats that hold the model; the first is imported again.
FORMATS = {
    "marian": ["hf", "ctranslate2", "keras-hub"],
    "m2m100": ["hf", "ctranslate2", "keras-hub"],
}
TAGS = {"marian": ">>deu<< ", "m2m100": ">>deu<< >>eng<< "}


class Lines:
    """A text of sentences of both languages."""

    def lines(self):
        return [*SOURCES, *TARGETS]


@pytest.fixture(scope="module", params=CASES)
def imported(request, tmp_path_factory):
    """The name of a case, and a model directory that `import` has written."""
    folder = tmp_path_factory.mktemp("imported")
    config = VocabularyConfig(
        size=130, kind="unigram", byte_fallback=False, languages=[">>deu<<", ">>eng<<"]
    )
    models = train_vocabularies([Lines()], [Lines()], config, lambda files: files[0].lines())
    sizes = dict(num_encoder_layers=1, num_decoder_layers=1, d_model=64, d_ff=64)
    write_random_model(folder / "ours", models, **sizes, **CASES[request.param])
    convert_model(folder / "ours", "hf", folder / "theirs")
    if request.param == "marian":  # one vocabulary, and two models that segment, as in OPUS-MT
        _change_segmentation(folder / "theirs" / "target.spm")
    import_model(folder / "theirs", folder / "model")
    return request.param, folder / "model"


def _change_segmentation(path):
    model = ModelProto.FromString(path.read_bytes())
    for piece in model.pieces:
        piece.score *= 2
    path.write_bytes(model.SerializeToString())


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "source").write_text("".join(f"{line}\n" for line in SOURCES[:8]))
    (tmp_path / "target").write_text("".join(f"{line}\n" for line in TARGETS[:8]))
    return tmp_path


@pytest.mark.exhaustive  # tests/test_tags_of_both_languages.py runs both with two tags
def test_translate_and_evaluate(imported, texts):
    name, model_dir = imported
    model = ["--model-dir", str(model_dir), "--beam-size", "1", *LANGUAGES[name]]
    command = ["translate", *model, "--input", str(texts / "source")]
    assert main([*command, "--output", str(texts / "translated")]) == 0
    expected = Translator.load(model_dir, beam_size=1)([TAGS[name] + x for x in SOURCES[:8]])
    assert (texts / "translated").read_text(encoding="utf-8").splitlines() == expected
    command = ["evaluate", *model, "--source", str(texts / "source"), "--reference"]
    assert main([*command, str(texts / "target"), "--json", str(texts / "scores")]) == 0
    assert json.loads((texts / "scores").read_text())["perplexity"] > 1


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("dtype", "signatures", "shapes"),
    [
        ("float32", SIGNATURES, []),
        ("float32", ["serving_default", "tokens_options"], ["--xla", "4x24"]),
        ("bfloat16", ["serving_default", "tokens_options"], []),
        ("int8", ["serving_default", "tokens_options"], []),
    ],
)
def test_verified_export(imported, tmp_path, dtype, signatures, shapes):
    """`export` compares each signature with the model, in a process of its own."""
    check_export(imported, tmp_path, dtype, signatures, shapes)


@pytest.mark.representatives("marian")
def test_export(unverified, imported, tmp_path):
    check_export(imported, tmp_path, "bfloat16", ["serving_default"], [])


def check_export(imported, tmp_path, dtype, signatures, shapes):
    """Exports the model, and compares its answers with those of the model directory."""
    name, model_dir = imported
    command = ["export", "--model-dir", str(model_dir), "--output", str(tmp_path / "served")]
    command += ["--dtype", dtype, "--beam-size", "1", "--languages", "en-de", *shapes]
    assert main([*command, "--signatures", *signatures]) == 0
    card = json.loads((tmp_path / "served" / "1" / "model.json").read_text())
    assert card["target_languages"] == [">>deu<<", ">>eng<<"]
    served = tf.saved_model.load(tmp_path / "served" / "1")
    sources = [TAGS[name] + x for x in SOURCES[:4]]
    answer = served.signatures["serving_default"](tf.constant(sources))
    expected = Translator.load(model_dir, dtype=dtype, beam_size=1).n_best(sources)
    assert [x.decode() for x in answer["translation"].numpy()] == [x[0].text for x in expected]
    np.testing.assert_allclose(answer["score"], [x[0].score for x in expected], rtol=1e-3)
    (tmp_path / "source").write_text("".join(f"{line}\n" for line in SOURCES[:4]))
    command = ["translate", "--saved-model", str(tmp_path / "served"), *LANGUAGES[name]]
    command += ["--input", str(tmp_path / "source"), "--output", str(tmp_path / "translated")]
    assert main(command) == 0
    lines = (tmp_path / "translated").read_text(encoding="utf-8").splitlines()
    assert lines == [x[0].text for x in expected]


@pytest.mark.exhaustive
def test_fine_tuning_keeps_the_vocabulary(imported, texts):
    name, model_dir = imported
    tagged = "".join(f"{TAGS[name]}{line}\n" for line in SOURCES[:200])
    (texts / "train.source").write_text(tagged)
    (texts / "train.target").write_text("".join(f"{line}\n" for line in TARGETS[:200]))
    files = ["--source", str(texts / "train.source"), "--target", str(texts / "train.target")]
    files += ["--validation-source", files[1], "--validation-target", files[3]]
    command = ["train", "--init-from", str(model_dir), "--model-dir", str(texts / "tuned")]
    settings = ["data.batch_tokens=500", "optimization.checkpoint_every=20"]
    assert main([*command, *files, "--steps", "40", "--set", *settings]) == 0
    assert read_config(texts / "tuned") == read_config(model_dir)
    assert read_config(model_dir).tied_embeddings == "all"  # which needs one vocabulary
    for file in ("source.spm", "target.spm"):
        assert (texts / "tuned" / file).read_bytes() == (model_dir / file).read_bytes()
    scores = json.loads((texts / "tuned" / "validation_scores.json").read_text())["scores"]
    assert scores[-1]["loss"] < scores[0]["loss"]
    for index, form in enumerate(FORMATS[name]):  # and the tuned model can be handed on
        command = ["convert", "--model-dir", str(texts / "tuned"), "--to", form, "--output"]
        assert main([*command, str(texts / form)]) == 0
        if index == 0:
            import_model(texts / form, texts / "back")
    tuned, back = (Translator.load(texts / model, beam_size=1) for model in ("tuned", "back"))
    sources = [TAGS[name] + x for x in SOURCES[:8]]
    assert tuned(sources) == back(sources)


@pytest.mark.representatives("m2m100")
def test_attention(imported, tmp_path, capsys):
    name, model_dir = imported
    command = ["attention", "--model-dir", str(model_dir), "--text", TAGS[name] + SOURCES[0]]
    assert main([*command, "--output", str(tmp_path / "page.html")]) == 0
    assert "deu" in (tmp_path / "page.html").read_text(encoding="utf-8")
    for command in (["attention"], ["picture", "search"]):
        command += ["--model-dir", str(model_dir), "--text", SOURCES[0]]
        assert main([*command, "--output", str(tmp_path / "other.svg")]) == 2
        assert "text:1: a source for this vocabulary must start" in capsys.readouterr().err
