"""Imported T5, mT5 and MADLAD-400 models against Transformers, from the same random weights."""

import contextlib
import copy
import dataclasses
import shutil

import numpy as np
import pytest
import sentencepiece

from tests.parity.hf_t5_model import KINDS, MODEL_NAME, write_folder
from tf_transformer import Translator, load_model, save_model
from tf_transformer.formats.convert_model import convert_model
from tf_transformer.formats.hf.t5 import DEFAULTS, T5Settings
from tf_transformer.formats.import_model import import_model
from tf_transformer.layers.positions import RelativeBias
from tf_transformer.text.framing import end_and_pad, prepend_begin
from tf_transformer.text.special_ids import END_ID
from training.demo.corpus import generate_pairs

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = [pytest.mark.parity, pytest.mark.slow]

ODD = [
    "Zoë's  naïve café\u2026 \u00bd",
    "\u4f60\u597d, world \U0001f600\U0001f601",
    "tabs\tand\u00a0others",
    "x",
    "fill in <extra_id_0> and <extra_id_1>, then",
]
LENGTH = 24
NUM_TRANSLATED = 300


class Both:
    """A model of Transformers, and the same imported.

    Attributes:
        folder: holds the folder of the original, `theirs`, and the model directory, `ours`.
        module, theirs: the model of Transformers and its tokenizer.
        model, tokenizer: the imported model and its tokenizer, one for both sides.
        rows: their id of each of our ids.
        start: their id that starts the decoder.
        prefix: what is put before each source.
    """

    def __init__(self, folder, lines, kind):
        self.folder = folder
        self.module, self.theirs = write_folder(folder / "theirs", [*lines[0], *lines[1]], kind)
        self.notes = import_model(folder / "theirs", folder / "ours")
        self.model, self.tokenizer, _ = load_model(folder / "ours")
        config = self.module.config
        pad, end = config.pad_token_id, config.eos_token_id
        self.start = config.decoder_start_token_id
        unknown = self.theirs.convert_tokens_to_ids("<unk>")
        special = [pad, unknown, self.start, end]
        others = [row for row in range(config.vocab_size) if row not in special]
        self.rows = np.array(special + others)
        self.prefix = ""
        if kind == "madlad":
            # MADLAD was trained with SentencePiece, which puts a piece for a space before a tag;
            # the tokenizers in Rust put none.
            self.prefix = "<2de> "
            path = str(folder / "theirs" / MODEL_NAME)
            self.processor = sentencepiece.SentencePieceProcessor(model_file=path)

    def encode(self, texts):
        """Their ids of texts, with the end."""
        if self.prefix:
            end = self.module.config.eos_token_id
            return [[*ids, end] for ids in self.processor.encode(texts)]
        return self.theirs(texts)["input_ids"]

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


@pytest.mark.representatives("t5", "madlad")
def test_ids(both, lines):
    """Of 1,000 sentences and odd ones, with unknown pieces and, but for MADLAD, sentinels."""
    texts = [both.prefix + text for text in [*lines[0], *ODD]]
    end = both.module.config.eos_token_id
    ours = both.tokenizer.tokenize(texts).to_list()
    for text, our_ids, their_ids in zip(texts, ours, both.encode(texts), strict=True):
        assert [*both.rows[our_ids], end] == their_ids, text
    assert sum(ids.count(1) for ids in ours) > 5


@pytest.mark.representatives("t5", "mt5")
def test_logits(both, lines):
    sources = [both.prefix + text for text in lines[0][:16]]
    source = end_and_pad(both.tokenizer.tokenize(sources)).numpy()
    target = prepend_begin(both.tokenizer.tokenize(lines[1][:16]).to_tensor()).numpy()
    computed = np.asarray(both.model({"source": source, "target": target}))
    their_target = both.rows[target]
    their_target[:, 0] = both.start
    with torch.no_grad():
        expected = both.module(
            input_ids=torch.tensor(both.rows[source]),
            attention_mask=torch.tensor(source != 0),
            decoder_input_ids=torch.tensor(their_target),
        ).logits.numpy()
    real, ids = target != 0, np.arange(len(both.rows)) != 2  # the begin id is no output here
    assert np.abs(expected).max() > 1
    expected = expected[..., both.rows]
    np.testing.assert_allclose(computed[real][:, ids], expected[real][:, ids], atol=1e-4)
    assert (computed[real][:, 2] < -50).all()


