"""Imported OPUS-MT models against Transformers, from the same random weights."""

import numpy as np
import pytest

from tests.parity.hf_marian_model import TAGS, write_folder
from tf_transformer import Translator, load_model
from tf_transformer.formats.import_model import import_model
from training.demo.corpus import generate_pairs

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = [pytest.mark.parity, pytest.mark.slow]

ODD = [
    "Zoë's  naïve café\u2026 \u00bd",
    "\u4f60\u597d, world \U0001f600\U0001f601",
    "  spaces   and\ttabs ",
    "x",
    "\u2581",
    "ALL CAPS 3,141.59 & <b>markup</b> e\u0301",
]
LENGTH = 24


CASES = {
    "joint": dict(),
    "joint, no tags, pickle": dict(tags=(), safe=False),
    "separate": dict(separate=True, tags=()),
    "untied, relu": dict(tags=(), tie_word_embeddings=False, activation_function="relu"),
    "unequal sides": dict(tags=(), decoder_layers=1, decoder_ffn_dim=24, decoder_attention_heads=2),
}


class Both:
    """A model of Transformers, and the same imported.

    Attributes:
        module: the `MarianMTModel`.
        theirs: its tokenizer.
        model, source, target: the imported model and its tokenizers.
        source_rows, target_rows: their id of each of our ids.
    """

    def __init__(self, folder, lines, **options):
        self.module = write_folder(folder / "theirs", *lines, **options)
        self.theirs = transformers.MarianTokenizer.from_pretrained(folder / "theirs")
        import_model(folder / "theirs", folder / "ours")
        self.folder = folder / "ours"
        self.model, self.source, self.target = load_model(folder / "ours")
        self.tagged = f"{options.get('tags', TAGS)[0]} " if options.get("tags", TAGS) else ""
        self.num_translated = 300 if not options else 100
        separate = options.get("separate", False)
        encoder = self.theirs.encoder
        self.source_rows = self.rows(self.source, encoder)
        self.target_rows = self.rows(
            self.target, self.theirs.target_encoder if separate else encoder
        )

    def rows(self, tokenizer, ids):
        """By the names of pieces, in place of the importer's own order."""
        names = ["<pad>", "<unk>", "<pad>", "</s>"]
        names += [
            piece.removeprefix("\u2581") if piece[1:3] == ">>" else piece
            for piece in tokenizer.pieces[4:]
        ]
        return np.array([ids[name] for name in names])


@pytest.fixture(scope="module")
def lines():
    pairs = generate_pairs(1000, seed=1)
    return [list(side) for side in zip(*pairs, strict=True)]


@pytest.fixture(scope="module", params=CASES)
def both(request, tmp_path_factory, lines):
    return Both(tmp_path_factory.mktemp("hf"), lines, **CASES[request.param])


@pytest.mark.representatives("joint", "unequal sides")
def test_ids(both, lines):
    """Of 1,000 sentences and odd ones, with pieces that the vocabulary lacks and unknown ones."""
    texts = [both.tagged + text for text in [*lines[0], *ODD]]
    ours = both.source.tokenize(texts).to_list()
    theirs = both.theirs(texts)["input_ids"]
    unknown = 0
    for text, our_ids, their_ids in zip(texts, ours, theirs, strict=True):
        assert [*both.source_rows[our_ids], 0] == their_ids, text
        unknown += our_ids.count(1)
    assert unknown > 5
    ours = both.target.tokenize(lines[1]).to_list()
    theirs = both.theirs(text_target=lines[1])["input_ids"]
    for our_ids, their_ids in zip(ours, theirs, strict=True):
        assert [*both.target_rows[our_ids], 0] == their_ids


@pytest.mark.representatives("joint", "separate", "unequal sides")
def test_logits(both, lines):
    texts = [both.tagged + text for text in lines[0][:16]]
    source = both.source.tokenize(texts).to_tensor().numpy()
    source = np.pad(source, [(0, 0), (0, 1)])
    source[np.arange(16), (source != 0).sum(1)] = 3
    target = both.target.tokenize(lines[1][:16]).to_tensor().numpy()
    target = np.pad(target, [(0, 0), (1, 0)], constant_values=2)
    computed = np.asarray(both.model({"source": source, "target": target}))
    with torch.no_grad():
        expected = both.module(
            input_ids=torch.tensor(both.source_rows[source]),
            attention_mask=torch.tensor(source != 0),
            decoder_input_ids=torch.tensor(both.target_rows[target]),
        ).logits.numpy()
    real = target != 0
    ours = np.delete(computed, [0, 2], axis=-1)[real]
    theirs = expected[..., both.target_rows[[1, *range(3, len(both.target_rows))]]][real]
    assert np.abs(theirs).max() > 3
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    # The two ids that only start the decoder and pad have no share of the softmax.
    assert (computed[..., [0, 2]][real].max(-1) < computed[real].max(-1) - 80).all()


@pytest.mark.representatives("joint", "unequal sides")
def test_greedy_translations(both, lines):
    """Of 300 sentences with a model of the most common kind, of fewer with others."""
    texts = [both.tagged + text for text in lines[0][: both.num_translated]]
    translator = Translator(
        both.model, both.source, both.target, beam_size=1,
        max_length_factor=0.0, max_length_constant=LENGTH,
    )  # fmt: skip
    ours = translator(texts)
    theirs = []
    for start in range(0, len(texts), 100):
        batch = both.theirs(texts[start : start + 100], return_tensors="pt", padding=True)
        found = both.module.generate(
            **batch, num_beams=1, do_sample=False, max_new_tokens=LENGTH + 1,
            suppress_tokens=[1],  # this project never produces unknown pieces
        )  # fmt: skip
        theirs += both.theirs.batch_decode(
            found, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
    assert len(set(theirs)) > 5
    different = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    assert not different, (len(different), different[:3])
