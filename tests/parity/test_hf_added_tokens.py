"""Folders with added languages and words: the ids and translations of Transformers.

Transformers 5 runs NLLB's tokenizer in Rust, Marian's and M2M100's in Python. NLLB's in Python, of
Transformers 4, is in `tests/tf_transformer/formats/hf/test_added_tokens.py`.
"""

import re

import numpy as np
import pytest

from tests.parity import hf_m2m100_model, hf_marian_model
from tests.tf_transformer.formats.hf.test_added_tokens import PARTS_OF_TAGS, TEXTS
from tests.tf_transformer.formats.hf.test_added_tokens import WORDS as PLAIN_WORDS
from tf_transformer import Translator, load_model
from tf_transformer.formats.import_model import import_model
from training.demo.corpus import generate_pairs

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = [pytest.mark.parity, pytest.mark.slow]

LENGTH = 12
WORDS = [*PLAIN_WORDS, *PARTS_OF_TAGS]
# Spaces at the ends of a text, and words that only its normalization makes: see the documentation.
DIFFERENT_IN_RUST = re.compile("^ +| +$|New  York|\uff23|\u0301|\u2581|\u00a0|na\u00efve")


def write_marian(folder, lines):
    module = hf_marian_model.write_folder(folder, *lines)
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([*WORDS, ">>tyv<<"])
    return module, tokenizer, [f">>tyv<< {text}" for text in TEXTS], TEXTS


def write_m2m100(folder, lines):
    module, tokenizer = hf_m2m100_model.write_folder(folder, [*lines[0], *lines[1]], "m2m100")
    codes = list(tokenizer.lang_token_to_id)
    tokenizer = transformers.M2M100Tokenizer(
        str(folder / "vocab.json"), str(folder / hf_m2m100_model.MODEL_NAME), src_lang="en",
        additional_special_tokens=codes,
    )  # fmt: skip
    tokenizer.add_tokens(codes, special_tokens=True)
    tokenizer.add_tokens(["__tyv__"], special_tokens=True)
    tokenizer.add_tokens(WORDS)
    return module, tokenizer, [f">>tyv<< >>en<< {text}" for text in TEXTS], TEXTS


def write_nllb(folder, lines):
    module, tokenizer = hf_m2m100_model.write_folder(folder, [*lines[0], *lines[1]], "nllb")
    codes = [*tokenizer.extra_special_tokens, "tyv_Cyrl"]
    tokenizer.add_special_tokens({"extra_special_tokens": codes})
    tokenizer.add_tokens(WORDS)
    texts = [text for text in TEXTS if not DIFFERENT_IN_RUST.search(text)]
    return module, tokenizer, [f">>tyv_Cyrl<< >>eng_Latn<< {text}" for text in texts], texts


TWO_KINDS = pytest.mark.representatives("m2m100", "nllb")
KINDS = {"marian": write_marian, "m2m100": write_m2m100, "nllb": write_nllb}


@pytest.fixture(scope="module", params=KINDS)
def both(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("added")
    pairs = generate_pairs(1000, seed=1)
    lines = [list(side) for side in zip(*pairs, strict=True)]
    module, theirs, tagged, texts = KINDS[request.param](folder / "theirs", lines)
    torch.manual_seed(2)
    module.resize_token_embeddings(max(len(theirs), module.config.vocab_size))
    module.save_pretrained(folder / "theirs")
    theirs.save_pretrained(folder / "theirs")
    notes = import_model(folder / "theirs", folder / "ours")
    assert notes == ()
    model, source, target = load_model(folder / "ours")
    return module, theirs, model, source, target, tagged, texts


def their_rows(theirs, tokenizer, size):
    """Their id of each of ours, by the names of pieces."""
    ids = dict(theirs.get_vocab())
    special = ["<pad>", "<unk>", "<pad>" if "<s>" not in ids else "<s>", "</s>"]
    names = [
        piece[1:-1].replace("\u2581", " ") if piece.endswith("\u034f") else piece
        for piece in tokenizer.pieces[4:]
    ]
    rows = []
    for name in [*special, *names]:
        code = name.removeprefix("\u2581")
        language = code.strip("<>")
        candidates = [code, f"__{language}__", language] if code.startswith(">>") else [name]
        rows.append(next((ids[x] for x in candidates if x in ids), None))
    unnamed = iter(sorted(set(range(size)) - set(rows)))
    return np.array([next(unnamed) if row is None else row for row in rows])


@TWO_KINDS
def test_ids(both):
    module, theirs, _, source, _, tagged, texts = both
    rows = their_rows(theirs, source, module.config.vocab_size)
    is_marian = isinstance(theirs, transformers.MarianTokenizer)
    expected = [ids[:-1] for ids in theirs(tagged if is_marian else texts)["input_ids"]]
    words = set(theirs.convert_tokens_to_ids(WORDS))
    assert len(words) == len(WORDS) and sum(bool(words & set(ids)) for ids in expected) > 20
    for found in (source.tokenize(tagged).to_list(), source.encode(tagged)):
        ours = [[int(row) for row in rows[ids[0 if is_marian else 1 :]]] for ids in found]
        assert ours == expected
    if not is_marian:  # the tag of the target, which begins outputs
        code = theirs.convert_tokens_to_ids("tyv_Cyrl")
        code = code if code != theirs.unk_token_id else theirs.convert_tokens_to_ids("__tyv__")
        assert {int(rows[ids[0]]) for ids in found} == {code}


@TWO_KINDS
def test_greedy_translations(both):
    module, theirs, model, source, target, tagged, texts = both
    rows = their_rows(theirs, target, module.config.vocab_size)
    translator = Translator(
        model, source, target, beam_size=1, max_length_factor=0.0, max_length_constant=LENGTH
    )
    is_marian = isinstance(theirs, transformers.MarianTokenizer)
    batch = theirs(tagged if is_marian else texts, return_tensors="pt", padding=True)
    options, num_given = dict(suppress_tokens=rows[:2].tolist()), 1
    if not is_marian:
        tag = source.tokenize(tagged[:1]).to_list()[0][0]
        options = dict(forced_bos_token_id=int(rows[tag]), suppress_tokens=rows[:3].tolist())
        num_given = 2
    found = module.generate(  # one more: Marian's end, or the tag
        **batch, num_beams=1, do_sample=False, max_new_tokens=LENGTH + 1, **options
    )
    ids = np.argsort(rows)[found.numpy()[:, num_given:]].astype("int32")
    expected = [text.decode() for text in target.detokenize(ids).numpy()]
    is_empty = [not text.strip() for text in texts]
    ours = translator(tagged)
    assert len(set(expected)) > 5
    different = [
        pair for *pair, skip in zip(ours, expected, is_empty, strict=True)
        if pair[0] != pair[1] and not skip
    ]  # fmt: skip
    assert not different, different[:3]
