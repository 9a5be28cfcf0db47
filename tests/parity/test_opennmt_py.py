"""Imported models of OpenNMT-py against its equations in PyTorch, from the same random weights."""

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
from tf_transformer.formats.writers.safetensors_writer import write_safetensors

torch = pytest.importorskip("torch")

from tests.parity import opennmt_py_model as original  # noqa: E402 (needs PyTorch)

pytestmark = [pytest.mark.parity, pytest.mark.slow]

# Options, kind of checkpoint, and whether the vocabularies are SentencePiece's.
CASES = {
    "version 3, words": (dict(), "3", False),
    "SentencePiece, biases, gelu": (
        dict(
            add_qkvbias=True,
            pos_ffn_activation_fn="gelu",
            position_encoding_type="SinusoidalConcat",
            share_embeddings=True,
        ),
        "3",
        True,
    ),
    "relative positions": (dict(position_encoding=False, max_relative_positions=3), "3", False),
    "relative positions, one embedding, gates": (
        dict(
            position_encoding=False,
            max_relative_positions=2,
            share_embeddings=True,
            pos_ffn_activation_fn="silu",
            add_ffnbias=False,
        ),
        "safetensors",
        True,
    ),
    "version 2": (
        dict(add_qkvbias=True, share_decoder_embeddings=False, dec_layers=1),
        "2",
        False,
    ),
    "the decoder starts with the end": (
        dict(decoder_start_token="</s>", pos_ffn_activation_fn="gated-gelu"),
        "3",
        False,
    ),
}
TRANSLATED = ("version 3, words", "SentencePiece, biases, gelu")
MAX_LENGTH = 12


class Both:
    """A checkpoint of OpenNMT-py, and the same imported."""

    def __init__(self, folder, options, kind, with_sentencepiece):
        self.opt = argparse.Namespace(**(original.OPTIONS | options))
        theirs = folder / "theirs"
        theirs.mkdir()
        joint = self.opt.share_embeddings
        lines = [SOURCES + TARGETS] * 2 if joint else [SOURCES, TARGETS]
        self.models = [None, None]
        if with_sentencepiece:
            names = ["both.model"] * 2 if joint else ["source.model", "tgt.model"]
            self.models = [
                write_sentencepiece(theirs / name, side)
                for name, side in zip(names, lines, strict=True)
            ]
            entries = [pieces_of(model) for model in self.models]
        else:
            entries = [list(dict.fromkeys(split_words(" ".join(side)).split())) for side in lines]
        for side in entries:
            random.Random(1).shuffle(side)
            del side[:5]  # some lack, some are more
            side.append("averyunlikelytoken0")
        special = original.SPECIAL
        self.entries = [[*special, *side] for side in entries]
        self.module = original.make_model(self.opt, *map(len, self.entries))
        state = original.checkpoint_of(self.module, self.opt, self.entries)
        path = theirs / "model_step_5.pt"
        if kind == "2":
            state = original.with_old_names(state)
        if kind == "safetensors":
            weights = {name: value.numpy() for name, value in self.module.state_dict().items()}
            shapes = {name: array.shape for name, array in weights.items()}
            write_safetensors(path.with_suffix(".safetensors"), shapes, weights.items())
            del state["model"], state["generator"]
        torch.save(state, path, _use_new_zipfile_serialization=kind != "2")
        self.notes = import_model(path, folder / "ours")
        self.begin = original.SPECIAL.index(getattr(self.opt, "decoder_start_token", "<s>"))
        names = ["<blank>", "<unk>", "<s>", "</s>"]
        self.ours = Imported(folder / "ours", *self.entries, special=names)

    def segment(self, line, side):
        """The text that the model is given."""
        return line if self.models[side] else split_words(line)

    def ids(self, line, side):
        """`numericalize`, after the segmentation by SentencePiece."""
        model = self.models[side]
        words = model.encode(line, out_type=str) if model else line.split(" ")
        known = {entry: number for number, entry in enumerate(self.entries[side])}
        return [known.get(word, original.UNKNOWN) for word in words if word]


@pytest.fixture(scope="module", params=CASES)
def both(request, tmp_path_factory):
    return Both(tmp_path_factory.mktemp("opennmt"), *CASES[request.param])


@pytest.mark.representatives("version 3, words", "SentencePiece, biases, gelu")
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
    """Our source has an end, which attention does not see; the original's has none."""
    ours = both.ours
    texts = [both.segment(line, 0) for line in SOURCES[:16]]
    source, target = ours.batch(texts, [both.segment(line, 1) for line in TARGETS[:16]])
    computed = np.asarray(ours.model({"source": source, "target": target}))
    rows = ours.target_rows[target]
    rows[:, 0] = both.begin
    source_rows = np.where(source == 3, original.PAD, ours.source_rows[source])
    with torch.no_grad():
        expected = both.module(torch.tensor(source_rows), torch.tensor(rows)).numpy()
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
            begin=original.BEGIN,
            end=original.END,
            never=[original.UNKNOWN, original.PAD, original.BEGIN],
            max_length=MAX_LENGTH,
        )
    assert len(set(found)) > 5
    for text, ids in zip(found, expected, strict=True):
        words = [both.entries[1][number] for number in ids]
        if both.models[1]:
            assert text == "".join(words).replace("\u2581", " ").strip()
        else:
            assert text == " ".join(words)
