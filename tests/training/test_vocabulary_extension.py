"""`train --add-pieces`: new pieces have rows of their own, and nothing else changes."""

import json
import shutil

import numpy as np
import pytest

from tests.conftest import small_config
from tests.training.test_lora import plain_arrays
from tf_transformer import TransformerConfig
from tf_transformer.__main__ import main
from tf_transformer.models.lora import base_weights
from tf_transformer.storage.model_dir import (
    load_model,
    make_model,
    read_config,
    read_vocabularies,
    read_weights,
    write_config_and_tokenizers,
    write_weights,
)
from tf_transformer.text.text_file import TextFile
from tf_transformer.text.vocabulary import Vocabulary
from training.data.vocabulary import train_sentencepiece
from training.fine_tuning import config_like
from training.run import Start
from training.trainer import train
from training.vocabulary_extension import (
    copy_extended_weights,
    extend_vocabulary,
    read_pieces,
)

pytestmark = pytest.mark.usefixtures("models_built_once", "untraced_training")

LINES = [
    "a red horse sleeps under the tree",
    "ein rotes Pferd schläft unter dem Baum",
    "two dogs run through the snow and the rain",
    "zwei Hunde laufen durch den Schnee und den Regen",
] * 20
NEW = ["Hypervisor", "▁Kubernetes", "New▁York", "字", "<2fr>", "sleep"]
OLD_TEXTS = [
    *LINES[:4],
    "the rain",
    "12 horses, 3 trees!",
    "schläft's 我",
    "",
    "New",
]


def vocabulary(kind="bpe", tags=()):
    config = small_config(vocabulary__kind=kind, vocabulary__size=340).vocabulary
    return train_sentencepiece(LINES, config, tags)


def write_model(path, source, target, **switches):
    """A model directory with random weights, those of the biases included."""
    sizes = [None if model is None else Vocabulary(model).vocab_size for model in (source, target)]
    config = TransformerConfig(
        source_vocab_size=sizes[0],
        target_vocab_size=sizes[1],
        num_encoder_layers=1,
        num_decoder_layers=1,
        d_model=8,
        d_ff=16,
        num_heads=2,
        max_length=40,
        dropout_rate=0.0,
        **switches,
    )
    write_config_and_tokenizers(path, config, source, target)
    model = make_model(config)
    random = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign(random.normal(size=weight.shape, scale=0.5))
    write_weights(path, model)
    return config


def extend(path, pieces, output):
    """Writes the extended model directory, without any training."""
    extension = extend_vocabulary(path, pieces)
    copy_extended_weights(path, output, extension)
    config = read_config(path)
    sizes = {
        f"{side}_vocab_size": Vocabulary(model).vocab_size
        for side, model in zip(("source", "target"), extension.models, strict=True)
        if model is not None
    }
    changed = TransformerConfig(**(vars(config) | sizes))
    write_config_and_tokenizers(output, changed, *extension.models)
    return extension


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_segmentation(tmp_path, kind):
    """Old text is split as before; a new piece is one token wherever it occurs."""
    model = vocabulary(kind)
    write_model(tmp_path / "a", model, model)
    before, _ = read_vocabularies(tmp_path / "a")
    extend(tmp_path / "a", NEW, tmp_path / "b")
    after, target = read_vocabularies(tmp_path / "b")
    assert target.model == after.model
    old = [text for text in OLD_TEXTS if "sleep" not in text]
    assert len(old) >= 8 and after.encode(old) == before.encode(old)
    assert after.pieces == [*before.pieces, *NEW]
    assert after.languages == ["fr"] and after.vocab_size == before.vocab_size + len(NEW)
    for piece in NEW:
        text = f"the {piece.replace('▁', ' ').strip()} and"
        (ids,) = after.encode([text])
        assert ids.count(after.pieces.index(piece)) == 1
        assert after._processor.decode(ids) == text
    (ids,) = after.encode(["he sleeps"])
    assert "sleep" in [after.pieces[token_id] for token_id in ids]


CASES = {
    "all tied": dict(tied_embeddings="all", logits_bias=True),
    "untied": dict(tied_embeddings="none"),
    "target tied": dict(tied_embeddings="target"),
    "inputs tied": dict(tied_embeddings="inputs", logits_bias=False),
}


