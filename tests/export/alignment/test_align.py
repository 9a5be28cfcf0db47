"""The command `align`: its links by definition, both directions, the reference, and resuming."""

import json

import numpy as np
import pytest
import tensorflow as tf

from export.lines import line_results
from tests.test_cli import fails
from tf_transformer.__main__ import main
from tf_transformer.inference.translator import Translator
from tf_transformer.inference.word_links import link_words
from tf_transformer.predictors.local_predictor import LocalPredictor
from tf_transformer.predictors.signature import Signature, signature_of_task
from tf_transformer.storage.model_dir import load_model
from tf_transformer.storage.trained_models import TrainedModels
from tf_transformer.word_alignment.pharaoh import parse_links
from tf_transformer.word_alignment.symmetrization import symmetrize

NUM = 40


@pytest.fixture
def files(corpus, tmp_path):
    """40 pairs; a blank one, one that is too long, and one that SentencePiece splits otherwise."""
    paths = {}
    for side in ("en", "de", "align"):
        lines = (corpus.directory / f"test.{side}").read_text(encoding="utf-8").splitlines()[:NUM]
        lines[3] = "" if side != "en" else lines[3]
        lines[5] = {"en": "the " * 60, "de": lines[5], "align": "0-0"}[side]
        lines[7] = {"en": "a´b c", "de": "ein", "align": "1-0"}[side]
        paths[side] = tmp_path / f"text.{side}"
        paths[side].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return paths


def align(files, output, *options):
    texts = ["--source", str(files["en"]), "--target", str(files["de"]), "--output", str(output)]
    return main(["align", *texts, *map(str, options)])


def read(path):
    return path.read_text(encoding="utf-8").splitlines()


def expected_links(model, source_tokenizer, target_tokenizer, source, target):
    """Word by word, with the model's weights of this pair alone."""
    ids = [tokenizer.encode([text])[0] for tokenizer, text in
           ((source_tokenizer, source), (target_tokenizer, target))]  # fmt: skip
    inputs = {"source": tf.constant([[*ids[0], 3]]), "target": tf.constant([[2, *ids[1]]])}
    weights = model.alignment(inputs).numpy()[0]
    words = [
        [sum(vocabulary.pieces[i].startswith("▁") for i in side[: n + 1]) - 1
         for n in range(len(side))]
        for vocabulary, side in zip((source_tokenizer, target_tokenizer), ids, strict=True)
    ]  # fmt: skip
    table = np.zeros((words[1][-1] + 1, words[0][-1] + 1))
    for j, target_word in enumerate(words[1]):
        for i, source_word in enumerate(words[0]):
            table[target_word, source_word] += weights[j, i]
    return {(int(np.argmax(row)), j) for j, row in enumerate(table)}, table


@pytest.mark.slow
def test_links_by_definition(talkative, files, tmp_path, capsys):
    """In several chunks: there are more pairs than a translator decodes together."""
    output = tmp_path / "out"
    assert align(files, output, "--model-dir", talkative, "--reference", files["align"]) == 0
    printed = capsys.readouterr().out
    assert "alignment error rate " in printed
    found = read(output)
    assert len(found) == NUM
    assert found[3] == found[5] == found[7] == ""
    unaligned = [number for number, line in enumerate(found) if not line]
    assert f"{len(unaligned) - 1} pairs have none" in printed  # the blank one is not counted
    model = load_model(talkative)
    limit = model[0].config.max_length
    for number, row in enumerate(zip(found, read(files["en"]), read(files["de"]), strict=True)):
        if number in unaligned:
            lengths = [len(model[side].encode([row[side]])[0]) for side in (1, 2)]
            assert number in (3, 7) or max(lengths) >= limit
            continue
        links, table = expected_links(*model, *row[1:])
        differing = parse_links(row[0], "") ^ links
        for _, j in differing:  # batches round otherwise
            best = np.sort(table[j])
            assert best[-1] - best[-2] < 1e-4
        assert len(differing) <= 2


def links(model_dirs, sources, targets):
    """The links of each pair; None if it cannot be aligned."""
    translator = Translator(*TrainedModels(model_dirs).load())
    found = link_words(translator, tf.constant(sources), tf.constant(targets))
    return [
        parse_links(row.decode(), "") if is_aligned else None
        for row, is_aligned in zip(found.links.numpy(), found.is_aligned.numpy(), strict=True)
    ]


