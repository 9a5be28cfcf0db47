"""Shortlists: counts against a `Counter`, alignments against the model's own states."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from export.saved_model import verification
from tests.conftest import SMALL_SETTINGS
from tests.export.saved_model.in_this_process import answers_of
from tests.test_cli import fails
from tf_transformer.__main__ import main
from tf_transformer.inference.translator import Translator
from tf_transformer.shortlists.table import read_shortlist
from tf_transformer.storage.model_dir import load_model, read_vocabularies
from training.shortlists import pair_counts
from training.shortlists.pair_counts import PairCounts


@pytest.mark.parametrize("most_unmerged", [1, 500, 10**9])
def test_counts(monkeypatch, most_unmerged):
    monkeypatch.setattr(pair_counts, "_MAX_UNMERGED", most_unmerged)
    random = np.random.default_rng(1)
    counts, expected = PairCounts(20, 30), collections.Counter()
    for _ in range(9):
        source, target = (random.integers(4, size, 100) for size in (20, 30))
        counts.add(source, target)
        expected.update(zip(source.tolist(), target.tolist(), strict=True))
    table = counts.table(most=3, num_always=2)
    frequency = collections.Counter()
    for (_, target), count in expected.items():
        frequency[target] += count
    always = sorted(frequency, key=lambda target: (-frequency[target], target))[:2]
    assert table.always.tolist() == sorted(always)
    for source in range(20):
        targets = [target for s, target in expected if s == source and target not in always]
        best = sorted(targets, key=lambda target: (-expected[source, target], target))[:3]
        assert [x for x in table.by_source[source].tolist() if x] == sorted(best)


def test_no_candidates():
    counts = PairCounts(6, 8)
    counts.add(np.array([4, 4, 5]), np.array([7, 7, 5]))
    assert counts.table(most=0, num_always=1).by_source.shape == (6, 0)
    assert counts.table(most=2, num_always=0).always.tolist() == []
    assert counts.table(most=2, num_always=9).always.tolist() == [5, 7]


@pytest.fixture(scope="module")
def shortlist(talkative, corpus, tmp_path_factory):
    path = tmp_path_factory.mktemp("shortlist") / "shortlist.tsv"
    texts = ["--source", corpus.path("train.en"), "--target", corpus.path("train.de")]
    options = ["--model-dir", str(talkative), *texts, "--output", str(path)]
    assert main(["train-shortlist", *options, "--candidates", "4", "--always", "6"]) == 0
    return path


@pytest.mark.slow
def test_alignments_are_those_of_the_attention(talkative, corpus, tmp_path):
    """The table, computed pair by pair."""
    for side in ("en", "de"):
        lines = (corpus.directory / f"train.{side}").read_bytes().splitlines(keepends=True)
        (tmp_path / side).write_bytes(b"".join(lines[:40]))
    texts = ["--source", str(tmp_path / "en"), "--target", str(tmp_path / "de")]
    options = ["--model-dir", str(talkative), *texts, "--output", str(tmp_path / "short")]
    assert main(["train-shortlist", *options, "--candidates", "4", "--always", "6"]) == 0
    model, source_tokenizer, target_tokenizer = load_model(talkative)
    texts = [(tmp_path / side).read_text(encoding="utf-8").splitlines() for side in ("en", "de")]
    pairs = collections.Counter()
    for source, target in zip(
        source_tokenizer.encode(texts[0]), target_tokenizer.encode(texts[1]), strict=True
    ):
        if not source or not target or max(len(source), len(target)) >= model.config.max_length:
            continue
        inputs = {"source": tf.constant([[*source, 3]]), "target": tf.constant([[2, *target]])}
        is_piece = np.array(source) >= 4
        for layer in model.states(inputs).decoder.cross_attention:
            weights = np.mean(layer, axis=1)[0, :, :-1]
            for index, token in enumerate(target):
                if token >= 4:
                    best = source[np.argmax(np.where(is_piece, weights[index], -1))]
                    pairs[best, token] += 1
    expected = PairCounts(model.config.source_vocab_size, model.config.target_vocab_size)
    for (source, target), count in pairs.items():
        expected.add(np.full(count, source), np.full(count, target))
    table = expected.table(most=4, num_always=6)
    found = read_shortlist(tmp_path / "short", source_tokenizer, target_tokenizer)
    np.testing.assert_array_equal(found.always, table.always)
    differences = np.any(found.by_source != table.by_source, axis=1).sum()
    assert differences <= 2  # batches round otherwise, so almost equal weights may swap


@pytest.mark.slow
def test_coverage_of_another_text(talkative, corpus, tmp_path, capsys):
    path = tmp_path / "short"
    texts = ["--source", corpus.path("train.en"), "--target", corpus.path("train.de")]
    texts += ["--validation-source", corpus.path("validation.en")]
    texts += ["--validation-target", corpus.path("validation.de")]
    assert (
        main(["train-shortlist", "--model-dir", str(talkative), *texts, "--output", str(path)]) == 0
    )
    report = capsys.readouterr().out
    source, target = read_vocabularies(talkative)
    table = read_shortlist(path, source, target)
    covered, pieces, sizes = 0, 0, []
    longest = SMALL_SETTINGS["model.max_length"] - 1  # and the end
    lines = [
        (corpus.directory / f"validation.{side}").read_text(encoding="utf-8").splitlines()
        for side in ("en", "de")
    ]
    for source_ids, target_ids in zip(
        source.encode(lines[0]), target.encode(lines[1]), strict=True
    ):
        if max(len(source_ids), len(target_ids)) > longest:
            continue
        found = {0, 1, 2, 3, *table.always.tolist()}
        for token in [*source_ids, 3]:
            found |= set(table.by_source[token].tolist())
        covered += sum(token in found for token in target_ids)
        pieces += len(target_ids)
        sizes.append(len(found))
    assert f"{np.mean(sizes):.0f} candidates for a sentence on average" in report
    assert f"{100 * covered / pieces:.2f} % of the target pieces of the validation text" in report


@pytest.mark.slow
def test_the_commands_use_it(shortlist, talkative, corpus, tmp_path):
    """translate, evaluate and the SavedModel give the translations of `Translator`."""
    lines = (corpus.directory / "test.en").read_text(encoding="utf-8").splitlines()[:30]
    short = Translator.load(talkative, shortlist=shortlist, beam_size=1)
    expected = short(lines)
    assert expected != Translator.load(talkative, beam_size=1)(lines)
    texts = tmp_path / "texts.en"
    texts.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    model = ["--model-dir", str(talkative), "--shortlist", str(shortlist), "--beam-size", "1"]
    output = tmp_path / "translated"
    assert main(["translate", *model, "--input", str(texts), "--output", str(output)]) == 0
    assert output.read_text(encoding="utf-8").splitlines() == expected
    reference = tmp_path / "reference"
    reference.write_text("".join(f"{line}\n" for line in expected), encoding="utf-8")
    texts = ["--source", str(texts), "--reference", str(reference)]
    scores = tmp_path / "scores.json"
    assert main(["evaluate", *model, *texts, "--json", str(scores)]) == 0
    assert '"exact": 1.0' in scores.read_text()
    assert f'"shortlist_digest_blake2b": "{short.search.shortlist.digest}"' in scores.read_text()


@pytest.mark.representatives("options0")
@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--dtype", "int8"], ["--xla", "1x16"]])
def test_export(shortlist, talkative, corpus, tmp_path, monkeypatch, options):
    """The signatures are compared with the model by `export` itself, in this process."""
    loaded = []

    def run(version, requests):
        loaded.append(tf.saved_model.load(version).signatures)
        return answers_of(loaded[0], requests)

    monkeypatch.setattr(verification, "run_in_fresh_process", run)
    folder = tmp_path / "served"
    command = ["export", "--model-dir", str(talkative), "--output", str(folder)]
    # TensorFlow never frees the functions of an export, so there are only a few signatures.
    command += ["--signatures", "serving_default", "complete_options"]
    assert main([*command, "--shortlist", str(shortlist), *options]) == 0
    lines = (corpus.directory / "test.en").read_text(encoding="utf-8").splitlines()[:10]
    dtype = "int8" if "int8" in options else "float32"
    short = Translator.load(talkative, dtype=dtype, shortlist=shortlist)
    signature = loaded[0]["serving_default"]
    for rows in (lines[:1], lines):
        found = signature(text=tf.constant(rows))["translation"].numpy().tolist()
        assert [text.decode() for text in found] == short(rows)
    card = (folder / "1" / "model.json").read_text()
    assert f'"shortlist_digest_blake2b": "{short.search.shortlist.digest}"' in card


@pytest.mark.slow
def test_faults(shortlist, talkative, trained, corpus, tmp_path, capsys):
    texts = ["--source", corpus.path("train.en"), "--target", corpus.path("train.de")]
    train = ["train-shortlist", "--model-dir", talkative, *texts]
    new = tmp_path / "new"
    for options, message in (
        (["--output", new, "--candidates", "1001"], "--candidates 1001: expected 0 to 1000"),
        (["--output", new, "--always", "-1"], "--always -1: expected 0 to 1000"),
        (["--output", new, "--validation-source", corpus.path("validation.en")], "only together"),
        (["--output", corpus.path("train.en")], "is an input file"),
        (["--output", talkative / "config.json"], "is a file of the model"),
    ):
        assert message in fails(capsys, *train, *options)
    assert not new.exists()
    (tmp_path / "empty").write_text("\n\n")
    empty = ["--source", tmp_path / "empty", "--target", tmp_path / "empty", "--output", new]
    assert "no pair is left to align" in fails(capsys, *train[:3], *empty).splitlines()[-1]
    assert not new.exists()
    damaged = tmp_path / "damaged"
    damaged.write_bytes(shortlist.read_bytes() + b"\xff\n")
    for command in (
        ["translate", "--input", corpus.path("test.en"), "--output", new],
        ["evaluate", "--source", corpus.path("test.en"), "--reference", corpus.path("test.de")],
        ["export", "--output", new],
    ):
        line = fails(capsys, *command, "--model-dir", talkative, "--shortlist", damaged)
        assert "not UTF-8" in line
    assert not new.exists()
