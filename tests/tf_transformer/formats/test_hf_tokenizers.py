"""The SentencePiece model that `convert --to hf` writes for an mBART."""

import pytest
import sentencepiece

from tests.tf_transformer.formats.random_model import SOURCES, train_vocabularies
from tf_transformer.errors import InputError
from tf_transformer.formats.hf.mbart import CC25_CODES
from tf_transformer.formats.sentencepiece_ids import pieces_of, with_ids
from tf_transformer.formats.writers.hf_tokenizers import MBartFiles
from tf_transformer.text.vocabulary import Vocabulary

TAGS = [f">>{code}<<" for code in CC25_CODES]
BEHIND = [*TAGS, "<mask>"]


@pytest.fixture(scope="module")
def unigram():
    model = train_vocabularies(joint=True)[0]
    return model, pieces_of(model)[4:]


def vocabulary(unigram, behind):
    model, pieces = unigram
    return Vocabulary(with_ids(model, [*pieces, *behind]))


def test_the_ids_are_those_of_fairseq(unigram, tmp_path):
    ours = vocabulary(unigram, [*BEHIND, f"<row {4 + len(unigram[1]) + len(BEHIND)}>"])
    files = MBartFiles(ours)
    files.write(tmp_path)
    path = tmp_path / "sentencepiece.bpe.model"
    written = sentencepiece.SentencePieceProcessor(model_file=str(path))
    assert pieces_of(path.read_bytes()) == ["<unk>", "<s>", "</s>", *unigram[1]]
    ids = [[token_id + 1 if token_id else 3 for token_id in row] for row in written.encode(SOURCES)]
    assert [[files.rows[token_id] for token_id in row] for row in ids] == ours.encode(SOURCES)
    assert files.rows == [2, 0, 3, 1, *range(4, ours.vocab_size)]
    assert files.ids() == {"bos_token_id": 0}


@pytest.mark.parametrize(
    "behind",
    [
        [],
        TAGS,
        [*TAGS[1:], "<mask>"],
        [TAGS[1], TAGS[0], *BEHIND[2:]],
        [">>af_ZA<<", *BEHIND],
        [*BEHIND, "word"],
    ],
    ids=["none", "no mask", "one less", "other order", "one more", "a word"],
)
def test_another_vocabulary_is_refused(unigram, behind):
    with pytest.raises(InputError, match="unless its vocabulary is that of mbart-large-cc25"):
        MBartFiles(vocabulary(unigram, behind))
