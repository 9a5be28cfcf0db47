"""One model for several target languages, from the corpus to the export."""

import argparse
import functools
import json

import numpy as np
import pytest
import tensorflow as tf

from export.web.settings import WebSettings
from tests.conftest import SMALL_SETTINGS, small_config
from tests.serving_stub import Behaviour, serve
from tf_transformer.__main__ import main
from tf_transformer.command_line.tag_options import parse_tags
from tf_transformer.errors import InputError
from tf_transformer.inference.scorer import score_pairs
from tf_transformer.inference.translator import Translator
from tf_transformer.storage.model_dir import read_tokenizers
from tf_transformer.storage.saved_model import exported_languages
from tf_transformer.text.language_tags import (
    add_tags,
    check_tags,
    find_tags,
    language_tag,
    languages_of,
    without_common_tags,
    without_tags,
)
from tf_transformer.text.text_file import TextFile
from training.checkpointing.validation_history import read_validation_scores


def test_tags():
    assert language_tag("de") == "<2de>" and languages_of(["<2zh-Hant>"]) == ["zh-Hant"]
    assert languages_of(["<2 de>", "▁<2de>", "a"]) == []
    with pytest.raises(ValueError, match="expected the name of a language, such as 'de'"):
        language_tag("d e")
    lines = [add_tags(line, "<2de> ", "f:1") for line in (b"a dog", b" ", b"\xff")]
    assert lines == [b"<2de> a dog", b" ", b"<2de> \xff"]
    with pytest.raises(ValueError, match="f:2: starts with a language tag already"):
        add_tags(b"<2fr> a cat", "<2de> ", "f:2")
    check_tags(["anything"], [], "f")
    check_tags(["<2de> a", "", b"<2fr> b"], ["de", "fr"], "f")
    with pytest.raises(ValueError, match=r"f:3: a source .* one of <2de>, <2fr>"):
        check_tags(["<2de> a", "", "b"], ["de", "fr"], "f")


def test_tags_of_both_sides():
    languages = [">>deu<<", ">>eng<<"]
    assert find_tags("deu", "eng", languages, 2) == ">>deu<< >>eng<< "
    assert find_tags("deu", None, languages) == ">>deu<< "
    with pytest.raises(ValueError, match="needs a tag for the source language, too"):
        find_tags("deu", None, languages, 2)
    with pytest.raises(ValueError, match="has no tags for source languages"):
        find_tags("deu", "eng", languages)
    with pytest.raises(ValueError, match="no tag for the language 'fra', only for >>deu<<, >>eng"):
        find_tags("deu", "fra", languages, 2)
    check_tags([">>deu<< >>eng<< a", ">>eng<< >>deu<<", ""], languages, "f", 2)
    for source in (">>deu<< a", "a", "a >>deu<< >>eng<<", ">>deu<<", ">>deu<<>>eng<< a"):
        with pytest.raises(ValueError, match=r"f:1: a source .* target language and its own, two"):
            check_tags([source], languages, "f", 2)


def test_removing_tags():
    languages = ["de", "fr", ">>deu<<"]
    assert without_tags("<2de> a dog", languages) == "a dog"
    assert without_tags(" <2de>a dog", languages) == "a dog"
    assert without_tags("<2de> <2fr> a", languages) == "<2fr> a"
    assert without_tags(">>deu<< <2fr> a", languages, 2) == "a"
    assert without_tags("a <2de>", languages, 2) == "a <2de>"
    assert without_tags("<2it> a", languages) == "<2it> a"
    assert without_tags("<2de> a", []) == "<2de> a"
    assert without_common_tags(["<2de> a", " ", ">>deu<< >>eng<<  b"]) == ["a", " ", "b"]
    assert without_common_tags(["<2de> a", "b"]) == ["<2de> a", "b"]


@pytest.mark.parametrize("name", ["plain", "columns.tsv:2"])
def test_a_file_with_a_prefix(tmp_path, name):
    (tmp_path / "plain").write_text("a dog\n\n  \nzwei\n", encoding="utf-8")
    (tmp_path / "columns.tsv").write_text("x\ta dog\nx\t\nx\t  \nx\tzwei\n", encoding="utf-8")
    parsed = TextFile.parse(str(tmp_path / name))
    file = TextFile(parsed.path, parsed.column, prefix="<2de> ")
    assert list(file.lines()) == ["<2de> a dog", "", "  ", "<2de> zwei"]
    assert [line.numpy().decode() for line in file.dataset()] == list(file.lines())


