"""Languages and words that were added to NLLB's tokenizer: ids, segmentation and contradictions."""

import json
import re
import shutil

import pytest
import sentencepiece
import tensorflow as tf

from tests.tf_transformer.formats.hf.nllb_folder import (
    CODES,
    MODEL_NAME,
    NUM_PIECES,
    SPECIAL,
    write_nllb,
)
from tf_transformer.errors import InputError
from tf_transformer.formats.hf.m2m100 import HFM2M100
from tf_transformer.formats.import_model import import_model
from tf_transformer.text.tokenizer import Tokenizer
from tf_transformer.text.vocabulary import Vocabulary

FIRST = 1 + NUM_PIECES  # the first id after those of the SentencePiece model
LISTED = {"special_tokens_map.json": {"additional_special_tokens": CODES}}
WORDS = ["Cologne", "New York", "<term>", "na\u00efve", "\u4f60\u597d", "\u04e7", "horse", "A-1"]
PARTS_OF_TAGS = ["_", "eng", "Latn", ">>", "<<", "tyv", "_Latn", "deu_"]
NUM_ROWS = FIRST + len(WORDS) + len(PARTS_OF_TAGS) + 8
TEXTS = [
    "I love Cologne.", "Cologne is nice", "xCologne", "love Cologne is", "Cologne Cologne",
    "(Cologne) a", "a  Cologne  b ", "  Cologne ", "Colognes, b", "a <term> b", "New York",
    "A man sleeps in New York.", "New  York is big", "NewYork", "a horse", "horses and a horse",
    "The horse", "horse", "na\u00efve Zo\u00eb", "\u4f60\u597d, world",
    "ab\u4f60\u597dcd\u4f60\u597d",
    "x\u04e7y \u04e7", "A-1 and Cologne", "CologneCologne", "Cologne, New York, <term>.",
    "the <term>man</term> sleeps", "a New York horse in Cologne <term> b", "\ufb01 Cologne \u00bd",
    "eng Latn a_b", "a >> b<<", "vulgar tyv", "a_Latn deu_",
    "The man buys 3 horses.", "A woman, Cologne! sleeps?", "<term> <term>", "Cologne\u0301 a",
    "\uff23ologne", "\u2581Cologne a", "a\u00a0Cologne", "New York Cologne", "", " ", "A dog runs.",
]  # fmt: skip
# Decoded by Transformers 4.49 from the ids of a tokenizer in Python.
DECODED = {
    "I love Cologne.": "I love Cologne .",
    "xCologne": "x Cologne",
    "love Cologne is": "love Cologne is",
    "Cologne Cologne": "Cologne Cologne",
    "Colognes, b": "Cologne s, b",
    "The horse": "The horse",
    "horse": "horse",
}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return write_nllb(tmp_path_factory.mktemp("added") / "theirs", NUM_ROWS)


@pytest.fixture
def write(original, tmp_path):
    """Returns a function that writes a folder with other descriptions of its tokenizer."""

    def write(files):
        folder = shutil.copytree(original, tmp_path / "theirs")
        (folder / "special_tokens_map.json").unlink()
        for name, content in files.items():
            text = content if isinstance(content, str) else json.dumps(content)
            (folder / name).write_text(text)
        return folder

    return write


def added(first=FIRST + 3, names=WORDS):
    return {name: first + i for i, name in enumerate(names)}


def described(ids, **settings):
    """`added_tokens_decoder`, as Transformers writes it since version 4.34."""
    defaults = dict(lstrip=False, rstrip=False, single_word=False, normalized=True, special=False)
    return {
        "tokenizer_config.json": {
            "added_tokens_decoder": {
                str(i): {"content": name} | defaults | settings for name, i in ids.items()
            }
        }
    }


