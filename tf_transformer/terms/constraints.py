"""Phrases that an output must contain, and how much of them a hypothesis contains.

Each spelling of a phrase is an automaton (Knuth, Morris and Pratt, 1977): its state is the number
of its tokens that the hypothesis ends with. So a phrase is found wherever it stands, also after a
beginning of it that was not continued ("a b a c" in "a b a b a c").
"""

from typing import Any, NamedTuple

import tensorflow as tf


class Constraints(NamedTuple):
    """The phrases that the output of each row must contain.

    Attributes:
        ids: `(rows, phrases, spellings, length)` int32, padded with 0; any of the spellings of a
            phrase will do, and those without ids do not count. There is at least one phrase and one
            column, which may be padding.
        needed: `(rows, phrases)` int32, how often each phrase must occur, without overlap; 0 for
            one that need not, or that has no spelling.
        starts_in_word: `(rows, phrases, spellings)` bool, whether an occurrence may begin after a
            token that ends in a word, see `PieceTables`.
        is_closed: `(rows, phrases)` bool, whether an occurrence does not count if it is a part of a
            longer word, number or address: if it begins after a connector such as ".", or if the
            next tokens continue it, with connectors between them or without, see `PieceTables`.
    """

    ids: tf.Tensor
    needed: tf.Tensor
    starts_in_word: tf.Tensor
    is_closed: tf.Tensor

    def lengths(self) -> tf.Tensor:
        """Returns the number of tokens of each spelling, `(rows, phrases, spellings)` int32."""
        return tf.math.count_nonzero(self.ids, axis=3, dtype=tf.int32)

    def full_lengths(self) -> tf.Tensor:
        """Returns the number of tokens of each phrase's longest spelling, `(rows, phrases)`."""
        return tf.reduce_max(self.lengths(), axis=2)

    def num_tokens(self) -> tf.Tensor:
        """Returns the number of tokens of all phrases of a row, `(rows,)` int32."""
        return tf.reduce_sum(self.needed * self.full_lengths(), axis=1)


class TokenTables(NamedTuple):
    """`PieceTables` as tensors, `(vocab or candidates,)` bool each."""

    ends_in_word: tf.Tensor
    ends_joined: tf.Tensor
    continues: tf.Tensor
    is_connector: tf.Tensor


class Progress(NamedTuple):
    """How much of its row's phrases each hypothesis contains; `...` are axes of hypotheses.

    Attributes:
        found: `(rows, ..., phrases)` int32, number of occurrences of each phrase.
        matched: `(rows, ..., phrases, spellings)` int32, number of tokens of each spelling that the
            hypothesis ends with; 0 after an occurrence of the phrase.
        is_closing: `(rows, ..., phrases)` bool, whether the hypothesis ends with an occurrence of a
            closed phrase, and perhaps connectors after it.
        in_word: `(rows, ...)` bool, whether the hypothesis ends in a word.
        is_joined: `(rows, ...)` bool, whether it ends in a word or with a connector.
    """

    found: tf.Tensor
    matched: tf.Tensor
    is_closing: tf.Tensor
    in_word: tf.Tensor
    is_joined: tf.Tensor


class Missing(NamedTuple):
    """What is missing from hypotheses, `(rows, beam, alternatives)` int32 each.

    Attributes:
        num_tokens: a number of tokens that suffices: the rest of the phrase that has progressed
            most, and all others in full. Continuing that phrase always reduces it by at least one.
        least_tokens: a number of tokens without which it is impossible: the longest rest of any
            phrase. Less than `num_tokens`, as phrases may overlap.
        num_occurrences: number of occurrences.
    """

    num_tokens: tf.Tensor
    least_tokens: tf.Tensor
    num_occurrences: tf.Tensor