@pytest.fixture(scope="module")
def files(corpus, tmp_path_factory):
    """German to translate to, and English backwards, each pair with its tag."""
    directory = tmp_path_factory.mktemp("tagged")
    for split in ("train", "validation"):
        english, german = (
            (corpus.directory / f"{split}.{side}").read_text(encoding="utf-8").splitlines()
            for side in ("en", "de")
        )
        source = [f"<2de> {e}\n<2rev> {e}\n" for e in english]
        target = [f"{g}\n{e[::-1]}\n" for e, g in zip(english, german, strict=True)]
        (directory / f"{split}.source").write_text("".join(source), encoding="utf-8")
        (directory / f"{split}.target").write_text("".join(target), encoding="utf-8")
    return directory


@pytest.fixture(
    scope="module", params=["joint", pytest.param("separate", marks=pytest.mark.exhaustive)]
)
def model(files, request, tmp_path_factory):
    model_dir = tmp_path_factory.mktemp("model") / request.param
    settings = SMALL_SETTINGS | {
        "vocabulary.joint": request.param == "joint",
        "vocabulary.languages": "[de, rev]",
        "data.word_dropout": 0.1,
        "optimization.steps": 100,
        "optimization.checkpoint_every": 100,
        "optimization.warmup_steps": 30,
    }
    command = ["train", "--model-dir", str(model_dir), "--set"]
    command += [f"{name}={value}" for name, value in settings.items()]
    for option, name in (("", "train"), ("validation-", "validation")):
        for side in ("source", "target"):
            command += [f"--{option}{side}", str(files / f"{name}.{side}")]
    assert main(command) == 0
    return model_dir


@pytest.mark.slow
def test_tags_are_pieces_and_change_the_translation(model, tmp_path, capsys):
    source, target = read_tokenizers(model)
    assert source.languages == ["de", "rev"]
    assert target.languages == (source.languages if source.model == target.model else [])
    ids = source.tokenize(tf.constant(["<2de> ten horses", "<2rev>ten"])).to_list()
    assert source.tag_ids[0] in ids[0][:2] and source.tag_ids[1] in ids[1][:2]

    (tmp_path / "in").write_text("ten horses\n\nthe third of May\n")
    (tmp_path / "tagged").write_text("<2de> ten horses\n\n<2de> the third of May\n")
    command = ["translate", "--model-dir", str(model), "--output", str(tmp_path / "out"), "--input"]
    found = {}
    for language in ("de", "rev"):
        assert main([*command, str(tmp_path / "in"), "--target-language", language]) == 0
        found[language] = (tmp_path / "out").read_text().split("\n")
    assert main([*command, str(tmp_path / "tagged")]) == 0
    assert (tmp_path / "out").read_text().split("\n") == found["de"]
    assert found["de"][1] == found["rev"][1] == ""
    assert found["de"] != found["rev"]
    capsys.readouterr()
    assert main([*command, str(tmp_path / "in")]) == 2
    assert "in:1: a source for this vocabulary must start with" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "in"), "--target-language", "fr"]) == 2
    assert "no tag for the language 'fr', only for de, rev" in capsys.readouterr().err
    translator = Translator.load(model)
    assert translator(["<2de> ten horses", "", "<2de> the third of May"]) == found["de"][:3]
    with pytest.raises(
        ValueError, match="sentences:2: a source for this vocabulary must start with"
    ):
        translator(["<2de> ten horses", "the third of May"])


