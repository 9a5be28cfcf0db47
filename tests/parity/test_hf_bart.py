"""Imported mBART-50 and Pegasus models against Transformers, from the same random weights."""

import numpy as np
import pytest

from tests.parity.hf_bart_model import KINDS, write_folder
from tf_transformer import Translator, load_model
from tf_transformer.formats.import_model import import_model
from tf_transformer.text.framing import end_and_pad, prepend_begin, split_tags
from training.demo.corpus import generate_pairs

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = [pytest.mark.parity, pytest.mark.slow]

ODD = ["Zoë's  naïve café\u2026 \u00bd", "\u4f60\u597d, world \U0001f600\U0001f601", "x"]
LENGTH = 24


class Both:
    """A model of Transformers, and the same imported.

    Attributes:
        module, theirs: the model of Transformers and its tokenizer.
        model, tokenizer: the imported model and its tokenizer, one for both sides.
        rows: their id of each of our ids.
        start: their ids with which the decoder starts.
        tags: the tags before each sentence: that of the target, that of the source.
    """

    def __init__(self, folder, lines, kind):
        self.module, self.theirs = write_folder(folder / "theirs", [*lines[0], *lines[1]], kind)
        import_model(folder / "theirs", folder / "ours")
        self.model, self.tokenizer, _ = load_model(folder / "ours")
        config = self.module.config
        special = {"<pad>": config.pad_token_id, "</s>": config.eos_token_id}
        special["<unk>"] = self.theirs.convert_tokens_to_ids("<unk>")
        special["<s>"] = 0  # which starts Pegasus' decoder, and is not used by mBART's
        rows = [special[name] for name in ("<pad>", "<unk>", "<s>", "</s>")]
        self.rows = np.array(rows + [row for row in range(config.vocab_size) if row not in rows])
        self.tags, self.start = "", [config.decoder_start_token_id]
        if kind.startswith("mbart"):
            self.tags = ">>de_DE<< >>en_XX<< "
            self.start.append(self.theirs.convert_tokens_to_ids("de_DE"))

    def ours_of(self, ids):
        """Our ids of theirs."""
        inverse = np.zeros(len(self.rows), "int32")
        inverse[self.rows[::-1]] = np.arange(len(self.rows))[::-1]
        return inverse[ids]


@pytest.fixture(scope="module")
def lines():
    pairs = generate_pairs(1000, seed=1)
    return [list(side) for side in zip(*pairs, strict=True)]


@pytest.fixture(scope="module", params=KINDS)
def both(request, tmp_path_factory, lines):
    return Both(tmp_path_factory.mktemp("hf"), lines, request.param)


@pytest.mark.representatives("mbart_saved", "pegasus")
def test_ids(both, lines):
    """Of 1,000 sentences and odd ones."""
    texts = [*lines[0], *ODD]
    ours = both.tokenizer.tokenize([both.tags + text for text in texts]).to_list()
    unknown = 0
    for text, our_ids, their_ids in zip(texts, ours, both.theirs(texts)["input_ids"], strict=True):
        if both.tags:
            assert both.rows[our_ids[0]] == both.start[1]
            our_ids = our_ids[1:]
        assert [*both.rows[our_ids], both.module.config.eos_token_id] == their_ids, text
        unknown += our_ids.count(1)
    assert unknown > 2


@pytest.mark.representatives("mbart", "pegasus_saved")
def test_logits(both, lines):
    num_tags = both.model.config.num_target_tags
    tagged = both.tokenizer.tokenize([both.tags + text for text in lines[0][:16]])
    tags, source = split_tags(tagged, num_tags)
    source = end_and_pad(source).numpy()
    target = both.tokenizer.tokenize(lines[1][:16]).to_tensor().numpy()
    target = prepend_begin(np.concatenate([tags, target], axis=1)).numpy()
    computed = np.asarray(both.model({"source": source, "target": target}))
    their_target = both.rows[target]
    their_target[:, 0] = both.start[0]
    with torch.no_grad():
        expected = both.module(
            input_ids=torch.tensor(both.rows[source]),
            attention_mask=torch.tensor(source != 0),
            decoder_input_ids=torch.tensor(their_target),
        ).logits.numpy()
    real, ids = target != 0, np.arange(len(both.rows)) != 2  # Pegasus' begin id is no output here
    assert np.abs(expected).max() > 3
    expected = expected[..., both.rows]
    np.testing.assert_allclose(computed[real][:, ids], expected[real][:, ids], atol=1e-4)


@pytest.mark.representatives("mbart", "pegasus")
def test_greedy_translations(both, lines):
    ours = Translator(
        both.model, both.tokenizer, both.tokenizer, beam_size=1,
        max_length_factor=0.0, max_length_constant=LENGTH,
    )([both.tags + text for text in lines[0]])  # fmt: skip
    forced = {} if len(both.start) == 1 else dict(forced_bos_token_id=both.start[1])
    theirs = []
    for first in range(0, len(lines[0]), 100):
        batch = both.theirs(lines[0][first : first + 100], return_tensors="pt", padding=True)
        batch.pop("token_type_ids", None)
        found = both.module.generate(
            **batch, num_beams=1, do_sample=False, max_new_tokens=LENGTH + len(both.start) - 1,
            forced_eos_token_id=None, **forced,
            suppress_tokens=sorted({*both.rows[:3].tolist()}),  # this project never produces them
        )  # fmt: skip
        ids = both.ours_of(found.numpy()[:, len(both.start) :])
        theirs += both.tokenizer.detokenize(ids).numpy().tolist()
    assert len(set(theirs)) > 5
    different = [
        pair for pair in zip(ours, (x.decode() for x in theirs), strict=True) if pair[0] != pair[1]
    ]
    assert not different, (len(different), different[:3])
