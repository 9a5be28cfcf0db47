"""Imported models of OpenNMT-tf against its equations in NumPy, from the same random weights."""

import random

import numpy as np
import pytest

from tests.parity.checkpoint_parity import (
    ODD,
    SOURCES,
    TARGETS,
    Imported,
    greedy,
    pieces_of,
    split_words,
    write_sentencepiece,
)
from tests.tf_transformer.formats.checkpoints import opennmt_tf_model as original
from tf_transformer.formats.import_model import import_model

pytestmark = pytest.mark.slow

# Options of the model, whether sources have an end, and whether vocabularies are SentencePiece's.
CASES = {
    "words": (dict(), False, False),
    "SentencePiece, one matrix, swish": (
        dict(share_embeddings="ALL", ffn_activation="swish"),
        True,
        True,
    ),
    "one embedding, gelu, other depths": (
        dict(share_embeddings="SOURCE_TARGET_INPUT", ffn_activation="gelu", num_layers=(3, 1)),
        False,
        False,
    ),
    "post-norm, learned positions": (
        dict(
            share_embeddings="TARGET",
            pre_norm=False,
            position_encoder="learned",
            output_layer_bias=False,
        ),
        True,
        False,
    ),
    "relative positions, no biases": (
        dict(position_encoder=None, maximum_relative_position=3, mha_bias=False),
        False,
        False,
    ),
    "relative positions and sinusoids": (dict(maximum_relative_position=2), False, False),
}
TRANSLATED = ("words", "SentencePiece, one matrix, swish")
MAX_LENGTH = 12


class Both:
    """A run of OpenNMT-tf, and the same imported."""

    def __init__(self, folder, options, source_end, with_sentencepiece):
        self.options = original.OPTIONS | options
        theirs = folder / "theirs"
        theirs.mkdir()
        joint = self.options["share_embeddings"] in ("SOURCE_TARGET_INPUT", "ALL")
        lines = [SOURCES + TARGETS] * 2 if joint else [SOURCES, TARGETS]
        self.models = [None, None]
        if with_sentencepiece:
            self.models = [write_sentencepiece(theirs / "both.model", lines[0])] * 2
            entries = [pieces_of(model) for model in self.models]
        else:
            entries = [list(dict.fromkeys(split_words(" ".join(side)).split())) for side in lines]
        for side in entries:
            random.Random(1).shuffle(side)
            del side[:5]  # some lack
        self.entries = [[*original.SPECIAL, *side, "<unk>"] for side in entries]
        for name, side in zip(("source", "target"), self.entries, strict=True):
            text = "".join(f"{entry}\n" for entry in side[:-1])
            (theirs / f"{name}.vocab").write_text(text, encoding="utf-8")
        controls = "{start: false, end: true}" if source_end else "null"
        (theirs / "data.yml").write_text(
            "data:\n  source_vocabulary: /data/source.vocab\n  target_vocabulary: target.vocab\n"
            f"  source_sequence_controls: {controls}\n"
        )
        variables = original.random_variables(self.options, *map(len, self.entries))
        original.save_checkpoint(theirs, variables, step=9)
        settings = {"num_heads": 4, "activation": self.options["ffn_activation"]}
        if self.options["position_encoder"] == "sinusoids":
            settings["positions"] = "concatenated"
        self.notes = import_model(theirs, folder / "ours", settings=settings)
        self.reference = original.Reference(self.options, variables)
        self.source_end = [original.END] if source_end else []
        self.ours = Imported(
            folder / "ours", *self.entries, special=["<blank>", "<unk>", "<s>", "</s>"]
        )

    def segment(self, line, side):
        """The text that the model is given."""
        return line if self.models[side] else split_words(line)

    def ids(self, line, side):
        """Those of `WordEmbedder.make_features`, without controls."""
        model = self.models[side]
        # `tf.strings.split` splits at ASCII white space.
        words = model.encode(line, out_type=str) if model else line.encode().split()
        words = [word if isinstance(word, str) else word.decode() for word in words]
        known = {entry: number for number, entry in enumerate(self.entries[side])}
        return [known.get(word, len(known) - 1) for word in words]

    def logits(self, source, target):
        return self.reference.logits([*source, *self.source_end], target)


@pytest.fixture(scope="module", params=CASES)
def both(request, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        # It takes seconds, and the tests compare more translations.
        patch.setattr("tf_transformer.formats.import_model._check_translations", lambda *_: None)
        yield Both(tmp_path_factory.mktemp("opennmt_tf"), *CASES[request.param])


def test_ids(both):
    """Of 1,000 sentences and odd ones on each side."""
    for side, lines in enumerate((SOURCES, TARGETS)):
        tokenizer = (both.ours.source, both.ours.target)[side]
        rows = (both.ours.source_rows, both.ours.target_rows)[side]
        lines = [both.segment(line, side) for line in [*lines, *ODD]]
        unknown = 0
        for line, ids in zip(lines, tokenizer.tokenize(lines).to_list(), strict=True):
            assert [*rows[ids]] == both.ids(line, side), line
            unknown += ids.count(1)
        assert unknown > 5
    assert bool(both.notes) == (both.models[0] is None)


def test_logits(both):
    """Without an end of the source in the original, attention does not see ours."""
    ours = both.ours
    texts = [both.segment(line, 0) for line in SOURCES[:16]]
    source, target = ours.batch(texts, [both.segment(line, 1) for line in TARGETS[:16]])
    computed = np.asarray(ours.model({"source": source, "target": target}))
    largest = 0
    for text, ids, found in zip(texts, target, computed, strict=True):
        ids = ids[ids != 0]
        expected = both.logits(both.ids(text, 0), ours.target_rows[ids])
        largest = max(largest, np.abs(expected).max())
        np.testing.assert_allclose(found[: len(ids)], expected[:, ours.target_rows], atol=1e-4)
    assert largest > 1


@pytest.mark.parametrize("both", TRANSLATED, indirect=True)
def test_greedy_translations(both):
    texts = [both.segment(line, 0) for line in SOURCES[:60]]
    found = both.ours.translate(texts, MAX_LENGTH)
    assert len(set(found)) > 5
    for line, text in zip(texts, found, strict=True):
        source = both.ids(line, 0)
        (ids,) = greedy(
            lambda prefix, source=source: both.logits(source, prefix[0])[-1:],
            rows=1,
            begin=original.BEGIN,
            end=original.END,
            never=[original.PAD, original.BEGIN, len(both.entries[1]) - 1],
            max_length=MAX_LENGTH,
        )
        words = [both.entries[1][number] for number in ids]
        if both.models[1]:
            assert text == "".join(words).replace("\u2581", " ").strip()
        else:
            assert text == " ".join(words)