@pytest.mark.slow
def test_choosing_among_candidates(model, tmp_path, capsys):
    """The sentence alone is scored by the reverse model, and candidates with its tag."""
    (tmp_path / "in").write_text("ten horses\n\nthe third of May\n")
    command = ["translate", "--model-dir", str(model), "--target-language", "de"]
    command += ["--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")]
    command += ["--length-penalty", "0", "--n-best", "4"]
    reverse = ["--rerank-reverse", str(model), "--rerank-reverse-weight", "0.5"]
    assert main([*command, *reverse, "--rerank-reverse-languages", "rev"]) == 0
    rows = [row.split("\t") for row in (tmp_path / "out").read_text().splitlines()]
    translator = Translator.load(model, num_best=4, length_penalty=0.0)
    candidates = translator.n_best(["<2de> the third of May"])[0]
    third = [row for row in rows if row[0] == "3"]
    assert {row[2] for row in third} == {candidate.text for candidate in candidates}
    for row in third:
        pairs = [f"<2rev> {row[2]}"], ["the third of May"]
        backwards = float(score_pairs(translator, *map(tf.constant, pairs)).log_prob[0])
        score = max(found.score for found in candidates if found.text == row[2])
        assert float(row[1]) == pytest.approx(score + 0.5 * backwards, abs=0.02)
    for languages in ([], ["fr"], ["rev", "de"]):
        given = ["--rerank-reverse-languages", *languages] if languages else []
        assert main([*command, *reverse, *given]) == 2
        assert "--rerank-reverse-languages: the model" in capsys.readouterr().err, languages
    assert main([*command[:-4], "--mbr", "--mbr-samples", "4"]) == 0
    assert (tmp_path / "out").read_text().split("\n")[1] == ""


@pytest.mark.slow
def test_synthetic_corpora_have_no_tags_of_teachers(model, tmp_path, capsys):
    (tmp_path / "in").write_text("ten horses\n\nthe third of May\n")
    (tmp_path / "other").write_text("eins\nzwei\ndrei\n")
    translator = Translator.load(model, beam_size=2)
    expected = translator(["<2de> ten horses", "<2de> the third of May"])
    back = ["back-translate", "--model-dir", str(model), "--beam-size", "2", "--input"]
    back += [str(tmp_path / "in"), "--tag", "", "--output", str(tmp_path / "back")]
    distill = ["distill", "--beam-size", "2", "--output", str(tmp_path / "distilled")]
    distill += ["--teacher", str(model), "--source", str(tmp_path / "in")]
    distill += ["--target", str(tmp_path / "other"), "--only-synthetic"]
    assert main(back) == 2
    assert "multilingual; name the language" in capsys.readouterr().err
    assert not (tmp_path / "back").exists()
    assert main([*distill, "--source-language", "de"]) == 2
    assert "are for multilingual teachers" in capsys.readouterr().err
    assert main([*back, "--target-language", "de"]) == 0
    assert main([*distill, "--target-language", "de", "--source-language", "rev"]) == 0
    for folder, side, other in (("back", "source", "target"), ("distilled", "target", "source")):
        found = [(tmp_path / folder / f"train.{x}").read_text().splitlines() for x in (side, other)]
        assert found == [expected, ["ten horses", "the third of May"]]
    # The reverse teacher reads the target and writes the source.
    distill[distill.index("--teacher")] = "--reverse-teacher"
    distill[distill.index("--output") + 1] = str(tmp_path / "reverse")
    assert main([*distill, "--source-language", "rev"]) == 0
    found = (tmp_path / "reverse" / "train.source").read_text().splitlines()
    texts = translator(["<2rev> eins", "<2rev> zwei", "<2rev> drei"])
    assert found == [text for text in texts if text.strip()] != []
    distill[distill.index("--output") + 1] = str(tmp_path / "untagged")
    assert main(distill) == 2
    assert f"{tmp_path / 'other'}:1: a source for this" in capsys.readouterr().err


