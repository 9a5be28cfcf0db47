"""Imported BART, mBART and Pegasus models against Transformers, from the same random weights."""

import random
import unicodedata

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from tests.parity.hf_bart_model import BART_KINDS, CC25_KINDS, KINDS, write_folder
from tf_transformer import Translator, load_model, save_model
from tf_transformer.errors import InputError
from tf_transformer.formats.convert_model import convert_model
from tf_transformer.formats.import_model import import_model
from tf_transformer.text.byte_level.part_ops import split_texts
from tf_transformer.text.byte_level.parts import split_text
from tf_transformer.text.framing import end_and_pad, prepend_begin, split_tags
from tf_transformer.text.special_ids import END_ID
from training.demo.corpus import generate_pairs

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = [pytest.mark.parity, pytest.mark.slow]

ODD = ["Zoë's  naïve café\u2026 \u00bd", "\u4f60\u597d, world \U0001f600\U0001f601", "x"]
# What the pattern of byte-level BPE distinguishes; U+001C is a space for Python only.
HOSTILE = [
    *" \t\n\r\v\f\x1c\x7f\x85\u00a0\u3000\u2028\u200b\u200d\ufe0f\ufeff''\"stdmrevla",
    *"Z0\u00bd\u00b2\u0663\u0301!?.,-\u00e4\u00df\u00e9\u4f60\u597d\U0001f600\u2581\u0120",
    *("'s", "'re", "'ll", "  ", "   ", "<", ">"),
]
LENGTH = 24
NUM_TRANSLATED = 300


class Both:
    """A model of Transformers, and the same imported.

    Attributes:
        module, theirs: the model of Transformers and its tokenizer.
        model, tokenizer, target_tokenizer: the imported model and its tokenizers.
        rows: their id of each of our ids.
        start: their ids with which the decoder starts.
        tags: the tags before each sentence: that of the target, that of the source.
    """

    def __init__(self, folder, lines, kind):
        self.module, self.theirs = write_folder(folder / "theirs", [*lines[0], *lines[1]], kind)
        self.sentencepiece = folder / "theirs" / "sentencepiece.bpe.model"
        import_model(folder / "theirs", folder / "ours")
        self.model, self.tokenizer, self.target_tokenizer = load_model(folder / "ours")
        config = self.module.config
        special = {"<pad>": config.pad_token_id, "</s>": config.eos_token_id}
        special["<unk>"] = self.theirs.convert_tokens_to_ids("<unk>")
        # What starts the decoder of Pegasus and BART, and is not used by mBART's.
        special["<s>"] = 2 if kind in BART_KINDS else 0
        rows = [special[name] for name in ("<pad>", "<unk>", "<s>", "</s>")]
        self.rows = np.array(rows + [row for row in range(config.vocab_size) if row not in rows])
        self.tags, self.start = "", [config.decoder_start_token_id]
        self.is_bart, self.is_cc25 = kind in BART_KINDS, kind in CC25_KINDS
        if self.is_bart:
            self.start.append(0)
        if kind.startswith("mbart"):
            self.tags = ">>de_DE<< >>en_XX<< "
        if kind.startswith("mbart") and not self.is_cc25:
            self.start.append(self.theirs.convert_tokens_to_ids("de_DE"))

    def their_ids(self, texts):
        """Ids of their tokenizer; of mBART's, those of SentencePiece, which also normalizes."""
        found = self.theirs(texts)["input_ids"]
        if not self.sentencepiece.exists() or not self.is_cc25:
            return found
        processor = sentencepiece.SentencePieceProcessor(model_file=str(self.sentencepiece))
        rows = [[x + 1 if x else 3 for x in processor.encode(text)] for text in texts]
        rows = [[*row, *ids[-2:]] for row, ids in zip(rows, found, strict=True)]
        assert rows[: -len(ODD)] == found[: -len(ODD)]
        return rows

    def their_source(self, ids):
        """Their ids of our source, `(batch, length)` with its end, without the target's tag."""
        rows = self.rows[ids]
        if self.is_cc25:  # the first one follows the end
            for row, length in zip(rows, np.count_nonzero(ids, axis=1), strict=True):
                row[:length] = [*row[1:length], row[0]]
        return rows

    def their_target(self, ids):
        """Their input of the decoder: that of ours, `(batch, length)`, begins with a begin id."""
        rows = self.rows[ids]
        rows[:, 0] = self.start[0]
        return rows[:, 1:] if self.is_cc25 else rows

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


