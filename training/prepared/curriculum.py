"""A curriculum: batches of several corpora, whose shares change from step to step."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from training.config import Phase


class Curriculum:
    """Chooses the corpus of each step's batch.

    Each corpus gains its share of every step, and the one that is owed most gives the batch. So
    after any number of steps of a phase, each of n corpora has given less than one batch more than
    its share of them, and less than n - 1 batches fewer. The choice is a function of the step
    alone.

    Args:
        phases: the phases, in the order of their steps; the first begins with step 0.
    """

    def __init__(self, phases: Sequence[Phase]):
        self._begins = np.array([phase.from_step for phase in phases], np.int64)
        weights = np.array([phase.weights for phase in phases], np.float64)
        weights /= weights.max(axis=1, keepdims=True)  # their sum could overflow
        self._shares = weights / weights.sum(axis=1, keepdims=True)

    def state_before(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns what each corpus is owed before a step, and how many batches it has given."""
        owed = np.zeros(self._shares.shape[1])
        counts = np.zeros(self._shares.shape[1], np.int64)
        for earlier in range(step):
            phase = np.searchsorted(self._begins, earlier, side="right") - 1
            shares = self._shares[phase]
            owed = shares + (0.0 if earlier == self._begins[phase] else owed)
            choice = np.argmax(np.where(shares > 0, owed, -np.inf))
            owed[choice] -= 1
            counts[choice] += 1
        return owed, counts

    def batches(
        self, streams: Sequence[Callable[[int], tf.data.Dataset]], first_step: int
    ) -> tf.data.Dataset:
        """Returns the batches of all steps from one on.

        Args:
            streams: for each corpus, returns its endless stream after a number of batches.
            first_step: the step.
        """
        begins, shares = tf.constant(self._begins), tf.constant(self._shares)

        def choose(owed, step):
            phase = tf.searchsorted(begins, [step], side="right")[0] - 1
            its_shares = shares[phase]
            owed = its_shares + tf.where(step == begins[phase], tf.zeros_like(owed), owed)
            choice = tf.argmax(tf.where(its_shares > 0, owed, -np.inf))
            return owed - tf.one_hot(choice, len(streams), dtype=tf.float64), choice

        owed, counts = self.state_before(first_step)
        steps = tf.data.Dataset.range(first_step, 2**62)
        return tf.data.Dataset.choose_from_datasets(
            [stream(int(count)) for stream, count in zip(streams, counts, strict=True)],
            steps.scan(tf.constant(owed), choose),
        )