@pytest.mark.slow
def test_evaluate_and_export(unverified, model, files, corpus, tmp_path, capsys):
    command = ["evaluate", "--model-dir", str(model), "--beam-size", "1"]
    command += ["--source", corpus.path("validation.en"), "--reference"]
    values = {}
    for language in ("de", "rev"):
        options = ["--target-language", language, "--json", str(tmp_path / language)]
        options += ["--metrics", "perplexity", *(["bleu"] if language == "de" else [])]
        assert main([*command, corpus.path("validation.de"), *options]) == 0
        values[language] = json.loads((tmp_path / language).read_text())
    assert values["de"]["perplexity"] < values["rev"]["perplexity"]
    digests = {value["source"]["digest_blake2b"] for value in values.values()}
    assert len(digests) == 2
    assert main([*command, corpus.path("validation.de")]) == 2
    assert "validation.en:1: a source for this vocabulary" in capsys.readouterr().err
    sides = ["--source", str(files / "validation.source")]
    sides += ["--reference", str(files / "validation.target"), "--target-language", "de"]
    assert main([*command[:-3], *sides]) == 2
    assert "validation.source:1: starts with a language tag already" in capsys.readouterr().err
    command = ["export", "--model-dir", str(model), "--beam-size", "1"]
    command += ["--signatures", "serving_default", "--output", str(tmp_path / "served")]
    assert main(command) == 0
    card = json.loads((tmp_path / "served" / "1" / "model.json").read_text())
    assert card["target_languages"] == ["de", "rev"]


@pytest.mark.slow
def test_training_with_tags_of_both_languages(corpus, tmp_path, capsys):
    """German to translate to, and English backwards; then fine-tuning, and a sentence untagged."""
    for split in ("train", "validation"):
        english, german = (
            (corpus.directory / f"{split}.{side}").read_text(encoding="utf-8").splitlines()
            for side in ("en", "de")
        )
        source = [f">>de<< >>en<< {e}\n>>rev<< >>en<< {e}\n" for e in english]
        target = [f"{g}\n{e[::-1]}\n" for e, g in zip(english, german, strict=True)]
        (tmp_path / f"{split}.source").write_text("".join(source), encoding="utf-8")
        (tmp_path / f"{split}.target").write_text("".join(target), encoding="utf-8")
    settings = SMALL_SETTINGS | {
        "model.language_tags": "source_and_target",
        "vocabulary.languages": "['>>de<<', '>>rev<<', '>>en<<']",
        "data.word_dropout": 0.1,
        "optimization.steps": 100,
        "optimization.checkpoint_every": 100,
        "optimization.warmup_steps": 30,
    }
    texts = [
        word
        for option, name in (("", "train"), ("validation-", "validation"))
        for side in ("source", "target")
        for word in (f"--{option}{side}", str(tmp_path / f"{name}.{side}"))
    ]
    changes = [f"{name}={value}" for name, value in settings.items()]
    command = ["train", *texts, "--model-dir", str(tmp_path / "model"), "--set"]
    assert main([*command, *changes]) == 0
    english, german = (
        (corpus.directory / f"validation.{side}").read_text(encoding="utf-8").splitlines()
        for side in ("en", "de")
    )
    translator = Translator.load(tmp_path / "model")
    values = {}
    for language in ("de", "rev"):
        sources = [f">>{language}<< >>en<< {line}" for line in english]
        scores = score_pairs(translator, tf.constant(sources), tf.constant(german))
        values[language] = np.exp(-np.sum(scores.log_prob) / np.sum(scores.num_tokens))
    assert values["de"] < 0.9 * values["rev"]
    command = ["train", *texts, "--model-dir", str(tmp_path / "tuned"), "--init-from"]
    command += [str(tmp_path / "model"), "--steps", "4", "--set", "data.batch_tokens=500"]
    assert main(command) == 0
    first, tuned = (
        read_validation_scores(tmp_path / name)[-1]["perplexity"] for name in ("model", "tuned")
    )
    assert tuned == pytest.approx(first, rel=0.2)
    capsys.readouterr()
    (tmp_path / "validation.source").write_text(
        (tmp_path / "validation.source").read_text(encoding="utf-8").replace(">>en<< ", "", 1),
        encoding="utf-8",
    )
    command[command.index(str(tmp_path / "tuned"))] = str(tmp_path / "other")
    assert main(command) == 2
    expected = "validation.source:1: a source for this vocabulary must start with the tags of the"
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_a_server_gets_the_tag_in_the_text(tmp_path):
    (tmp_path / "in").write_text("ten horses\n\n")
    with serve("rest", Behaviour()) as address:
        command = ["translate", "--server", address, "--input", str(tmp_path / "in")]
        assert main([*command, "--output", str(tmp_path / "out"), "--target-language", "de"]) == 0
    assert (tmp_path / "out").read_text() == "<2DE> TEN HORSES\n\n"