@pytest.mark.representatives("mbart_cc25", "pegasus", "bart")
def test_ids(both, lines):
    """Of 1,000 sentences and odd ones; of BART, whose text has many kinds of parts, of hostile."""
    texts = [*lines[0], *ODD]
    if both.is_bart:
        choose = random.Random(1).choices
        texts += ["".join(choose(HOSTILE, k=1 + index % 12)) for index in range(1000)]
    ours = both.tokenizer.tokenize([both.tags + text for text in texts]).to_list()
    unknown = 0
    for text, our_ids, their_ids in zip(texts, ours, both.their_ids(texts), strict=True):
        if len(both.start) > 1 or both.is_cc25:
            assert both.rows[our_ids[0]] == both.start[-1]
            our_ids = our_ids[1:]
        assert both.their_source(np.array([[*our_ids, END_ID]]))[0].tolist() == their_ids, text
        unknown += our_ids.count(1)
    if both.is_bart:
        assert unknown == 0
        assert both.tokenizer.encode(texts) == ours
        target = both.target_tokenizer
        assert [x.decode() for x in target.detokenize(target.tokenize(texts)).numpy()] == texts
    else:
        assert unknown > 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("before", ["a", "1", "!", " "])
def test_parts_of_all_characters(before):
    """Each behind a letter, a digit, a sign and a space; only new ones are of another kind.

    New are those that Python's Unicode lacks: each library has a version of its own.
    """
    split = pytest.importorskip("tokenizers").pre_tokenizers.ByteLevel(add_prefix_space=False)
    codes = [*range(1, 0xD800), *range(0xE000, 0x110000)]
    texts = [before + chr(code) for code in codes]
    found = split_texts(tf.constant(texts)).row_lengths().numpy()
    for count in (lambda text: len(split_text(text)), lambda x: len(split.pre_tokenize_str(x))):
        pairs = zip(codes, found, map(count, texts), strict=True)
        differ = [code for code, ours, theirs in pairs if ours != theirs]
        assert all(unicodedata.category(chr(code)) == "Cn" for code in differ)


@pytest.mark.representatives("mbart", "mbart_cc25", "pegasus", "bart_saved")
def test_logits(both, lines):
    num_tags = both.model.config.num_target_tags
    tagged = both.tokenizer.tokenize([both.tags + text for text in lines[0][:16]])
    tags, source = split_tags(tagged, num_tags)
    source = end_and_pad(source).numpy()
    target = both.target_tokenizer.tokenize(lines[1][:16]).to_tensor().numpy()
    target = prepend_begin(np.concatenate([tags, target], axis=1)).numpy()
    computed = np.asarray(both.model({"source": source, "target": target}))
    their_target = both.their_target(target)
    with torch.no_grad():
        expected = both.module(
            input_ids=torch.tensor(both.their_source(source)),
            attention_mask=torch.tensor(source != 0),
            decoder_input_ids=torch.tensor(their_target),
        ).logits.numpy()
    first = target.shape[1] - their_target.shape[1]  # 1 if theirs has no begin id
    computed, target = computed[:, first:], target[:, first:]
    real, ids = target != 0, np.arange(len(both.rows)) != 2  # a begin id is no output here
    assert np.abs(expected).max() > 3
    expected = expected[..., both.rows]
    np.testing.assert_allclose(computed[real][:, ids], expected[real][:, ids], atol=1e-4)


def generate(both, texts, **options):
    """Their outputs, of which the first tokens are those of the start."""
    forced = {} if len(both.start) == 1 else dict(forced_bos_token_id=both.start[1])
    batch = both.theirs(texts, return_tensors="pt", padding=True)
    batch.pop("token_type_ids", None)
    return both.module.generate(
        **batch, do_sample=False, forced_eos_token_id=None, **forced, **options,
        # This project never produces them.
        suppress_tokens=sorted({*both.rows[:3].tolist()} - {both.module.config.eos_token_id}),
    )  # fmt: skip


def texts_of(both, outputs):
    """Texts of the ids of their outputs."""
    ids = both.ours_of(outputs.numpy()[:, len(both.start) :])
    return [text.decode() for text in both.target_tokenizer.detokenize(ids).numpy()]


@pytest.mark.representatives("pegasus", "mbart_cc25")
def test_greedy_translations(both, lines):
    ours = Translator(
        both.model, both.tokenizer, both.target_tokenizer, beam_size=1,
        max_length_factor=0.0, max_length_constant=LENGTH,
    )([both.tags + text for text in lines[0][:NUM_TRANSLATED]])  # fmt: skip
    theirs = []
    for first in range(0, NUM_TRANSLATED, 100):
        length = LENGTH + len(both.start) - 1
        texts = lines[0][first : first + 100]
        theirs += texts_of(both, generate(both, texts, num_beams=1, max_new_tokens=length))
    assert len(set(theirs)) > 5
    different = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    assert not different, (len(different), different[:3])