def generate(both, texts, **options):
    """Their outputs, of which the first token is that of the start."""
    batch = both.encode([both.prefix + text for text in texts])
    rows = [torch.tensor(ids) for ids in batch]
    source = torch.nn.utils.rnn.pad_sequence(rows, True, both.module.config.pad_token_id)
    lengths = torch.tensor([[len(ids)] for ids in batch])
    return both.module.generate(
        source, attention_mask=(torch.arange(source.shape[1]) < lengths).long(), do_sample=False,
        suppress_tokens=sorted({*both.rows[:3].tolist()}),  # this project never produces them
        **options,
    )  # fmt: skip


def texts_of(both, outputs):
    """Texts of the ids of their outputs."""
    ids = both.ours_of(outputs.numpy()[:, 1:])
    return [text.decode() for text in both.tokenizer.detokenize(ids).numpy()]


@pytest.mark.representatives("t5")
def test_greedy_translations(both, lines):
    ours = Translator(
        both.model, both.tokenizer, both.tokenizer, beam_size=1,
        max_length_factor=0.0, max_length_constant=LENGTH,
    )([both.prefix + text for text in lines[0][:NUM_TRANSLATED]])  # fmt: skip
    theirs = []
    for first in range(0, NUM_TRANSLATED, 100):
        texts = lines[0][first : first + 100]
        theirs += texts_of(both, generate(both, texts, num_beams=1, max_new_tokens=LENGTH))
    assert len(set(theirs)) > 5
    different = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    assert not different, (len(different), different[:3])


@contextlib.contextmanager
def more_ends(both):
    """Adds 3 to the logit of the end, so that outputs end; theirs has no bias to change."""
    added = torch.zeros(both.module.config.vocab_size)
    added[both.module.config.eos_token_id] = 3
    hook = both.module.lm_head.register_forward_hook(lambda module, inputs, logits: logits + added)
    is_tied = both.model.config.logits_tied
    bias = both.model.logits_bias if is_tied else both.model.logits_projection.bias
    before = np.array(bias)
    bias.assign(before + 3 * np.eye(len(before), dtype="float32")[END_ID])
    yield
    bias.assign(before)
    hook.remove()