def exported(folder, languages, **model):
    """The folder of an exported model, as far as its languages go."""
    folder.mkdir()
    (folder / "saved_model.pb").touch()
    card = {"model": model} | ({"target_languages": languages} if languages else {})
    (folder / "model.json").write_text(json.dumps(card))
    return folder


MANY = dict(language_tags="end_and_begin")


@pytest.mark.parametrize(
    ("target", "source", "tags"),
    [
        ("de_DE", "en_XX", ">>de_DE<< >>en_XX<< "),
        (">>de_DE<<", ">>en_XX<<", ">>de_DE<< >>en_XX<< "),
        (None, None, ""),
    ],
)
def test_tags_of_an_exported_model(tmp_path, target, source, tags):
    """Those that the model has, as with `--model-dir`, and what a server gets."""
    folder = exported(tmp_path / "1", [">>de_DE<<", ">>en_XX<<"], **MANY)
    for place in (folder, None):
        options = argparse.Namespace(
            saved_model=place, target_language=target, source_language=source
        )
        assert parse_tags(options) == tags


@pytest.mark.parametrize(
    ("languages", "model", "target", "source", "expected"),
    [
        (["de"], {}, "de", None, "<2de> "),
        ([">>fra<<"], {}, "fra", None, ">>fra<< "),
        ([">>fra<<"], {}, "deu", None, "the model has no tag for the language 'deu'"),
        ([">>fra<<"], {}, "fra", "en", "no tags for source languages"),
        ([">>fra<<"], MANY, "fra", None, "needs a tag for the source language, too"),
        ([], {}, "fra", None, "it is not multilingual"),
        ([], MANY, "fra", None, "it is not multilingual"),
    ],
)
def test_languages_that_an_exported_model_lacks(
    tmp_path, languages, model, target, source, expected
):
    folder = exported(tmp_path / "1", languages, **model)
    options = argparse.Namespace(saved_model=folder, target_language=target, source_language=source)
    settings = WebSettings(
        target_languages=(target,),
        source_languages=(source,) if source else (),
        known_languages=exported_languages(folder),
    )
    if expected.endswith(("> ", "< ")):
        assert parse_tags(options) == expected
        settings.check()
        return
    for check in (functools.partial(parse_tags, options), settings.check):
        with pytest.raises(InputError, match=expected):
            check()


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("back-translate --input in --output out", "name the language of the sources to write by"),
        ("evaluate --source in --reference in", "in:1: a source for this vocabulary must start"),
    ],
)
def test_an_exported_model_without_the_tag(tmp_path, monkeypatch, capsys, command, expected):
    """Is refused before the model is loaded, as with `--model-dir`."""
    exported(tmp_path / "1", [">>fra<<"])
    (tmp_path / "in").write_text("ten horses\n")
    monkeypatch.chdir(tmp_path)
    assert main([*command.split(), "--saved-model", "1"]) == 2
    assert expected in capsys.readouterr().err


def test_misuse(files, corpus, trained, tmp_path, capsys):
    with pytest.raises(ValueError, match=r"'vocabulary.languages': expected the name"):
        small_config(vocabulary__languages=["d e"])
    with pytest.raises(ValueError, match=r"'vocabulary.languages': expected each language once"):
        small_config(vocabulary__languages=["de", "de"])
    with pytest.raises(ValueError, match=r"'vocabulary.languages' are tags of the source"):
        small_config(vocabulary__languages=["de"], model__decoder_only=True)
    command = ["train", *corpus.options, "--model-dir", str(tmp_path / "m")]
    assert main([*command, "--set", "vocabulary.languages=[de]"]) == 2
    assert ".en:1: a source for this vocabulary must start with" in capsys.readouterr().err
    assert not (tmp_path / "m").exists()
    command = ["evaluate", "--model-dir", str(trained), "--target-language", "de"]
    command += ["--reference", corpus.path("validation.de")]
    assert main([*command, "--source", corpus.path("validation.en")]) == 2
    assert "no tag for the language 'de', it is not multilingual" in capsys.readouterr().err
