"""Word alignments in the pipeline: from lines of links to aligned tokens."""

import tensorflow as tf

from tf_transformer.text.tokenizer import Tokenizer
from tf_transformer.text.vocabulary import Vocabulary
from tf_transformer.word_alignment.piece_words import count_words, word_indices

# The text, its ids, ragged, and its tokenizer.
Side = tuple[tf.Tensor, tf.RaggedTensor, Tokenizer]


def read_links(lines: tf.Tensor, sides: tuple[Side, Side]) -> tf.RaggedTensor:
    """Reads lines of links between words, which `check_alignments` has checked.

    Args:
        lines: `(batch,)` strings, in Pharaoh's format.
        sides: source and target.

    Returns:
        int32, ragged `(batch, (2 * links))`: the number of the source's and of the target's word of
        each link, counted from 1, so that 0 can be padding. Empty where SentencePiece finds more or
        fewer words than white space separates, see `piece_words`.
    """
    numbers = tf.strings.split(tf.strings.regex_replace(lines, "[-?p]", " "))
    links = numbers.with_flat_values(tf.strings.to_number(numbers.flat_values, tf.int32) + 1)
    is_same = tf.ones_like(lines, tf.bool)
    for text, ids, vocabulary in sides:
        words = tf.reduce_max(word_indices(ids, vocabulary).to_tensor(-1), axis=1) + 1
        is_same &= tf.maximum(words, 0) == count_words(text)
    lengths = tf.where(is_same, links.row_lengths(), 0)
    return tf.RaggedTensor.from_tensor(links.to_tensor(), lengths)


def align_tokens(
    source: tuple[tf.RaggedTensor, Vocabulary],
    target: tuple[tf.RaggedTensor, Vocabulary],
    links: tf.Tensor,
) -> tf.Tensor:
    """Returns which tokens of the target are aligned with which tokens of the source.

    A link of two words is a link of all their pieces. End ids are aligned with nothing.

    Args:
        source: ids without end ids, ragged `(batch, (length))`, and their vocabulary.
        target: the same for the target.
        links: the result of `read_links`, `(batch, 2 * links)`, padded with 0.

    Returns:
        `(batch, target_length, source_length)` bool, for lengths with the end ids.
    """
    # The number of each token's word, counted from 1: (batch, length), 0 at the end and padding
    source_words, target_words = (
        tf.pad((word_indices(*side) + 1).to_tensor(), [[0, 0], [0, 1]]) for side in (source, target)
    )
    rows, most = tf.shape(links)[0], tf.shape(links)[1] // 2
    links = tf.reshape(links, (rows, most, 2))
    num_words = [
        tf.reduce_max(tf.pad(words, [[1, 1], [1, 1]])) for words in (source_words, target_words)
    ]
    is_link = tf.reduce_all((links > 0) & (links <= tf.stack(num_words)), axis=2)
    indices = tf.stack(
        [
            tf.broadcast_to(tf.range(rows)[:, tf.newaxis], (rows, most)),
            links[..., 1],
            links[..., 0],
        ],
        axis=2,
    )
    # (batch, target words, source words)
    linked = tf.scatter_nd(
        tf.boolean_mask(indices, is_link),
        tf.ones([tf.math.count_nonzero(is_link)], tf.int32),
        tf.stack([rows, num_words[1] + 1, num_words[0] + 1]),
    )
    linked = tf.gather(linked, target_words, batch_dims=1)
    return tf.gather(linked, source_words, axis=2, batch_dims=1) > 0


def move_alignment(alignment: tf.Tensor, num_tags: int) -> tf.Tensor:
    """Does for an alignment what `framing.move_tags` does for source and labels.

    Args:
        alignment: the result of `align_tokens`.
        num_tags: number of tags.

    Returns:
        The alignment without the tags in the source, and with unaligned ones in the target.
    """
    return tf.pad(alignment[:, :, num_tags:], [[0, 0], [num_tags, 0], [0, 0]])