@pytest.mark.exhaustive
@pytest.mark.parametrize("both", ["t5", "flan", "madlad"], indirect=True)
def test_beam_search(both, lines):
    """Of outputs that end: ours are shorter than the limit, at which Transformers adds no end.

    Without a length penalty, since those of the two are other functions of the length.
    """
    texts, length, end = lines[0][:200], 40, both.module.config.eos_token_id
    with more_ends(both):
        ours = Translator(
            both.model, both.tokenizer, both.tokenizer, beam_size=4, length_penalty=0.0,
            max_length_factor=0.0, max_length_constant=length,
        ).n_best([both.prefix + text for text in texts])  # fmt: skip
        found = generate(
            both, texts, num_beams=4, max_new_tokens=length, length_penalty=0.0,
            early_stopping=False, return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
    ends = (found.sequences[:, 1:] == end).any(axis=1)
    assert ends.sum() > 50
    rows = zip(ours, texts_of(both, found.sequences), found.sequences_scores, strict=True)
    ended = [row for row, is_ended in zip(rows, ends, strict=True) if is_ended]
    for (best, *_), _, score in ended:  # different texts are then ties
        assert abs(best.score - float(score)) < 1e-4
    assert sum(best.text != text for (best, *_), text, _ in ended) <= 2


@pytest.mark.parametrize("both", ["t5"], indirect=True)
def test_shards_in_half_precision(both, tmp_path):
    folder = shutil.copytree(both.folder / "theirs", tmp_path / "theirs")
    (folder / "model.safetensors").unlink()
    copy.deepcopy(both.module).half().save_pretrained(folder, max_shard_size="30KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 2
    import_model(folder, tmp_path / "ours")
    model, *_ = load_model(tmp_path / "ours")
    for ours, full in zip(model.weights, both.model.weights, strict=True):
        np.testing.assert_allclose(ours, full, rtol=1e-3, atol=1e-6)


@pytest.mark.representatives("t5")
def test_round_trip(both, tmp_path):
    """Through the format of `convert`, whose folders Transformers reads with other files."""
    source = tmp_path / "source"
    save_model(both.model, both.tokenizer, both.tokenizer, source)
    convert_model(source, "hf", tmp_path / "hf")
    module = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "hf").eval()
    ids, target = np.array([[*range(4, 20), 3]]), np.array([[2, *range(4, 12)]])
    their_target = both.rows[target]
    their_target[:, 0] = both.start
    with torch.no_grad():
        found, expected = (
            model(
                input_ids=torch.tensor(source), decoder_input_ids=torch.tensor(target)
            ).logits.numpy()
            for model, source, target in (
                (module, ids, target),
                (both.module, both.rows[ids], their_target),
            )
        )
    outputs = np.arange(len(both.rows)) != 2
    np.testing.assert_allclose(
        found[..., outputs], expected[..., both.rows][..., outputs], atol=1e-4
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    text = both.prefix + "A man sleeps."
    (ours,) = both.tokenizer.tokenize([text]).to_list()
    assert tokenizer(text)["input_ids"] == [*ours, 3]
    import_model(tmp_path / "hf", tmp_path / "again")
    model, *_ = load_model(tmp_path / "again")
    expected = dataclasses.replace(both.model.config, logits_bias=False)
    assert model.config == expected
    for weight in model.weights:
        name = weight.path.partition("/")[2]
        (ours,) = [w for w in both.model.weights if w.path.partition("/")[2] == name]
        np.testing.assert_allclose(ours, weight, rtol=1e-6)


@pytest.mark.parametrize("is_bidirectional", [False, True])
@pytest.mark.parametrize(("number", "limit"), [(32, 128), (8, 16), (64, 1000), (7, 13)])
def test_buckets(is_bidirectional, number, limit):
    """Of all distances, with the rounding that T5 has."""
    attention = transformers.models.t5.modeling_t5.T5Attention
    distances = np.arange(-2 * limit, 2 * limit + 1)
    expected = attention._relative_position_bucket(
        torch.tensor(distances), is_bidirectional, number, limit
    )
    layer = RelativeBias(
        num_heads=1, num_buckets=number, max_distance=limit, is_bidirectional=is_bidirectional
    )
    layer.build()
    layer.biases.assign(np.arange(number)[:, None])
    found = np.asarray(layer.at(distances[None].astype("int32")))[0, 0, 0]
    np.testing.assert_array_equal(found, expected.numpy())


@pytest.mark.parametrize("model_type", DEFAULTS)
def test_defaults(model_type):
    config = transformers.AutoConfig.for_model(model_type)
    own = {"bos_token_id", "decoder_vocab_size", "share_encoder_decoder_embeddings"}
    assert set(DEFAULTS[model_type]) == set(T5Settings.model_fields) - own
    for name, value in DEFAULTS[model_type].items():
        if name == "num_decoder_layers":
            value = DEFAULTS[model_type]["num_layers"]
        if name in ("n_positions", "scale_decoder_outputs"):  # of older, and of newer versions
            continue
        if name == "decoder_start_token_id" and model_type == "mt5":
            value = DEFAULTS[model_type]["pad_token_id"]
        assert getattr(config, name, None) == value, name