@pytest.mark.exhaustive
def test_ensembles_and_both_directions(talkative, trained, files, tmp_path):
    """The reverse model's links are turned around; of an ensemble the weights are the mean."""
    output, union = tmp_path / "out", tmp_path / "union"
    both = ["--model-dir", talkative, trained]
    assert align(files, output, *both) == 0
    assert align(files, union, *both, "--reverse-model-dir", trained, "--symmetrize", "union") == 0
    assert align(files, tmp_path / "default", *both, "--reverse-model-dir", trained) == 0
    sources, targets = read(files["en"]), read(files["de"])
    ensemble = links((talkative, trained), sources, targets)
    reverse = links((trained,), targets, sources)
    for lines, method in ((read(union), "union"), (read(tmp_path / "default"), None)):
        for line, forward, back in zip(lines, ensemble, reverse, strict=True):
            expected = set()
            if forward is not None and back is not None:
                turned = {(j, i) for i, j in back}
                expected = symmetrize(forward, turned, method or "grow-diag-final-and")
            assert parse_links(line, "") == expected
    assert read(output) != read(union)


class FakeModel(LocalPredictor):
    """Gives a link to the pairs in whose target it finds the letter e."""

    def __init__(self, link=b"0-0"):
        self.link = link
        super().__init__("model", {"word_links": signature_of_task("word_links")})

    def call(self, signature, tensors):
        links = [self.link if b"e" in text else b"" for text in tensors["target"].numpy()]
        rows = len(links)
        return {"links": tf.constant(links), "score": tf.ones(rows), "aligned": tf.fill(rows, True)}


@pytest.mark.slow
def test_an_interrupted_run_resumes(talkative, files, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(line_results, "_BATCH_SIZE", 10)
    monkeypatch.setattr("export.commands.align_cli.load_models", lambda *_: FakeModel())
    whole, output = tmp_path / "whole", tmp_path / "out"
    assert align(files, whole, "--model-dir", talkative) == 0
    assert {"", "0-0"} == set(read(whole))
    original, calls = FakeModel.call, []

    def interrupted(self, *arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(FakeModel, "call", interrupted)
    assert align(files, output, "--model-dir", talkative) == 130
    assert not output.exists()
    lines = read(files["de"])
    files["de"].write_text("\n".join(["other", *lines[1:]]) + "\n", encoding="utf-8")
    capsys.readouterr()
    texts = ["--source", files["en"], "--target", files["de"], "--output", output]
    assert "was begun with different text; give" in fails(
        capsys, "align", "--model-dir", talkative, *texts
    )
    files["de"].write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert align(files, output, "--model-dir", talkative) == 0
    assert "resuming after 20 lines" in capsys.readouterr().err
    assert read(output) == read(whole)


def test_tags_of_an_exported_model(files, tmp_path, monkeypatch, capsys):
    """Its description says which; as a model directory, it refuses a line without one."""
    (tmp_path / "saved_model.pb").write_bytes(b"")
    card = {"model": {"language_tags": "source"}, "target_languages": ["de", "fr"]}
    (tmp_path / "model.json").write_text(json.dumps(card))
    monkeypatch.setattr(
        "tf_transformer.command_line.predictor_options.load_saved_model", lambda _: FakeModel()
    )
    assert align(files, tmp_path / "out", "--saved-model", tmp_path) == 2
    error = capsys.readouterr().err
    assert f"{files['en']}:1: a source for this vocabulary must start with" in error


@pytest.mark.parametrize("link", [b"0-99", b"0-0 x", b"-1-0"])
def test_links_of_no_words_are_refused(talkative, files, tmp_path, monkeypatch, capsys, link):
    monkeypatch.setattr("export.commands.align_cli.load_models", lambda *_: FakeModel(link))
    assert align(files, tmp_path / "out", "--model-dir", talkative) == 2
    assert "line 1 of the answers of the model: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["align"], "no signature 'word_links', which `align` needs; export it with --signatures "
         "all word_links"),
        (["align", "--reverse-"], "no signature 'word_links', which `align` needs; export it "),
        (["complete"], "no signature 'continuation', which `complete` needs; export it with a "
         "language model as --model-dir"),
    ],
)  # fmt: skip
def test_a_missing_task_is_named(command, expected, files, tmp_path, monkeypatch, capsys):
    """Before anything is computed, also of the reverse model."""
    model = Signature({}, {})
    signatures = [{"word_links": signature_of_task("word_links")} if len(command) > 1 else {}, {}]
    predictors = [LocalPredictor("model", {"score": model, **more}) for more in signatures]
    monkeypatch.setattr(
        "tf_transformer.command_line.predictor_options.load_saved_model",
        lambda _: predictors.pop(0),
    )
    (tmp_path / "saved_model.pb").write_bytes(b"")
    texts = ["--input", files["en"]]
    if command[0] == "align":
        texts = ["--source", files["en"], "--target", files["de"], "--output", tmp_path / "out"]
    places = [f"{'--' if index == 0 else command[1]}saved-model" for index in range(len(command))]
    words = [word for place in places for word in (place, tmp_path)]
    assert expected in fails(capsys, command[0], *words, *texts)