def rust(tokens, strip=False, **settings):
    """A `tokenizer.json`, without what the importer does not read."""

    def content(folder):
        processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / MODEL_NAME))
        pieces = [processor.id_to_piece(i) for i in range(3, processor.vocab_size())]
        steps = [{"type": "Strip", "strip_left": False, "strip_right": True}] if strip else []
        return {
            "model": {"vocab": {name: i for i, name in enumerate([*SPECIAL, *pieces])}},
            "normalizer": {"type": "Sequence", "normalizers": steps},
            "pre_tokenizer": {
                "type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"
            },
            "added_tokens": [
                {"id": i, "content": name, "normalized": True, "special": False}
                | (settings if i >= FIRST + 3 else {"special": True})
                for name, i in tokens.items()
            ],
        }  # fmt: skip

    return content


# The files of a folder, and the names of the ids from `FIRST` on.
LAYOUTS = {
    "codes, then the mask": (LISTED, [*CODES, "<mask>"]),
    "a language after the mask": (
        {
            "special_tokens_map.json": {"additional_special_tokens": [*CODES, "tyv_Cyrl"]},
            "added_tokens.json": {"<mask>": FIRST + 2, "tyv_Cyrl": FIRST + 3},
        },
        [*CODES, "<mask>", "tyv_Cyrl"],
    ),
    "the mask before all": (
        LISTED | {"added_tokens.json": {"<mask>": FIRST, "tyv_Cyrl": FIRST + 3}},
        ["<mask>", *CODES, "tyv_Cyrl"],
    ),
    "all ids": (
        {
            "added_tokens.json": {
                "<mask>": FIRST, "deu_Latn": FIRST + 1, "eng_Latn": FIRST + 2, "gsw_Latn": FIRST + 3
            }
        },
        ["<mask>", "deu_Latn", "eng_Latn", "gsw_Latn"],
    ),
    "several languages, in a description only": (
        LISTED
        | described({"<mask>": FIRST + 2, "tyv_Cyrl": FIRST + 3, "myv_Cyrl": FIRST + 4}),
        [*CODES, "<mask>", "tyv_Cyrl", "myv_Cyrl"],
    ),
    "a language and a word": (
        LISTED | {"added_tokens.json": {"Cologne": FIRST + 4, "tyv_Cyrl": FIRST + 3}},
        [*CODES, "<mask>", "tyv_Cyrl", "Cologne"],
    ),
    "a special word": (
        {
            "special_tokens_map.json": {"additional_special_tokens": [*CODES, "Cologne", "lez"]},
            "added_tokens.json": {"Cologne": FIRST + 3, "lez": FIRST + 4},
        },
        [*CODES, "<mask>", "Cologne", "lez"],
    ),
    "in three files alike": (
        LISTED | {"added_tokens.json": added()} | described(added()),
        [*CODES, "<mask>", *WORDS],
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ids(write, layout):
    files, names = LAYOUTS[layout]
    imported = HFM2M100().read(write(files))
    pieces = Vocabulary(imported.source_model).pieces
    codes = re.compile("[a-z]{3}(_[A-Z][a-z]{3})?")
    expected = [f">>{name}<<" if codes.fullmatch(name) else name for name in names]
    found = pieces[FIRST : FIRST + len(names)]
    assert [x.removesuffix("\u034f").replace("\u2581", " ").lstrip() for x in found] == expected
    assert imported.notes == ()


def reference(processor, text, words, splits_space):
    """The ids of a tokenizer of Transformers: SentencePiece segments the texts between words."""
    longest_first = sorted(words, key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, longest_first))})", text)
    ids = []
    for index, part in enumerate(parts):
        if index % 2:
            ids.append(words[part])
            continue
        pieces = processor.encode(part, out_type=str)
        found = [processor.piece_to_id(piece) for piece in pieces]
        ids += [3 if token_id == 0 else token_id + 1 for token_id in found]
        if splits_space and part.endswith(" ") and index + 1 < len(parts):
            ids.append(processor.piece_to_id("\u2581") + 1)
    return ids


