"""What every search takes and returns: the model of its steps, options of rows, outputs, scores."""

from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from tf_transformer.argument_types import is_number, is_whole
from tf_transformer.decoding.search_options import LARGEST_LENGTH_PENALTY, MAX_BEAM_SIZE
from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.text.special_ids import PAD_ID

# Finished rows leave the batch when at most this fraction of its rows is unfinished.
OPEN_SHARE = 0.8


class StepModel(Protocol):
    """Interface of models for `beam_search`: the next token's logits from a state.

    The state is a nest of tensors.

    Attributes:
        compaction_interval: a search calls `select_rows` before every step whose index is a
            positive multiple of this interval, and may call it before other steps.
    """

    compaction_interval: int

    def decode_step(
        self,
        newest: tf.Tensor,
        parents: tf.Tensor,
        position: tf.Tensor,
        state: Any,
        return_attention: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor | None, Any]:
        """Computes the next token's logits of every hypothesis.

        Args:
            newest: `(rows, beam)` int32, the newest token of every hypothesis.
            parents: `(rows, beam)` int32, index in the previous step of the hypothesis that each
                one extends.
            position: int32, position of the newest tokens in the output; the begin id has 0.
            state: the state after the previous step.
            return_attention: whether to return the attention.

        Returns:
            The logits of the next token, `(rows, beam, vocab)` float32, the attention to the
            source, `(rows, beam, source_length)` float32 or None, and the new state. If `vocab` is
            not known in the graph, it is at least the beam size plus the number of special ids.
        """

    def select_rows(
        self,
        rows: tf.Tensor,
        alive: tf.Tensor,
        parents: tf.Tensor,
        position: tf.Tensor,
        state: Any,
    ) -> Any:
        """Returns the state of some rows.

        Args:
            rows: `(kept,)` int32, indices of the rows to keep.
            alive: `(rows, beam)` bool, True at hypotheses that will be extended.
            parents: `(rows, beam)` int32, as for the next `decode_step`.
            position: position of the next step's tokens.
            state: the state of all rows.
        """


class SearchOptions(NamedTuple):
    """Per-row options, `(rows,)` tensors; options that are None add nothing to the graph.

    Attributes:
        max_length: int32, maximum number of tokens of an output without the end id, which is forced
            at this length.
        length_penalty: float32, alpha of `length_penalty`.
        beam_size: int32, from 1 to the beam size of the search.
        min_length: int32, minimum number of tokens of an output.
        no_repeat_ngram: int32, size n; no n-gram of this size occurs twice in an output, except
            within the phrases of a `ConstrainedSearch`; 0 allows all.
        coverage_penalty: float32, beta of Wu et al., 2016, equation 14:
            score += beta * sum_i log(min(sum_j attention_ij, 1)) over the source positions i.
        source_mask: `(rows, source_length)` bool, positions that must be covered; required with
            `coverage_penalty`.
        prefix: `(rows, length)` int32 padded with 0, forced tokens at the start of every output.
            Scores and length penalties leave them out.
    """

    max_length: Any
    length_penalty: Any = 0.0
    beam_size: Any = None
    min_length: Any = None
    no_repeat_ngram: Any = None
    coverage_penalty: Any = None
    source_mask: Any = None
    prefix: Any = None


class Hypotheses(NamedTuple):
    """Outputs found by a search, best first.

    Attributes:
        ids: `(batch, beam, length)` int32, without begin and end id, padded with 0.
        scores: `(batch, beam)` float32, `log_probs / length_penalty` plus the coverage penalty;
            -inf if there are fewer hypotheses than `beam`.
        log_probs: `(batch, beam)` float32, log p(ids, end | source, prefix) in nats.
        lengths: `(batch, beam)` int32, number of tokens in `ids`.
    """

    ids: tf.Tensor
    scores: tf.Tensor
    log_probs: tf.Tensor
    lengths: tf.Tensor


def length_penalty(length: Any, alpha: Any) -> tf.Tensor:
    """Computes lp(n) = ((5 + n) / 6)^alpha   (Wu et al., 2016, equation 14).

    Args:
        length: n, number of tokens of a hypothesis, including the end.
        alpha: 0 ranks by log-probability, which favors short outputs; 1 ranks almost by the mean
            log-probability per token.

    Returns:
        float32 tensor of the shape of `length`.
    """
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** alpha


def coverage_score(options: SearchOptions, coverage: tf.Tensor) -> tf.Tensor:
    """Computes what the coverage penalty adds to the scores, see `SearchOptions`, `(rows, beam)`.

    Args:
        options: the options of the rows, with a coverage penalty.
        coverage: `(rows, beam, source_length)` float32, sum of the attention.
    """
    missing = tf.math.log(tf.clip_by_value(coverage, 1e-9, 1.0))
    missing = tf.where(options.source_mask[:, tf.newaxis], missing, 0.0)
    return options.coverage_penalty[:, tf.newaxis] * tf.reduce_sum(missing, axis=2)


def without_none(options: SearchOptions) -> SearchOptions:
    """Returns options in which `()` stands for None, which loop variables must not contain."""
    return options._replace(**{name: () for name, x in options._asdict().items() if x is None})


def is_given(option: Any) -> bool:
    """Returns whether an option of the rows was given; in a loop, those that were not are `()`."""
    return not isinstance(option, tuple)


def prefix_lengths(options: SearchOptions) -> tf.Tensor:
    """Returns the number of tokens of the prefix of each row, `(rows,)` int32."""
    return tf.math.count_nonzero(options.prefix != PAD_ID, axis=1, dtype=tf.int32)


def scored_length(options: SearchOptions, length: tf.Tensor) -> tf.Tensor:
    """Returns the length for the penalty, `(rows,)`: without the prefix, and at least 1.

    No hypothesis ends within the prefix, but ends with -inf are scored there, too. A negative
    length would give a negative penalty and turn their scores into +inf.
    """
    if is_given(options.prefix):
        return tf.maximum(length - prefix_lengths(options), 1)
    return length


def check_search_arguments(beam_size: int, num_best: int, alpha: float) -> None:
    """Checks the arguments of a beam search.

    Args:
        beam_size: width of the beam.
        num_best: number of outputs per sentence.
        alpha: length penalty.

    Raises:
        InputError: an argument has the wrong type or is out of range.
    """
    if not is_whole(beam_size) or not 1 <= beam_size <= MAX_BEAM_SIZE:
        raise InputError(
            f"`beam_size` must be an integer between 1 and {MAX_BEAM_SIZE}. "
            f"Received: beam_size={shown(beam_size)}"
        )
    if not is_whole(num_best) or not 1 <= num_best <= beam_size:
        raise InputError(
            "`num_best` must be an integer between 1 and `beam_size`. "
            f"Received: num_best={shown(num_best)}, beam_size={beam_size}"
        )
    if not is_number(alpha) or not 0 <= alpha <= LARGEST_LENGTH_PENALTY:
        raise InputError(
            f"`length_penalty` must be between 0 and {LARGEST_LENGTH_PENALTY:g}. "
            f"Received: length_penalty={shown(alpha)}"
        )


def growing_shape(tensor: tf.Tensor) -> tf.TensorShape:
    """Returns a loop's static shape: the number of rows falls, and axes of unknown size grow."""
    return tf.TensorShape([None, *(size or None for size in tensor.shape[1:])][: tensor.shape.rank])