class PhraseTracker(NamedTuple):
    """The phrases of the rows, prepared for a search, and the progress of their hypotheses.

    It is a nest of tensors whose first axis are the rows.

    Attributes:
        constraints: the phrases.
        borders: `(rows, phrases, spellings, length + 1, length)` bool, at [s, j] whether the first
            j tokens of a spelling are the last of its first s ones, and may begin there.
        progress: of all hypotheses, with one axis, `(rows, beam)`.
        due: `(rows, beam, phrases, spellings)` bool, spellings of which the hypothesis must first
            complete one, since an n-gram has been repeated for their sake; none if it is free.
    """

    constraints: Constraints
    borders: tf.Tensor
    progress: Progress
    due: tf.Tensor

    @classmethod
    def start(
        cls, constraints: Constraints, tables: TokenTables, beam_size: int
    ) -> "PhraseTracker":
        """Returns the state before the first token.

        Args:
            constraints: the phrases.
            tables: characters of the tokens.
            beam_size: number of hypotheses per row.
        """
        rows, phrases, spellings = tf.unstack(tf.shape(constraints.ids)[:3])
        shape = (rows, beam_size, phrases)
        progress = Progress(
            found=tf.zeros(shape, tf.int32),
            matched=tf.zeros((*shape, spellings), tf.int32),
            is_closing=tf.fill(shape, False),
            in_word=tf.fill((rows, beam_size), False),
            is_joined=tf.fill((rows, beam_size), False),
        )
        due = tf.fill((*shape, spellings), False)
        return cls(constraints, _borders(constraints, tables), progress, due)

    def extend(self, tokens: tf.Tensor, tables: TokenTables) -> Progress:
        """Returns the progress after one more token, for several alternatives of it.

        Args:
            tokens: `(rows, beam, alternatives)` int32.
            tables: characters of the tokens.

        Returns:
            `Progress` of `(rows, beam, alternatives)`.
        """
        ids, now = self.constraints.ids, self.progress
        # 1. The first j tokens, after which the next one may follow, (rows, beam, phrases,
        #    spellings, length).
        by_phrase = tf.transpose(now.matched, (0, 2, 3, 1))
        borders = tf.gather(self.borders, by_phrase, axis=3, batch_dims=3)
        borders = tf.transpose(borders, (0, 3, 1, 2, 4))
        is_first = tf.range(tf.shape(ids)[3]) == 0
        borders &= ~is_first | self._may_start()[..., tf.newaxis]
        # 2. Of those that it does follow, the longest, (rows, beam, alternatives, phrases,
        #    spellings).
        is_same = tokens[..., tf.newaxis, tf.newaxis, tf.newaxis] == ids[:, tf.newaxis, tf.newaxis]
        follows = borders[:, :, tf.newaxis] & is_same
        counts = tf.range(1, tf.shape(ids)[3] + 1)
        matched = tf.reduce_max(tf.where(follows, counts, 0), axis=5)
        # 3. A whole phrase counts, and the next occurrence begins after it.
        lengths = self.constraints.lengths()[:, tf.newaxis, tf.newaxis]
        is_found = tf.reduce_any((matched == lengths) & (lengths > 0), axis=4)
        was_closing = now.is_closing[:, :, tf.newaxis]
        is_lost = was_closing & tf.gather(tables.continues, tokens)[..., tf.newaxis]
        is_closing = is_found & self.constraints.is_closed[:, tf.newaxis, tf.newaxis]
        is_closing |= was_closing & tf.gather(tables.is_connector, tokens)[..., tf.newaxis]
        found = now.found[:, :, tf.newaxis]
        return Progress(
            found=found + tf.cast(is_found, tf.int32) - tf.cast(is_lost, tf.int32),
            matched=tf.where(is_found[..., tf.newaxis], 0, matched),
            is_closing=is_closing,
            in_word=tf.gather(tables.ends_in_word, tokens),
            is_joined=tf.gather(tables.ends_joined, tokens),
        )

    def advance(
        self, newest: tf.Tensor, parents: tf.Tensor, tables: TokenTables
    ) -> "PhraseTracker":
        """Returns the tracker after a step.

        Args:
            newest: `(rows, beam)` int32, the newest token of every hypothesis.
            parents: `(rows, beam)` int32, index of the hypothesis that each one extends.
            tables: characters of the tokens.
        """
        progress = Progress(*(tf.gather(x, parents, batch_dims=1) for x in self.progress))
        extended = self._replace(progress=progress).extend(newest[:, :, tf.newaxis], tables)
        return self._replace(progress=Progress(*(x[:, :, 0] for x in extended)))

    def next_tokens(self) -> tf.Tensor:
        """Returns the next token of every spelling of an unmet phrase, 0 where there is none.

        Returns:
            `(rows, beam, phrases, spellings)` int32.
        """
        ids, now = self.constraints.ids, self.progress
        by_phrase = tf.transpose(now.matched, (0, 2, 3, 1))
        tokens = tf.transpose(tf.gather(ids, by_phrase, axis=3, batch_dims=3), (0, 3, 1, 2))
        is_unmet = now.found < self.constraints.needed[:, tf.newaxis]
        may_follow = (now.matched > 0) | self._may_start()
        return tf.where(is_unmet[..., tf.newaxis] & may_follow, tokens, 0)

    def repeatable_tokens(self, left: tf.Tensor) -> tf.Tensor:
        """Returns the next tokens that may repeat an n-gram, 0 where there is none.

        They are those of spellings that are due, or of all that can still be completed.

        Args:
            left: `(rows,)` int32, number of tokens that may follow.

        Returns:
            `(rows, beam, phrases, spellings)` int32.
        """
        is_due = tf.reduce_any(self.due, axis=(2, 3), keepdims=True)
        fits = self._num_left() <= left[:, tf.newaxis, tf.newaxis, tf.newaxis]
        return tf.where(tf.where(is_due, self.due, fits), self.next_tokens(), 0)

    def find_due(self, newest: tf.Tensor, parents: tf.Tensor, repeats: tf.Tensor) -> tf.Tensor:
        """Returns `due` after a step, whose tokens `progress` does not contain yet.

        Args:
            newest: `(rows, beam)` int32, the newest token of every hypothesis.
            parents: `(rows, beam)` int32, index of the hypothesis that each one extends.
            repeats: `(rows, beam)` bool, whether the newest token repeats an n-gram.
        """
        tokens, due, left = (
            tf.gather(x, parents, batch_dims=1)
            for x in (self.next_tokens(), self.due, self._num_left())
        )
        was_due = tf.reduce_any(due, axis=(2, 3), keepdims=True)
        is_next = (tokens == newest[..., tf.newaxis, tf.newaxis]) & (tokens != 0)
        due = is_next & tf.where(was_due, due, repeats[..., tf.newaxis, tf.newaxis])
        # A phrase is complete with any of its spellings.
        is_complete = tf.reduce_any(is_next & (left == 1), axis=3) & tf.reduce_any(due, axis=3)
        return due & ~tf.reduce_any(is_complete, axis=2)[..., tf.newaxis, tf.newaxis]

    def _num_left(self):
        """Returns the number of tokens left of spellings, `(rows, beam, phrases, spellings)`."""
        return self.constraints.lengths()[:, tf.newaxis] - self.progress.matched

    def missing(self, progress: Progress) -> Missing:
        """Returns what is missing from hypotheses.

        Args:
            progress: of hypotheses of `(rows, beam, alternatives)`.
        """
        needed = self.constraints.needed[:, tf.newaxis, tf.newaxis]
        full = self.constraints.full_lengths()[:, tf.newaxis, tf.newaxis]
        lengths = self.constraints.lengths()[:, tf.newaxis, tf.newaxis]
        # By phrase, (rows, beam, alternatives, phrases).
        unmet = tf.maximum(needed - progress.found, 0)
        left = tf.where(lengths > 0, lengths - progress.matched, tf.int32.max)
        left = tf.where(unmet > 0, tf.reduce_min(left, axis=4), 0)
        has_begun = tf.where(
            progress.matched > 0, lengths - progress.matched, full[..., tf.newaxis]
        )
        done = tf.where(unmet > 0, full - tf.reduce_min(has_begun, axis=4), 0)
        return Missing(
            num_tokens=tf.reduce_sum(unmet * full, axis=3) - tf.reduce_max(done, axis=3),
            least_tokens=tf.reduce_max(left, axis=3),
            num_occurrences=tf.reduce_sum(unmet, axis=3),
        )

    def _may_start(self):
        """Returns whether a spelling may begin now, `(rows, beam, phrases, spellings)` bool."""
        in_word, is_joined = (
            x[:, :, tf.newaxis] for x in (self.progress.in_word, self.progress.is_joined)
        )
        is_within = tf.where(self.constraints.is_closed[:, tf.newaxis], is_joined, in_word)
        return self.constraints.starts_in_word[:, tf.newaxis] | ~is_within[..., tf.newaxis]