# For each, a function from its words to its files or the settings of `rust`, and whether a space
# before a word is a piece.
TOKENIZERS = {
    "in Python": (lambda words: {"added_tokens.json": words}, False),
    "in Python, described": (described, False),
    "in Python, special": (
        lambda words: described(words, special=True, normalized=False, rstrip=True),
        False,
    ),
    "in Rust": ({}, True),
    "in Rust, stripping": (dict(lstrip=True), False),
    "in Rust, special": (dict(special=True, normalized=False, strip=True), False),
}


def check_ids(write, kind, words):
    """Compares the ids of texts, and returns a tokenizer, and the texts with their ids."""
    files, splits_space = TOKENIZERS[kind]
    folder = write(LISTED | (files(words) if callable(files) else {}))
    if not callable(files):
        stated = {name: FIRST + i for i, name in enumerate([*CODES, "<mask>"])} | words
        (folder / "tokenizer.json").write_text(json.dumps(rust(stated, **files)(folder)))
    tokenizer = Tokenizer(HFM2M100().read(folder).source_model)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / MODEL_NAME))
    rows = [1, 3, 0, 2, *range(4, NUM_ROWS)]
    # A white space that is no U+0020 belongs to the word, and spaces at the ends are removed.
    texts = [x for x in TEXTS if not splits_space or not re.search("\u00a0|^ +|[\u2581]", x)]
    expected = [reference(processor, text, words, splits_space) for text in texts]
    for number, tag in enumerate(CODES):
        for space in ("", " "):
            tagged = [f"{space}>>{tag}<< {text}" for text in texts]
            for ids in (tokenizer.tokenize(tagged).to_list(), tokenizer.encode(tagged)):
                found = [[rows[token_id] for token_id in of_text] for of_text in ids]
                assert found == [[FIRST + number, *of_text] for of_text in expected]
    return tokenizer, {
        text: [rows.index(row) for row in ids] for text, ids in zip(texts, expected, strict=True)
    }


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_words(write, kind):
    files, splits_space = TOKENIZERS[kind]
    words = added()
    tokenizer, ids = check_ids(write, kind, words)
    assert sum(words["Cologne"] in of_text for of_text in ids.values()) > 15
    decoded = tokenizer.detokenize(tf.ragged.constant(list(ids.values()), dtype=tf.int32)).numpy()
    decoded = dict(zip(ids, [text.decode() for text in decoded], strict=True))
    if files != dict(lstrip=True):
        expected_texts = DECODED | ({"xCologne": "xCologne"} if splits_space else {})
        assert {text: decoded[text] for text in DECODED} == expected_texts


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_words_that_are_parts_of_tags(write, kind):
    """They are found in texts, not in the tags before them."""
    # Special tokens of three letters are languages.
    names = [x for x in PARTS_OF_TAGS if "special" not in kind or x not in ("eng", "tyv")]
    words = added(names=names)
    _, ids = check_ids(write, kind, words)
    assert set(words.values()) <= {token_id for of_text in ids.values() for token_id in of_text}


