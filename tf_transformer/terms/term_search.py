"""Translation of token ids with phrases that the outputs must contain."""

import tensorflow as tf

from tf_transformer.decoding.search_interface import Hypotheses
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.decoding.translation_search import TranslationSearch
from tf_transformer.terms.constrained_search import ConstrainedSearch, TrackedModel
from tf_transformer.terms.constraints import Constraints, TokenTables, count_occurrences
from tf_transformer.text.framing import end_and_pad, split_tags
from tf_transformer.text.special_ids import PAD_ID
from tf_transformer.text.word_characters import PieceTables


class TermSearch:
    """Searches translations that contain phrases, with the model and options of another search.

    Args:
        search: the search; compiled searches of it are not used.
        tables: characters of the target pieces.
    """

    def __init__(self, search: TranslationSearch, tables: PieceTables):
        self.search = search
        self._tables = tables

    def run(
        self, source: tf.RaggedTensor, constraints: Constraints, options: TranslationOptions
    ) -> tuple[Hypotheses, tf.Tensor]:
        """Searches the best outputs, as `TranslationSearch.run`.

        The limit of an output's length is raised by the number of tokens of its phrases, within the
        model's limit.

        Args:
            source: ragged ids `(batch, (length))` without special ids.
            constraints: the phrases.
            options: per-sentence options.

        Returns:
            The hypotheses, and the number of occurrences of each phrase in the best of them,
            `(batch, phrases)` int32.
        """
        search, num_tags = self.search, self.search.model.config.num_target_tags
        tags, source = split_tags(source, num_tags)
        ids = end_and_pad(source)
        # `start` needs at least one column, which may be padding.
        prefix = tf.pad(tags, [[0, 0], [0, 1]], constant_values=PAD_ID)
        tables = TokenTables(*map(tf.constant, self._tables))
        candidates, indices = None, constraints
        if search.shortlist is not None:
            rows = tf.shape(ids)[0]
            wanted = tf.concat([prefix, tf.reshape(constraints.ids, (rows, -1))], axis=1)
            candidates = search.shortlist.find(ids, wanted)
            prefix = search.shortlist.indices(candidates, prefix)
            indices = constraints._replace(
                ids=search.shortlist.indices(candidates, constraints.ids)
            )
            tables = TokenTables(*(tf.gather(x, candidates.ids) for x in tables))
        decoder, state, arguments = search.start(ids, options, prefix, candidates)
        limits = arguments["options"].max_length
        limits = tf.where(
            limits > 0, tf.minimum(limits + constraints.num_tokens(), search.limit), limits
        )
        model = TrackedModel(decoder, tables)
        constrained = ConstrainedSearch(
            model, search.beam_size, tuple(arguments["end_ids"]), 1, arguments["suppressed_ids"]
        )
        found = constrained.run(
            model.start(state, indices, search.beam_size),
            arguments["begin_id"],
            arguments["options"]._replace(max_length=limits),
        )
        best = found.ids[:, 0, num_tags:]
        counts = count_occurrences(indices, best, tables)
        output_ids = found.ids[:, :, num_tags:]
        if candidates is not None:
            output_ids = tf.gather(candidates.ids, output_ids)
        is_empty = (source.row_lengths() == 0)[:, tf.newaxis]
        return Hypotheses(
            output_ids,
            tf.where(is_empty, 0.0, found.scores),
            tf.where(is_empty, 0.0, found.log_probs),
            tf.where(is_empty, 0, tf.maximum(found.lengths - num_tags, 0)),
        ), counts