@pytest.mark.exhaustive
@pytest.mark.parametrize("both", ["mbart", "mbart_cc25"], indirect=True)
def test_beam_search(both, lines):
    """Of outputs that end: ours are shorter than the limit, at which Transformers adds no end."""
    texts, length = lines[0][:200], 40
    with torch.no_grad():  # so that outputs end
        both.module.final_logits_bias[0, 2] += 3.0
    both.model.logits_bias.assign_add(3.0 * np.eye(len(both.rows), dtype="f4")[END_ID])
    ours = Translator(
        both.model, both.tokenizer, both.tokenizer, beam_size=4, length_penalty=0.0,
        max_length_factor=0.0, max_length_constant=length,
    ).n_best([both.tags + text for text in texts])  # fmt: skip
    found = generate(
        both, texts, num_beams=4, max_new_tokens=length + len(both.start) - 1, length_penalty=0.0,
        early_stopping=False, return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
    ends = (found.sequences[:, len(both.start) :] == 2).any(axis=1)
    assert ends.sum() > 100
    rows = zip(ours, texts_of(both, found.sequences), found.sequences_scores, strict=True)
    ended = [row for row, is_ended in zip(rows, ends, strict=True) if is_ended]
    for (best, *_), _, score in ended:  # different texts are then ties
        assert abs(best.score - float(score)) < 1e-4
    assert sum(best.text != text for (best, *_), text, _ in ended) <= 2


@pytest.mark.parametrize("both", BART_KINDS[:1], indirect=True)
def test_not_written(both, tmp_path):
    save_model(both.model, both.tokenizer, both.target_tokenizer, tmp_path / "source")
    with pytest.raises(InputError, match="cannot hold the byte-level BPE of BART's"):
        convert_model(tmp_path / "source", "marian", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def check_written_tokenizer(both, written, texts, folder):
    """Transformers finds the ids that ours does, with the files that `convert` writes."""
    if both.is_cc25:
        theirs = transformers.MBartTokenizer.from_pretrained(folder, src_lang="en_XX")
        both.theirs, both.sentencepiece = theirs, folder / "sentencepiece.bpe.model"
        ours = both.tokenizer.encode([both.tags + text for text in (*texts, *ODD)])
        found = both.their_ids([*texts, *ODD])
        assert found == [both.rows[[*ids[2:], END_ID, ids[1]]].tolist() for ids in ours]
        return
    choose = random.Random(2).choices
    texts = [*texts, *ODD, *("".join(choose(HOSTILE, k=1 + i % 12)) for i in range(1000))]
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    found = [written[ids].tolist() for ids in theirs(texts)["input_ids"]]
    assert found == [[*ids[1:], END_ID] for ids in both.tokenizer.encode(texts)]


@pytest.mark.representatives("mbart", "bart")
def test_round_trip(both, lines, tmp_path):
    """Through the format of `convert`, whose folders Transformers reads with other files."""
    source = tmp_path / "source"
    save_model(both.model, both.tokenizer, both.target_tokenizer, source)
    convert_model(source, "hf", tmp_path / "hf")
    module = type(both.module).from_pretrained(tmp_path / "hf").eval()
    # Our id of each written id: a BART has no begin id of its own.
    written = np.array([row for row in range(len(both.rows)) if row != 2 or not both.is_bart])
    if both.is_cc25:
        written[:4] = 2, 0, 3, 1
    ids = np.array([[*range(4, 20), 3]])
    theirs = np.array([[written.tolist().index(token_id) for token_id in ids[0]]])
    with torch.no_grad():
        found, expected = (
            model(
                input_ids=torch.tensor(source), decoder_input_ids=torch.tensor(target)
            ).logits.numpy()
            for model, source, target in (
                (module, theirs, theirs[:, :9]),
                (both.module, both.rows[ids], both.rows[ids[:, :9]]),
            )
        )
    outputs = written != 2
    np.testing.assert_allclose(
        found[..., outputs], expected[..., both.rows[written]][..., outputs], atol=1e-4
    )
    if both.is_bart or both.is_cc25:
        check_written_tokenizer(both, written, lines[0], tmp_path / "hf")
    import_model(tmp_path / "hf", tmp_path / "again")
    model, *_ = load_model(tmp_path / "again")
    assert model.config == both.model.config
    for ours, again in zip(both.model.weights, model.weights, strict=True):
        np.testing.assert_array_equal(ours, again)