NUM = FIRST + 3
CONTRADICTIONS = {
    "two names of an id": (
        {"added_tokens.json": {"tyv_Cyrl": NUM}} | described({"gsw_Latn": NUM}),
        rf"the id {NUM} is that of 'tyv_Cyrl' in added_tokens\.json and that of 'gsw_Latn' in tok",
    ),
    "two ids of a name": (
        {"added_tokens.json": {"tyv_Cyrl": NUM}} | described({"tyv_Cyrl": NUM + 1}),
        rf"'tyv_Cyrl' has the id {NUM} in added_tokens\.json and {NUM + 1} in tokenizer_config",
    ),
    "the id of a piece": (
        {"added_tokens.json": {"tyv_Cyrl": 50}},
        r"the id 50 is that of '.+' in sentencepiece\.bpe\.model and that of 'tyv_Cyrl' in added",
    ),
    "a piece with another id": (
        {"added_tokens.json": {"<unk>": NUM}},
        rf"'<unk>' has the id 3 in sentencepiece\.bpe\.model and {NUM} in added_tokens\.json",
    ),
    "a missing id": (
        {"added_tokens.json": {"tyv_Cyrl": NUM + 5}},
        rf"{NUM} is missing, and 'tyv_Cyrl' has {NUM + 5} in added_tokens\.json",
    ),
    "languages in two orders": (
        {"tokenizer_config.json": {"additional_special_tokens": CODES[::-1]}},
        "tokenizer_config.json and special_tokens_map.json name the languages in different orders",
    ),
    "a listed word without an id": (
        {"special_tokens_map.json": {"additional_special_tokens": [*CODES, "<term>"]}},
        r"special_tokens_map\.json: no file states the id of '<term>'",
    ),
    "whole words only": (
        described({"Cologne": NUM}, single_word=True),
        r"tokenizer_config\.json: the added token 'Cologne' has single_word=True, which is not",
    ),
    "a space at the end": ({"added_tokens.json": {"Cologne ": NUM}}, "without a space at its ends"),
    "a zero byte": ({"added_tokens.json": {"a\0": NUM}}, r"Received: 'a\\x00'"),
    "half a character": ({"added_tokens.json": '{"\\ud800": 155}'}, "names and ids of tokens, got"),
    "a negative id": ({"added_tokens.json": {"a": -1}}, "names and ids of tokens, got -1 for 'a'"),
    "an id of text": (
        {"tokenizer_config.json": {"added_tokens_decoder": {"x": "Cologne"}}},
        "names and ids of tokens, got 'x' for 'Cologne'",
    ),
    "a name twice": ({"added_tokens.json": '{"a": 1, "a": 2}'}, "the key 'a' is repeated"),
    "more names than rows": (
        {"added_tokens.json": {f"w{i}": NUM + i for i in range(60)}},
        f"the tokenizer has {NUM + 60} ids, more than vocab_size={NUM_ROWS}",
    ),
}


@pytest.mark.parametrize("fault", CONTRADICTIONS)
def test_contradictions(write, tmp_path, fault):
    files, message = CONTRADICTIONS[fault]
    folder = write(LISTED | files)
    with pytest.raises(InputError, match=message) as error:
        import_model(folder, tmp_path / "new")
    assert "\n" not in str(error.value) and str(folder) in str(error.value)
    assert not (tmp_path / "new").exists()


def test_contradiction_of_tokenizer_json(write):
    folder = write(LISTED)
    content = rust({name: FIRST + i for i, name in enumerate([*CODES, "<mask>"])})(folder)
    vocabulary = content["model"]["vocab"]
    first, second = list(vocabulary)[50:52]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    (folder / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"the id 50 is that of .* in tokenizer\.json and that of"):
        HFM2M100().read(folder)


def test_ids_that_are_guessed_need_few_rows_without_names(tmp_path):
    """Older tokenizers know 202 languages, however few are listed."""
    folder = write_nllb(tmp_path / "theirs", 1000)
    with pytest.raises(InputError, match=r"no file states the ids of the lang.* 876 of 1000"):
        HFM2M100().read(folder)
    (folder / "added_tokens.json").write_text(
        json.dumps({name: FIRST + i for i, name in enumerate([*CODES, "<mask>"])})
    )
    assert Vocabulary(HFM2M100().read(folder).source_model).vocab_size == 1000


def test_a_special_word_that_may_be_a_language(write):
    files = {
        "special_tokens_map.json": {"additional_special_tokens": [*CODES, "zurich_german"]},
        "added_tokens.json": {"zurich_german": NUM},
    }
    assert HFM2M100().read(write(files)).notes == (
        "zurich_german is taken for a word, not for the code of a language",
    )
