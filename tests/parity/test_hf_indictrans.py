"""Imported models of IndicTrans2 against modules of M2M100 that are put together as in it."""

import numpy as np
import pytest

from tf_transformer import Translator, load_model
from tf_transformer.formats.import_model import import_model
from tf_transformer.text.framing import end_and_pad, prepend_begin
from training.demo.corpus import generate_pairs

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = [pytest.mark.parity, pytest.mark.slow]

ODD = ["Zoë's  naïve café\u2026 \u00bd", "\u0928\u092e\u0938\u094d\u0924\u0947", "x", "3,141.59 %"]
LENGTH = 24
NUM_TRANSLATED = 300
TAGS = ">>hin_Deva<< >>eng_Latn<< "
# As the models of 200 million weights, of 1 billion, and of 320 million are published.
KINDS = {
    "200M": {},
    "1B": dict(layernorm_embedding=False, share_decoder_input_output_embed=False),
    "320M": dict(share_decoder_input_output_embed=False),
}


class Both:
    """A model of the original's program, and the same imported.

    Attributes:
        module, source, target: the original's, see `write_folder`.
        model, tokenizers: the imported model and its tokenizers.
        rows: their id of each of our ids, of source and target.
    """

    def __init__(self, folder, lines, kind):
        from tests.parity.hf_indictrans_model import write_folder

        self.folder = folder
        self.module, *sides = write_folder(folder / "theirs", lines, **KINDS[kind])
        self.source, self.target = sides
        self.notes = import_model(folder / "theirs", folder / "ours")
        self.model, *self.tokenizers = load_model(folder / "ours")
        self.rows = [rows(*pair) for pair in zip(self.tokenizers, sides, strict=True)]


def rows(tokenizer, side):
    names = ["<pad>", "<unk>", "<s>", "</s>", *tokenizer.pieces[4:]]
    names = [name.removeprefix("\u2581>>").removesuffix("<<") for name in names]
    found = [side.ids.get(name) for name in names]
    unnamed = iter(range(len(side.ids), len(found)))
    return np.array([next(unnamed) if row is None else row for row in found])


@pytest.fixture(scope="module")
def lines():
    return [list(side) for side in zip(*generate_pairs(1000, seed=1), strict=True)]


@pytest.fixture(scope="module", params=KINDS)
def both(request, tmp_path_factory, lines):
    return Both(tmp_path_factory.mktemp("hf"), lines, request.param)


@pytest.mark.representatives("200M")
def test_ids(both, lines):
    """The tags are in the other order; the model exchanges their positions."""
    texts = [*lines[0], *ODD]
    ours = both.tokenizers[0].tokenize([TAGS + text for text in texts]).to_list()
    for text, (target, source, *ids) in zip(texts, ours, strict=True):
        expected = both.source(text, "eng_Latn", "hin_Deva")
        assert [*both.rows[0][[source, target, *ids]], 2] == expected, text
    assert sum(ids.count(1) for ids in ours) > 5
    ours = both.tokenizers[1].tokenize(lines[1]).to_list()
    for text, ids in zip(lines[1], ours, strict=True):
        assert [*both.rows[1][ids], 2] == both.target(text)
    assert any("IndicProcessor" in note for note in both.notes)


@pytest.mark.representatives("200M", "1B")
def test_logits(both, lines):
    source = end_and_pad(both.tokenizers[0].tokenize([TAGS + text for text in lines[0][:16]]))
    target = both.tokenizers[1].tokenize(lines[1][:16]).to_tensor()
    source, target = source.numpy(), prepend_begin(target).numpy()
    computed = np.asarray(both.model({"source": source, "target": target}))
    their_target = both.rows[1][target]
    their_target[:, 0] = 2
    with torch.no_grad():
        expected = both.module(
            input_ids=torch.tensor(both.rows[0][exchange_tags(source)]),
            attention_mask=torch.tensor(source != 0),
            decoder_input_ids=torch.tensor(their_target),
        ).logits.numpy()
    real = target != 0
    assert np.abs(expected).max() > 3
    np.testing.assert_allclose(computed[real], expected[..., both.rows[1]][real], atol=1e-4)


def exchange_tags(source):
    return np.concatenate([source[:, [1, 0]], source[:, 2:]], axis=1)


@pytest.mark.representatives("200M")
def test_greedy_translations(both, lines):
    ours = Translator(
        both.model, *both.tokenizers, beam_size=1, max_length_factor=0.0,
        max_length_constant=LENGTH,
    )([TAGS + text for text in lines[0][:NUM_TRANSLATED]])  # fmt: skip
    theirs = []
    for start in range(0, NUM_TRANSLATED, 100):
        ids = [both.source(x, "eng_Latn", "hin_Deva") for x in lines[0][start : start + 100]]
        width = max(map(len, ids))
        batch = torch.tensor([[1] * (width - len(row)) + row for row in ids])  # padded left
        found = both.module.generate(
            input_ids=batch, attention_mask=(batch != 1).long(), num_beams=1, do_sample=False,
            max_new_tokens=LENGTH, suppress_tokens=[0, 1, 3],  # never produced here
        )  # fmt: skip
        ids = np.argsort(both.rows[1])[found.numpy()[:, 1:]]
        theirs += both.tokenizers[1].detokenize(ids.astype("int32")).numpy().tolist()
    assert len(set(theirs)) > 5
    assert ours == [text.decode() for text in theirs]
