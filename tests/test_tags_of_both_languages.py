"""Models whose sources and targets each start with the tag of their own language, as in NLLB.

The reference is the same model with `language_tags="source"`, whose search is given the target's
tag as the beginning of the translation.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.tf_transformer.formats.random_model import SOURCES, TARGETS, write_random_model
from tf_transformer import Translator
from tf_transformer.__main__ import main
from tf_transformer.decoding.sampling import SamplingOptions
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.inference.aligner import Aligner
from tf_transformer.inference.inspection import inspect_attention
from tf_transformer.inference.sampler import sample_translations
from tf_transformer.inference.scorer import score_pairs
from tf_transformer.inference.word_links import link_words
from tf_transformer.storage.model_dir import read_tokenizers
from tf_transformer.text.framing import move_tags
from tf_transformer.word_alignment.pharaoh import parse_links
from tf_transformer.word_alignment.piece_words import word_indices
from training.config import VocabularyConfig
from training.data.vocabulary import train_vocabularies
from training.report.attention_report import explain
from training.report.search_steps import search_data

TAGS = (">>deu<<", ">>eng<<")
SENTENCES = ["A man sleeps.", "ten horses", "the third of May in a house", "x"]
OTHER_TAGS = [f"{TAGS[1]} {TAGS[0]} {text}" for text in SENTENCES[:2]]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The vocabulary's SentencePiece model, twice."""

    class Lines:
        def lines(self):
            return [*SOURCES, *TARGETS]

    config = VocabularyConfig(size=130, byte_fallback=False, languages=list(TAGS))
    return train_vocabularies([Lines()], [Lines()], config, lambda files: files[0].lines())


