"""`prepare --language-id`: pairs in other languages are counted and dropped, by every runner."""

import json

import numpy as np
import pytest

from tests.test_cli import fails
from tests.training.preparation.test_prepare import (
    PAIRS,
    SETTINGS,
    contents,
    encoded,
    prepare,
    records_of,
    write_lines,
    write_pairs,
)
from tf_transformer.__main__ import main
from tf_transformer.language_id.classifier_file import read_classifier
from training.preparation.language_filter import LanguageFilter

# Sentences, since "2. September" is in both languages.
SENTENCES = [number for number, pair in enumerate(PAIRS[:200]) if len(pair[0].split()) > 4]
SWAPPED = (*SENTENCES[1:3], *SENTENCES[-8:-6])
LANGUAGES = ["--source-language", "en", "--target-language", "de"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Pairs of which some are swapped, numbers, and a classifier."""
    folder = tmp_path_factory.mktemp("filter")
    for side, language in enumerate(("en", "de")):
        lines = [pair[side] for pair in PAIRS[200:]]
        write_lines(folder / f"known.{language}", lines)
    command = ["train-language-id", "--output", str(folder / "classifier")]
    for language in ("en", "de"):
        command += ["--corpus", f"{language}={folder}/known.{language}"]
    assert main(command) == 0
    pairs = [pair[::-1] if number in SWAPPED else pair for number, pair in enumerate(PAIRS[:200])]
    source, target = write_pairs(folder, [*pairs, ("42", "42"), ("17 + 4", "= 21")])
    prepare([source], [target], folder / "plain", *SETTINGS)
    return folder, source, target


def vocabulary_of(corpus):
    """Options that take the vocabulary of a preparation without the filter."""
    return ["--vocabulary", corpus[0] / "plain", "--set", "data.max_length=60"]


def filtered(corpus, output, *extra):
    folder, source, target = corpus
    words = ["--language-id", folder / "classifier", *LANGUAGES, *SETTINGS, "--shard-pairs", "50"]
    return prepare([source], [target], output, *words, *extra)


@pytest.mark.slow
def test_wrong_languages_are_dropped(corpus, tmp_path, capsys):
    description = filtered(corpus, tmp_path / "out")
    statistics = description["statistics"]
    assert statistics["faults"]["in another language"] == len(SWAPPED)
    target = corpus[2]
    assert statistics["examples"]["in another language"] == [
        f"{target}:{number + 1}" for number in SWAPPED[:3]
    ]
    kept = [pair for number, pair in enumerate(PAIRS[:200]) if number not in SWAPPED]
    kept = list(dict.fromkeys([*kept, ("42", "42"), ("17 + 4", "= 21")]))
    assert records_of(tmp_path / "out") == encoded(tmp_path / "out", kept)
    assert (
        f"{len(SWAPPED)} dropped as in another language ({target}:{SWAPPED[0] + 1}, "
        in capsys.readouterr().out
    )
    assert description["language_filter"] == {
        "classifier_digest_blake2b": read_classifier(corpus[0] / "classifier").digest,
        "languages": ["en", "de"],
        "threshold": 0.1,
    }


@pytest.mark.slow
def test_one_side_alone(corpus, tmp_path):
    folder, source, target = corpus
    words = ["--language-id", folder / "classifier", *vocabulary_of(corpus)]
    # Both sides are English, so that only a filter of the target finds it.
    found = prepare([source], [source], tmp_path / "a", *words, "--source-language", "en")
    assert found["statistics"]["faults"]["in another language"] == len(SWAPPED)
    found = prepare(None, [target], tmp_path / "b", *words, "--target-language", "de")
    assert found["statistics"]["faults"]["in another language"] == len(SWAPPED)
    found = prepare([source], [target], tmp_path / "c", *words, *LANGUAGES,
                    "--language-threshold", "0")  # fmt: skip
    assert found["statistics"]["faults"]["in another language"] == 0


@pytest.mark.slow
def test_the_bytes_do_not_depend_on_the_runner(corpus, tmp_path, inline_beam):
    filtered(corpus, tmp_path / "one")
    filtered(corpus, tmp_path / "three", "--processes", "3")
    filtered(corpus, tmp_path / "beam", "--runner", "direct")
    assert contents(tmp_path / "one") == contents(tmp_path / "three") == contents(tmp_path / "beam")


@pytest.mark.slow
def test_without_the_option_nothing_changes(corpus):
    description = json.loads((corpus[0] / "plain" / "prepared.json").read_text())
    assert "language_filter" not in description
    assert "in another language" not in description["statistics"]["faults"]


@pytest.mark.slow
def test_tags_are_no_text(corpus, tmp_path):
    folder, *_ = corpus
    pairs = [(f"<2de> {PAIRS[number][0]}", PAIRS[number][1]) for number in SENTENCES]
    pairs += [(f"<2de> {number}", f"{number}") for number in range(20)]
    source, target = write_pairs(tmp_path, pairs)
    words = ["--language-id", folder / "classifier", *LANGUAGES, "--language-threshold", "0.5"]
    settings = ["--vocab-size", "400", "--set", "vocabulary.languages=[de]"]
    found = prepare([source], [target], tmp_path / "out", *words, *settings)["statistics"]
    assert found["faults"]["in another language"] == 0


@pytest.mark.slow
def test_another_filter_is_another_preparation(corpus, tmp_path, capsys):
    folder, source, target = corpus
    common = ["--source", source, "--target", target, "--output", tmp_path / "out"]
    common += [*vocabulary_of(corpus), "--shard-pairs", "50"]
    with_filter = [*common, "--language-id", folder / "classifier", *LANGUAGES]
    assert main(["prepare", *map(str, with_filter)]) == 0
    capsys.readouterr()
    for words in (common, [*with_filter, "--language-threshold", "0.5"]):
        assert "another filter of languages" in fails(capsys, "prepare", *words)
    assert main(["prepare", *map(str, with_filter)]) == 0


def test_options_that_are_refused(corpus, tmp_path, capsys):
    folder, source, target = corpus
    common = ["--source", source, "--target", target, "--output", tmp_path / "out"]
    classifier = ["--language-id", folder / "classifier"]
    for words, message in (
        ([*common, *LANGUAGES], "are valid only with --language-id"),
        ([*common, "--language-threshold", "0.1"], "are valid only with --language-id"),
        ([*common, *classifier], "needs --source-language, --target-language, or both"),
        ([*common, *classifier, "--source-language", "fr"], "--source-language 'fr': expected a"),
        ([*common, *classifier, "--target-language", "und"], "--target-language 'und': expected"),
        ([*common, *classifier, *LANGUAGES, "--language-threshold", "2"], "from 0 to 1"),
        ([*common, "--language-id", source, *LANGUAGES], f"{source}: "),
        ([*common[2:], *classifier, *LANGUAGES], "a corpus for a language model has no source"),
    ):
        assert message in fails(capsys, "prepare", *words)
    assert not (tmp_path / "out").exists()


def test_the_rule(corpus):
    """A side counts by the probability of its language, and not if it has no letters."""
    classifier = read_classifier(corpus[0] / "classifier")
    pairs = [*PAIRS[:20], *(pair[::-1] for pair in PAIRS[:20]), ("", "1"), ("5", PAIRS[0][0])]
    sides = [np.exp(classifier.score([pair[side].encode() for pair in pairs]).log_probs[:, side])
             for side in (0, 1)]  # fmt: skip
    has_letters = [[any(map(str.isalpha, pair[side])) for pair in pairs] for side in (0, 1)]
    for threshold in (0.05, 0.5, 0.95):
        expected = np.any([(p < threshold) & h for p, h in zip(sides, has_letters, strict=True)], 0)
        found = LanguageFilter(classifier, ("en", "de"), threshold).in_other_language(pairs)
        np.testing.assert_array_equal(found, expected)
    assert json.dumps(LanguageFilter(classifier, (None, "de"), 0.5).facts())