@pytest.mark.representatives("all tied", "untied")
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_outputs_for_old_text_are_unchanged(tmp_path, name):
    """The logits of the old ids, exactly; the new ones are those of mean rows."""
    model = vocabulary()
    write_model(tmp_path / "a", model, model, **CASES[name])
    extend(tmp_path / "a", NEW, tmp_path / "b")
    before, after = (load_model(tmp_path / path)[0] for path in "ab")
    old, _ = read_vocabularies(tmp_path / "a")
    size = old.vocab_size
    source, target = (
        np.array([[*ids[:6], 3] for ids in old.encode(LINES[start:4:2])]) for start in (0, 1)
    )
    inputs = {"source": source, "target": target}
    expected, found = (np.asarray(model(inputs)) for model in (before, after))
    assert expected.shape[-1] == size and found.shape[-1] == size + len(NEW)
    np.testing.assert_allclose(found[..., :size], expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(
        *(model.hidden_at(inputs, target > 0) for model in (before, after))
    )
    for index, piece in enumerate(NEW):
        (ids,) = old.encode([piece.replace("▁", " ")])
        ids = [token_id for token_id in ids if old.pieces[token_id] != "▁"]
        mean = expected[..., ids].mean(-1)  # logits are linear in the rows
        np.testing.assert_allclose(found[..., size + index], mean, rtol=1e-3, atol=1e-4)
    old_arrays, new_arrays = plain_arrays(before), plain_arrays(after)
    for weight, value in old_arrays.items():
        part = new_arrays[weight][tuple(map(slice, value.shape))]
        np.testing.assert_array_equal(part, value)


@pytest.mark.slow
def test_new_tags_start_from_old_ones(tmp_path):
    """On the source alone where the vocabularies are separate; terms where they are missing."""
    source, target = vocabulary(tags=["<2de>", "<2en>"]), vocabulary("unigram")
    write_model(tmp_path / "a", source, target, tied_embeddings="target")
    old = Vocabulary(source)
    extension = extend(tmp_path / "a", ["<2fr>", "▁horse", "字"], tmp_path / "b")
    assert extension.parts["source"][0] == [old.pieces.index(tag) for tag in ("<2de>", "<2en>")]
    of_source, of_target = (v.pieces for v in read_vocabularies(tmp_path / "b"))
    assert of_source[old.vocab_size :] == [
        p for p in ("<2fr>", "▁horse", "字") if p not in old.pieces
    ]
    assert "<2fr>" not in of_target and of_target[-1] == "字"
    model = load_model(tmp_path / "b")[0]
    table = base_weights(model)["source_embedding/embeddings"].numpy()
    np.testing.assert_allclose(
        table[of_source.index("<2fr>")], table[extension.parts["source"][0]].mean(0), rtol=1e-5
    )


def test_language_models(tmp_path):
    write_model(tmp_path / "a", None, vocabulary(), decoder_only=True)
    extend(tmp_path / "a", ["字"], tmp_path / "b")
    assert load_model(tmp_path / "b")[2].pieces[-1] == "字"
    with pytest.raises(ValueError, match="a language model has no source"):
        extend_vocabulary(tmp_path / "a", ["<2fr>"])


def test_pieces_that_were_unknown_start_from_all(tmp_path):
    config = small_config(vocabulary__size=80, vocabulary__byte_fallback=False).vocabulary
    model = train_sentencepiece(LINES, config)
    write_model(tmp_path / "a", model, model)
    extension = extend_vocabulary(tmp_path / "a", ["字"])
    assert extension.parts["target"] == [list(range(4, 80))]


# ---- What is refused ----


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected 1 to 10,000 pieces, got 0"),
        ("\n \n", "expected 1 to 10,000 pieces, got 0"),
        ("a\nb\na\n", "pieces:3: 'a' is given twice"),
        ("a b\na▁b", "pieces:2: 'a▁b' is given twice"),
        ("▁\n", "pieces:1: '▁' is only space"),
        ("x\ta\n", "contains a character that is no text"),
        ("x\x00a\n", "contains a character that is no text"),
        ("x" * 101, "pieces:1: expected at most 100 characters, got 101"),
        (b"\xff", "pieces: not UTF-8"),
        ("\n".join(map(str, range(10_001))), "expected 1 to 10,000 pieces, got 10,001"),
        ("x\n" * 2**20, "pieces: expected at most 1,048,576 bytes"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_files_that_are_refused(tmp_path, content, message):
    path = tmp_path / "pieces"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message) as raised:
        read_pieces(path)
    assert "\n" not in str(raised.value)


def test_lines(tmp_path):
    (tmp_path / "pieces").write_text("New York\r\n\n Term\n<2fr>\n>>fra<<\n字", encoding="utf-8")
    expected = ["New▁York", "▁Term", "<2fr>", "▁>>fra<<", "字"]
    assert read_pieces(tmp_path / "pieces") == expected
    with pytest.raises(ValueError, match="no such file"):
        read_pieces(tmp_path / "none")


@pytest.mark.parametrize("piece", ["<s>", "▁the", "<0x41>"])
def test_pieces_of_the_vocabulary_are_refused(tmp_path, piece):
    model = vocabulary()
    write_model(tmp_path / "a", model, model)
    with pytest.raises(ValueError, match=r"the vocabulary has the piece .* already"):
        extend_vocabulary(tmp_path / "a", ["new", piece])


def test_renumbered_vocabularies_are_refused(tmp_path):
    from tf_transformer.formats.sentencepiece_ids import with_ids

    old = Vocabulary(vocabulary())
    model = with_ids(old.model, [*old.pieces[:4], *old.pieces[8:], *old.pieces[4:8]])
    assert Vocabulary(model).is_renumbered
    write_model(tmp_path / "a", model, model)
    with pytest.raises(ValueError, match="pieces cannot be added to this imported vocabulary"):
        extend_vocabulary(tmp_path / "a", ["new"])


def test_options_that_do_not_go_together(corpus, trained, tmp_path, capsys):
    (tmp_path / "pieces").write_text("字\n")
    added = ["--add-pieces", str(tmp_path / "pieces")]
    command = ["train", "--model-dir", str(tmp_path / "m"), *added]
    from_model = ["--init-from", str(trained)]
    validation = corpus.options[4:]
    for options, message in (
        (corpus.options, "give it as --init-from"),
        ([*corpus.options, *from_model, "--lora", "2"], "LoRA (--lora) trains no embeddings"),
        ([*corpus.options, *from_model, "--vocab-size", "401"], "which cannot change"),
    ):
        assert main([*command, *options]) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
    assert validation and not (tmp_path / "m").exists()


# ---- The command ----


@pytest.mark.slow
def test_command(corpus, trained, tmp_path, capsys):
    """The new language's tag and a term are learned; the run resumes, and refuses other pieces."""
    pieces = tmp_path / "pieces"
    pieces.write_text("<2de>\nzzz\n")
    for name in ("train", "validation"):
        for side, prefix in (("en", "<2de> "), ("de", "")):
            lines = TextFile.parse(corpus.path(f"{name}.{side}")).lines()
            text = "".join(f"{prefix}{line} zzz\n" for line in list(lines)[:100])
            (tmp_path / f"{name}.{side}").write_text(text, encoding="utf-8")
    options = ["train", "--model-dir", str(tmp_path / "m"), "--init-from", str(trained)]
    for option, name in (("", "train"), ("validation-", "validation")):
        options += [f"--{option}source", str(tmp_path / f"{name}.en")]
        options += [f"--{option}target", str(tmp_path / f"{name}.de")]
    settings = ["data.batch_tokens=512", "optimization.checkpoint_every=2"]
    settings += [
        "validation.translate_every=0",
        "vocabulary.size=400",
        "optimization.warmup_steps=4",
    ]
    options += ["--set", *settings]
    added = ["--add-pieces", str(pieces)]
    assert main([*options, *added, "--steps", "2"]) == 0
    assert main([*options, *added, "--steps", "4"]) == 0
    capsys.readouterr()
    before, after = read_config(trained), read_config(tmp_path / "m")
    assert after.source_vocab_size == before.source_vocab_size + 2 == after.target_vocab_size
    model, source, target = load_model(tmp_path / "m")
    assert source.pieces[-2:] == target.pieces[-2:] == ["<2de>", "zzz"] and source.languages == [
        "de"
    ]
    record = json.loads((tmp_path / "m" / "training.json").read_text())
    assert record["added_pieces"] == ["<2de>", "zzz"]
    assert record["settings"]["vocabulary"]["languages"] == ["de"]
    # Trained: the row has moved away from the mean it started from.
    extension = extend_vocabulary(trained, ["<2de>", "zzz"])
    copy_extended_weights(trained, tmp_path / "start", extension)
    start = make_model(after)
    read_weights(tmp_path / "start", start)
    name = "target_embedding/embeddings"
    assert not np.allclose(plain_arrays(start)[name][-1], plain_arrays(model)[name][-1], atol=1e-5)
    pieces.write_text("<2de>\nyyy\n")
    assert main([*options, *added, "--steps", "6"]) == 2
    assert "with other pieces added to the vocabulary" in capsys.readouterr().err
    assert main([*options, "--steps", "6"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.exhaustive
@pytest.mark.slow
def test_without_training_scores_stay(corpus, trained, tmp_path):
    """With next to no learning rate, the loss is the first model's but for the few new ids."""
    (tmp_path / "pieces").write_text("字\n", encoding="utf-8")
    losses = []
    for name, pieces in (("plain", None), ("extended", tmp_path / "pieces")):
        first = shutil.copytree(trained, tmp_path / f"first-{name}")
        optimization = {"steps": 1, "checkpoint_every": 1, "learning_rate_factor": 1e-12}
        optimization["label_smoothing"] = 0.0
        given = {"optimization": optimization, "validation": {"translate_every": 0}}
        config = config_like(first, given, read_pieces(pieces) if pieces else ())
        train(
            config,
            model_dir=tmp_path / name,
            start=Start(first, add_pieces=pieces),
            **corpus.arguments,
        )
        scores = json.loads((tmp_path / name / "validation_scores.json").read_text())["scores"]
        losses.append(scores[-1]["loss"])
    # One logit more, of 400: at most a little probability goes to it.
    assert losses[0] < losses[1] < losses[0] + 0.05