def count_occurrences(constraints: Constraints, ids: tf.Tensor, tables: TokenTables) -> tf.Tensor:
    """Counts the occurrences of phrases in outputs, as a search does.

    Args:
        constraints: the phrases.
        ids: `(rows, length)` int32, padded with 0.
        tables: characters of the tokens.

    Returns:
        `(rows, phrases)` int32.
    """
    tracker = PhraseTracker.start(constraints, tables, beam_size=1)
    parents = tf.zeros((tf.shape(ids)[0], 1), tf.int32)

    def read(step: tf.Tensor, progress: Any):
        newest = tf.gather(ids, step, axis=1)[:, tf.newaxis]
        return step + 1, tracker._replace(progress=progress).advance(
            newest, parents, tables
        ).progress

    _, progress = tf.while_loop(
        lambda step, _: step < tf.shape(ids)[1], read, (tf.constant(0), tracker.progress)
    )
    return progress.found[:, 0]


def _borders(constraints: Constraints, tables: TokenTables) -> tf.Tensor:
    """Computes `PhraseTracker.borders`."""
    ids = constraints.ids
    length = tf.shape(ids)[3]
    states, counts = tf.range(length + 1)[:, tf.newaxis], tf.range(length)  # s and j
    # equal[d, j]: whether the first j tokens are the j tokens from d on.
    padded = tf.pad(ids, [[0, 0], [0, 0], [0, 0], [0, length + 1]], constant_values=-1)
    is_same = tf.gather(padded, states + counts, axis=3) == ids[:, :, :, tf.newaxis]
    equal = tf.math.cumprod(tf.cast(is_same, tf.int32), axis=4, exclusive=True)
    # The first j of s tokens are the last ones if they are the j tokens from s - j on.
    flat = tf.reshape(equal, tf.concat([tf.shape(ids)[:3], [(length + 1) * length]], axis=0))
    indices = tf.maximum(states - counts, 0) * length + counts
    is_border = (tf.gather(flat, indices, axis=3) == 1) & (counts <= states)
    # They may begin there unless the token before, which is one of the s, ends in a word, or for
    # closed phrases with a connector.
    is_closed = constraints.is_closed[..., tf.newaxis, tf.newaxis]
    ends = tf.where(
        is_closed, tf.gather(tables.ends_joined, ids), tf.gather(tables.ends_in_word, ids)
    )
    ends_before = tf.gather(ends, tf.maximum(states - counts - 1, 0), axis=3)
    starts_in_word = constraints.starts_in_word[..., tf.newaxis, tf.newaxis]
    may_begin = starts_in_word | ~ends_before | (counts == states) | (counts == 0)
    # No token follows the last one, not even padding.
    return is_border & may_begin & (ids != 0)[:, :, :, tf.newaxis]
