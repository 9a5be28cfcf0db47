"""Imported models of fairseq against its equations in PyTorch, from the same random weights."""

import argparse
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
from tf_transformer.formats.import_model import import_model

torch = pytest.importorskip("torch")

from tests.parity import fairseq_model as original  # noqa: E402 (needs PyTorch)

pytestmark = [pytest.mark.parity, pytest.mark.slow]

PRE = dict(encoder_normalize_before=True, decoder_normalize_before=True)
LEARNED = dict(encoder_learned_pos=True, decoder_learned_pos=True)
# Settings, kind of checkpoint, and whether the vocabularies are SentencePiece's.
CASES = {
    "post-norm, words": (dict(), "args", False),
    "pre-norm, SentencePiece": (PRE, "cfg", True),
    "one embedding, from Hydra": (dict(share_all_embeddings=True, arch="vaswani"), "hydra", True),
    "learned positions, gelu": (LEARNED | dict(activation_fn="gelu"), "cfg", False),
    "old names": (dict(share_decoder_input_output_embed=False), "old", False),
    "unequal sides, mixed norms": (
        dict(
            encoder_embed_dim=24,
            encoder_attention_heads=2,
            encoder_ffn_embed_dim=40,
            decoder_layers=1,
            decoder_normalize_before=True,
            no_decoder_final_norm=True,
        ),
        "args",
        True,
    ),
}
TRANSLATED = ("post-norm, words", "pre-norm, SentencePiece")
MAX_LENGTH = 12


class Both:
    """A checkpoint of fairseq, and the same imported."""

    def __init__(self, folder, settings, kind, with_sentencepiece):
        self.args = argparse.Namespace(**(original.SIZES | settings))
        theirs = folder / "theirs"
        theirs.mkdir()
        joint = self.args.share_all_embeddings
        lines = [SOURCES + TARGETS] * 2 if joint else [SOURCES, TARGETS]
        if with_sentencepiece:
            names = ["spm.model"] * 2 if joint else ["spm.en.model", "spm.de.model"]
            self.models = [
                write_sentencepiece(theirs / name, side)
                for name, side in zip(names, lines, strict=True)
            ]
            entries = [pieces_of(model) for model in self.models]
        else:
            self.models = [None, None]
            entries = [list(dict.fromkeys(split_words(" ".join(side)).split())) for side in lines]
        for side in entries:
            random.Random(1).shuffle(side)
            del side[:5]  # some lack, some are more
            side.append("more")
        self.entries = [
            original.write_dictionary(theirs / f"dict.{language}.txt", side)
            for language, side in zip(("en", "de"), entries, strict=True)
        ]
        self.module = original.make_model(self.args, *map(len, self.entries))
        state = original.checkpoint_of(self.module, self.args, kind)
        is_zip = kind != "old"
        torch.save(state, theirs / "model.pt", _use_new_zipfile_serialization=is_zip)
        self.notes = import_model(theirs, folder / "ours")
        special = ["<pad>", "<unk>", "<s>", "</s>"]
        self.ours = Imported(folder / "ours", *self.entries, special=special)

    def segment(self, line, side):
        """The text that the model is given."""
        return line if self.models[side] else split_words(line)

    def ids(self, line, side):
        """`encode_line`, after the segmentation by SentencePiece."""
        model = self.models[side]
        text = " ".join(model.encode(line, out_type=str)) if model else line
        known = {entry: number for number, entry in enumerate(self.entries[side])}
        return [known.get(word, 3) for word in text.split()] + [original.END]


@pytest.fixture(scope="module", params=CASES)
def both(request, tmp_path_factory):
    return Both(tmp_path_factory.mktemp("fairseq"), *CASES[request.param])


@pytest.mark.representatives("post-norm, words", "pre-norm, SentencePiece")
def test_ids(both):
    """Of 1,000 sentences and odd ones on each side."""
    for side, lines in enumerate((SOURCES, TARGETS)):
        tokenizer = (both.ours.source, both.ours.target)[side]
        rows = (both.ours.source_rows, both.ours.target_rows)[side]
        lines = [both.segment(line, side) for line in [*lines, *ODD]]
        unknown = 0
        for line, ids in zip(lines, tokenizer.tokenize(lines).to_list(), strict=True):
            assert [*rows[ids], original.END] == both.ids(line, side), line
            unknown += ids.count(1)
        assert unknown > 5
    assert bool(both.notes) == (both.models[0] is None)


def test_logits(both):
    ours = both.ours
    texts = [both.segment(line, 0) for line in SOURCES[:16]]
    targets = [both.segment(line, 1) for line in TARGETS[:16]]
    source, target = ours.batch(texts, targets)
    computed = np.asarray(ours.model({"source": source, "target": target}))
    rows = ours.target_rows[target]
    rows[:, 0] = original.END
    with torch.no_grad():
        expected = both.module(torch.tensor(ours.source_rows[source]), torch.tensor(rows)).numpy()
    real = target != 0
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(computed[real], expected[real][:, ours.target_rows], atol=1e-4)


@pytest.mark.parametrize("both", TRANSLATED, indirect=True)
def test_greedy_translations(both):
    texts = [both.segment(line, 0) for line in SOURCES[:60]]
    found = both.ours.translate(texts, MAX_LENGTH)
    source = [torch.tensor(both.ids(text, 0)) for text in texts]
    source = torch.nn.utils.rnn.pad_sequence(source, True, original.PAD)
    with torch.no_grad():
        expected = greedy(
            lambda prefix: both.module(source, torch.tensor(prefix))[:, -1],
            rows=len(texts),
            begin=original.END,
            end=original.END,
            never=[0, 1, 3],
            max_length=MAX_LENGTH,
        )
    assert len(set(found)) > 5
    for text, ids in zip(found, expected, strict=True):
        words = [both.entries[1][number] for number in ids]
        if both.models[1]:
            assert text == "".join(words).replace("\u2581", " ").strip()
        else:
            assert text == " ".join(words)
