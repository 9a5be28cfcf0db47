"""Embeddings that start from a file of word vectors."""

import numpy as np
import pytest

from tests.conftest import small_config
from tf_transformer.storage.model_dir import load_model, read_tokenizers
from tf_transformer.text.text_file import TextFile
from training.data.word_vectors import read_vectors
from training.trainer import train


@pytest.fixture
def tokenizer(trained):
    return read_tokenizers(trained)[1]


def write(path, vectors, header=""):
    lines = [f"{word} {' '.join(map(str, vector))}\n" for word, vector in vectors.items()]
    path.write_text(header + "".join(lines), encoding="utf-8")
    return TextFile(path)


def test_pieces_get_their_words_vectors(tokenizer, tmp_path):
    """An exact match wins over the same word behind the mark of a word's beginning."""
    beginnings = [piece for piece in tokenizer.pieces[4:] if piece[0] == "▁" and len(piece) > 2]
    first, second = beginnings[:2]
    file = write(
        tmp_path / "v.txt",
        {first: [1, 2], first[1:]: [3, 4], second[1:]: [5.5, -6e-3], "not-there-at-all": [7, 8]},
        header="4 2\n",
    )
    vectors = read_vectors(file, tokenizer, 2)
    ids = {piece: number for number, piece in enumerate(tokenizer.pieces)}
    np.testing.assert_array_equal(vectors[ids[first]], [1, 2])
    np.testing.assert_allclose(vectors[ids[second]], [5.5, -6e-3], rtol=1e-6)
    expected = {ids[piece] for piece in (first, first[1:], second, second[1:]) if piece in ids}
    assert set(np.flatnonzero(np.isfinite(vectors[:, 0]))) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("word 1", r"v.txt:2: expected a word and 2 numbers .* got '1' after the word \(1 values"),
        ("word 1 2 3", r"got '1 2 3' after the word \(3 values"),
        ("word 1 x", r"got '1 x'"),
        ("word 1 nan", r"got '1 nan'"),
        ("", r"v.txt:2: expected a word and 2 numbers"),
    ],
)
def test_refuses_lines_that_are_no_vectors(tokenizer, tmp_path, line, message):
    (tmp_path / "v.txt").write_text(f"a 1 2\n{line}\n")
    with pytest.raises(ValueError, match=message):
        read_vectors(TextFile(tmp_path / "v.txt"), tokenizer, 2)


def test_refuses_a_file_that_knows_no_piece(tokenizer, tmp_path):
    file = write(tmp_path / "v.txt", {"nowhere-to-be-found": [1, 2]})
    with pytest.raises(ValueError, match="no word in it is a piece"):
        read_vectors(file, tokenizer, 2)


@pytest.mark.slow
def test_training_starts_from_them(untraced_training, corpus, tokenizer, tmp_path):
    """Frozen, they are in the trained model as the file has them; other pieces have their own."""
    piece = next(piece for piece in tokenizer.pieces[4:] if piece[0] == "▁" and len(piece) > 2)
    vector = np.linspace(-1, 1, 32).round(3).astype("float32")
    file = write(tmp_path / "v.txt", {piece: vector})
    config = small_config(
        optimization__steps=1,
        optimization__checkpoint_every=1,
        model__trainable_embeddings=False,
        vocabulary__target_vectors=str(file.path),
    )
    train(config, model_dir=tmp_path / "model", **corpus.arguments)
    model, _, tokenizer = load_model(tmp_path / "model")
    embeddings = model.target_embedding.embeddings.numpy()
    row = tokenizer.pieces.index(piece)
    np.testing.assert_array_equal(embeddings[row], vector)
    others = np.delete(embeddings, row, axis=0)
    assert 0.8 < others.std() * np.sqrt(32) < 1.2


def test_one_matrix_has_one_file():
    with pytest.raises(ValueError, match=r"one matrix for both sides.*target_vectors'"):
        small_config(vocabulary__source_vectors="v.txt")
    small_config(vocabulary__source_vectors="v.txt", vocabulary__joint=False)


@pytest.mark.parametrize("settings", [{}, {"vocabulary__joint": False}])
def test_random_embeddings_are_not_frozen(settings):
    with pytest.raises(ValueError, match=r"would freeze random embeddings.*target_vectors'"):
        small_config(model__trainable_embeddings=False, **settings)
    if settings:
        settings["vocabulary__target_vectors"] = "v.txt"
        with pytest.raises(ValueError, match=r"would freeze random embeddings.*source_vectors'"):
            small_config(model__trainable_embeddings=False, **settings)