@pytest.fixture(scope="module")
def folders(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tags")
    for name in ("source", "source_and_target"):
        write_random_model(
            folder / name, models, end_bias=2.5, logits_bias=True, language_tags=name,
            max_length=64, num_encoder_layers=1,
        )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def translators(folders):
    """The reference, whose limit includes the tag, and the translator to test.

    No test here may set random seeds, as training does: that would end the tokenizers.
    """
    options = dict(beam_size=3, num_best=3)
    return [
        Translator.load(folders / name, max_length_constant=limit, **options)
        for name, limit in (("source", 9), ("source_and_target", 8))
    ]


def tagged(text):
    return f"{TAGS[0]} {TAGS[1]} {text}"


def given_tag(plain, texts, options=None, **arguments):
    """The search of the reference, which is given the tag."""
    source = plain.source_tokenizer.tokenize([f"{TAGS[1]} {text}" for text in texts])
    tag = plain.target_tokenizer.tokenize([TAGS[0]] * len(texts))
    assert tag.shape[1] is None and tag.row_lengths().numpy().tolist() == [1] * len(texts)
    found = plain.search.run(source, options, tag, **arguments)
    return found, plain.target_tokenizer.detokenize(found.ids[:, 0, 1:])


@pytest.mark.slow
def test_translations(translators):
    plain, both = translators
    expected, texts = given_tag(plain, SENTENCES, num_best=3)
    found = both.n_best([tagged(text) for text in SENTENCES])
    assert [best[0].text for best in found] == [text.decode() for text in texts.numpy()]
    assert len({best[0].text for best in found}) > 2
    scores = [[translation.score for translation in best] for best in found]
    np.testing.assert_allclose(scores, expected.scores, rtol=1e-5)
    # The tags may differ from sentence to sentence.
    mixed = [*OTHER_TAGS, *map(tagged, SENTENCES), ""]
    again = both(mixed)
    assert again[2:6] == [best[0].text for best in found] and again[6:] == [""]
    assert again[:2] != again[2:4]


@pytest.mark.slow
def test_options(translators):
    """Lengths are those of the translation, without the tag."""
    plain, both = translators
    rows = len(SENTENCES)
    defaults = TranslationOptions.defaults(rows)
    options = defaults._replace(max_length=tf.fill([rows], 3), min_length=tf.fill([rows], 2))
    found = both.translate_in_graph(tf.constant([tagged(text) for text in SENTENCES]), options)
    assert set(found.lengths.numpy().ravel()) <= {2, 3}
    expected, texts = given_tag(
        plain, SENTENCES, defaults._replace(max_length=tf.fill([rows], 4), min_length=[3] * rows)
    )
    assert found.text[:, 0].numpy().tolist() == texts.numpy().tolist()
    np.testing.assert_array_equal(found.lengths[:, 0], expected.lengths[:, 0] - 1)
    prefix = tf.constant(["Ein", "", "", ""])
    found = both.translate_in_graph(tf.constant(list(map(tagged, SENTENCES))), None, prefix)
    assert found.text[0, 0].numpy().startswith(b"Ein")


@pytest.mark.slow
def test_tokens(translators):
    _, both = translators
    ids = both.source_tokenizer.tokenize([tagged(text) for text in SENTENCES])
    found = both.search.run_chunks(ids, None, 2)
    texts = both.target_tokenizer.detokenize(found.ids)
    assert [text.decode() for text in texts.numpy()] == both(map(tagged, SENTENCES))


@pytest.mark.slow
def test_scores(translators):
    """Of the best translations: those that the search found, with the end."""
    _, both = translators
    sources = [tagged(text) for text in SENTENCES]
    found = both.search.run(both.source_tokenizer.tokenize(sources))
    targets = both.target_tokenizer.detokenize(found.ids[:, 0])
    again = both.target_tokenizer.tokenize(targets)
    same = again.to_tensor(shape=(None, found.ids.shape[2])) == found.ids[:, 0]
    same = tf.reduce_all(same, axis=1).numpy()
    assert same.any()
    scores = score_pairs(both, tf.constant(sources), targets)
    np.testing.assert_allclose(scores.log_prob[same], found.log_probs[:, 0][same], atol=1e-4)
    np.testing.assert_array_equal(scores.num_tokens, again.row_lengths() + 1)
    sums = tf.reduce_sum(scores.token_log_probs, axis=1)
    np.testing.assert_allclose(sums, scores.log_prob, rtol=1e-5)
    empty = score_pairs(both, tf.constant(["", tagged("")]), tf.constant(["Ein", "Ein"]))
    assert np.isfinite(empty.log_prob).all()
    assert empty.num_tokens[0] == empty.num_tokens[1]


@pytest.mark.slow
def test_samples(translators):
    """The most probable tokens are those of greedy search."""
    plain, both = translators
    greedy = TranslationOptions.defaults(len(SENTENCES))._replace(beam_size=[1] * len(SENTENCES))
    expected, texts = given_tag(plain, SENTENCES, greedy)
    zeros = tf.zeros([len(SENTENCES)], tf.int32)
    options = SamplingOptions(
        tf.cast(zeros, tf.float32), zeros, tf.cast(zeros, tf.float32), tf.cast(zeros, tf.int64),
        zeros,
    )  # fmt: skip
    found = sample_translations(both, tf.constant(list(map(tagged, SENTENCES))), options)
    assert found.text.numpy().tolist() == texts.numpy().tolist()
    np.testing.assert_allclose(found.log_probs, expected.log_probs[:, 0], atol=1e-4)


@pytest.mark.slow
def test_alignments(translators):
    _, both = translators
    found = Aligner(both).align(tf.constant([tagged(text) for text in SENTENCES]))
    assert [text.decode() for text in found.text.numpy()] == both(map(tagged, SENTENCES))
    for text, source, target, soft in zip(
        SENTENCES, found.source_pieces, found.target_pieces, found.soft, strict=True
    ):
        pieces = source.numpy().decode().split(" ")
        assert pieces[0] == f"\u2581{TAGS[1]}" and len(pieces) > 1, text
        targets = target.numpy().decode().split()
        assert TAGS[0] not in "".join(targets)
        weights = [[float(x) for x in word.split(",")] for word in soft.numpy().decode().split()]
        assert len(weights) == len(targets)
        assert {len(row) for row in weights} <= {len(pieces) + 1}
        sums = [sum(row) for row in weights]
        np.testing.assert_allclose(sums, np.ones(len(targets)), atol=1e-3)
    assert tf.strings.length(found.soft[1]) > 0
    inspected = inspect_attention(both, tagged(SENTENCES[1]))
    assert inspected.source[0] == f"\u2581{TAGS[1]}"
    assert inspected.target[:2] == ["<s>", f"\u2581{TAGS[0]}"]
    assert inspected.translation == found.text[1].numpy().decode()
    # The weights that predict the first piece are those of the tag.
    layer = inspected.attention.cross[-2].mean(axis=0)
    first = [float(x) for x in found.soft[1].numpy().decode().split()[0].split(",")]
    np.testing.assert_allclose(layer[1], first, atol=1e-3)
    (explained,) = explain(both, [tagged(SENTENCES[1])])
    tree = explained.search
    tag = both.target_tokenizer.pieces.index(f"\u2581{TAGS[0]}")
    assert {ids[0] for ids in tree.live if ids} == {tag}
    # It is given: it costs nothing, and the length penalty leaves it out.
    assert [(c.ids, c.log_prob, c.is_kept) for c in tree.steps[0]] == [((tag,), 0.0, True)]
    ended = [c for step in tree.steps for c in step if c.score is not None]
    for candidate in ended:
        penalty = ((5 + len(candidate.ids) - 1) / 6) ** both.search.length_penalty
        assert candidate.score == pytest.approx(candidate.log_prob / penalty, abs=1e-5)
    assert tree.finished == pytest.approx({c.ids[:-1]: c.score for c in ended}, abs=1e-5)
    assert explained.translations[0] == inspected.translation
    assert explained.inspected.target == inspected.target
    data = search_data(tree, both.search.beam_size)
    assert data["finished"][0][0] == len(inspected.target) - 1  # the end in, begin and tag out


def test_moved_tags():
    source = tf.constant([[7, 8, 5, 3], [9, 8, 3, 0]])
    labels = tf.constant([[4, 6, 3], [4, 3, 0]])
    target = tf.constant([[2, 4, 1], [2, 4, 0]])  # with a dropped word
    inputs, labels = move_tags({"source": source, "target": target}, labels, 1)
    assert inputs["source"].numpy().tolist() == [[8, 5, 3], [8, 3, 0]]
    assert inputs["target"].numpy().tolist() == [[2, 7, 4, 1], [2, 9, 4, 0]]
    assert labels.numpy().tolist() == [[0, 4, 6, 3], [0, 4, 3, 0]]


@pytest.mark.slow
def test_commands(folders, tmp_path, capsys):
    (tmp_path / "in").write_text("A man sleeps.\n\nten horses\n")
    (tmp_path / "reference").write_text("Ein Mann\nx\nzehn Pferde\n")
    model = ["--model-dir", str(folders / "source_and_target")]
    both = ["--target-language", "deu", "--source-language", "eng"]
    command = ["translate", *model, "--beam-size", "1", "--input", str(tmp_path / "in"), "--output"]
    assert main([*command, str(tmp_path / "out"), *both]) == 0
    translator = Translator.load(folders / "source_and_target", beam_size=1)
    expected = translator([tagged("A man sleeps."), "", tagged("ten horses")])
    assert (tmp_path / "out").read_text().splitlines() == expected
    evaluate = ["evaluate", *model, "--beam-size", "1", "--source", str(tmp_path / "in")]
    evaluate += ["--reference", str(tmp_path / "reference"), "--json", str(tmp_path / "scores")]
    evaluate += ["--output", str(tmp_path / "evaluated")]
    assert main([*evaluate, *both]) == 0
    assert (tmp_path / "evaluated").read_text() == (tmp_path / "out").read_text()
    perplexity = json.loads((tmp_path / "scores").read_text())["perplexity"]
    scores = score_pairs(
        translator,
        tf.constant([tagged("A man sleeps."), tagged("ten horses")]),
        tf.constant(["Ein Mann", "zehn Pferde"]),
    )
    mean = tf.reduce_sum(scores.log_prob) / tf.reduce_sum(tf.cast(scores.num_tokens, tf.float32))
    assert perplexity == pytest.approx(np.exp(-mean), rel=1e-4)
    capsys.readouterr()
    for words in ([*command, str(tmp_path / "refused")], evaluate):
        assert main([*words, *both[:2]]) == 2
        assert "the model needs a tag for the source language, too" in capsys.readouterr().err
        assert main([*words, *both[2:]]) == 2
        assert "--source-language is valid only with --target-language" in capsys.readouterr().err
        assert main(words) == 2
        assert (
            "in:1: a source for this vocabulary must start with the tags of the target language"
            in (capsys.readouterr().err)
        )
    model[1] = str(folders / "source")
    assert main(["translate", *model, "--input", str(tmp_path / "in"), *both]) == 2
    assert "the model has no tags for source languages" in capsys.readouterr().err
    assert not (tmp_path / "refused").exists()


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_keras_hub_task(folders, translators, tmp_path):
    from tf_transformer.hub import TransformerSeq2SeqLM, TransformerSeq2SeqLMPreprocessor

    _, both = translators
    task = TransformerSeq2SeqLM.from_model_dir(folders / "source_and_target")
    x = {"encoder_text": [tagged("A man"), OTHER_TAGS[0]], "decoder_text": ["Ein Mann", "Ein"]}
    inputs, labels, weights = task.preprocessor(x)
    ids = both.source_tokenizer.tokenize(x["encoder_text"]).to_list()
    targets = both.target_tokenizer.tokenize(x["decoder_text"]).to_list()
    for row in range(2):
        real = int(inputs["decoder_padding_mask"][row].numpy().sum())
        assert inputs["decoder_token_ids"][row].numpy().tolist()[:real] == (
            [2, ids[row][0], *targets[row]]
        )
        assert labels[row].numpy().tolist()[: real + 1][:real] == [0, *targets[row], 3]
        assert weights[row].numpy().tolist()[:real] == [0] + [1] * (real - 1)
        source = inputs["encoder_token_ids"][row].numpy().tolist()
        assert source[: len(ids[row])] == [*ids[row][1:], 3]
    assert (
        task.generate(tagged(SENTENCES[1]), beam_size=3)
        == (Translator.load(folders / "source_and_target", beam_size=3)([tagged(SENTENCES[1])])[0])
    )
    task.save_to_preset(tmp_path / "preset")
    again = TransformerSeq2SeqLM.from_preset(tmp_path / "preset")
    assert again.preprocessor.num_target_tags == 1
    other = TransformerSeq2SeqLMPreprocessor(
        task.preprocessor.tokenizer, encoder_sequence_length=9, decoder_sequence_length=9
    )
    with pytest.raises(ValueError, match=r"must have num_target_tags=1\. Received: .*=0"):
        TransformerSeq2SeqLM(task.backbone, other)


def test_other_vocabularies_are_refused(folders, models, tmp_path, capsys):
    """Without tags, or with tags that follow a piece of their own."""

    class Lines:
        def lines(self):
            return [*SOURCES, *TARGETS]

    for languages in ([], ["deu", "eng"]):
        config = VocabularyConfig(size=130, byte_fallback=False, languages=languages)
        others = train_vocabularies([Lines()], [Lines()], config, lambda files: files[0].lines())
        folder = tmp_path / str(len(languages))
        write_random_model(folder, others, language_tags="source_and_target")
        with pytest.raises(ValueError, match="needs one vocabulary for both sides, with tags such"):
            read_tokenizers(folder)


@pytest.mark.slow
def test_word_alignment_counts_tags_and_links_none(translators):
    """The tags are words 0 and 1 of the source; the first is the target's first token."""
    model, *tokenizers = (
        translators[1].model,
        translators[1].source_tokenizer,
        translators[1].target_tokenizer,
    )
    sources = [tagged(text) for text in SENTENCES[:3]]
    targets = [text for text in TARGETS if len(text.split()) > 2][:3]
    found = link_words(translators[1], tf.constant(sources), tf.constant(targets))
    assert found.is_aligned.numpy().all()
    for source, target, links in zip(sources, targets, found.links.numpy(), strict=True):
        ids = [
            tokenizer.encode([text])[0]
            for tokenizer, text in zip(tokenizers, (source, target), strict=True)
        ]
        inputs = {"source": [[*ids[0][1:], 3]], "target": [[2, ids[0][0], *ids[1]]]}
        weights = model.alignment({name: tf.constant(x) for name, x in inputs.items()})[0, 1:-1]
        words = [word_indices(tf.ragged.constant([x], tf.int32), t).to_list()[0]
                 for x, t in zip(ids, tokenizers, strict=True)]  # fmt: skip
        starts = [[*(x.index(word) for word in range(max(x) + 1)), len(x)] for x in words]
        expected = set()
        for j in range(len(starts[1]) - 1):
            row = np.sum(weights[starts[1][j] : starts[1][j + 1]], axis=0)
            words = [row[a - 1 : b - 1].sum() for a, b in zip(starts[0][2:-1], starts[0][3:],
                                                              strict=True)]  # fmt: skip
            expected.add((2 + int(np.argmax(words)), j))
        assert parse_links(links.decode(), "") == expected
