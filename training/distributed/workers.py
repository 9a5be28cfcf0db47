"""The processes that train one model together: who writes, and how they agree."""

import contextlib
import functools
from collections.abc import Iterator

import tensorflow as tf

# What collective operations end with when a worker is gone.
_LOST = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
)


class Workers:
    """All processes of a `tf.distribute` strategy, seen from one of them.

    Every worker computes; the chief alone writes logs, checkpoints and models, into a folder that
    all can read. A process that trains alone is the chief.

    Args:
        strategy: what trains.

    Attributes:
        number: of processes.
        is_chief: whether this one writes.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self._strategy = strategy
        resolver = strategy.cluster_resolver
        cluster = resolver.cluster_spec().as_dict() if resolver is not None else {}
        self.number = max(1, sum(len(addresses) for addresses in cluster.values()))
        first = "chief" if "chief" in cluster else "worker"
        self.is_chief = self.number == 1 or (resolver.task_type, resolver.task_id) == (first, 0)

    def wait(self) -> None:
        """Returns once every worker has called it."""
        self.any(False)

    def any(self, value: bool) -> bool:
        """Whether the value is True on any worker; all must ask, and all get the same answer."""
        if self.number == 1:
            return value
        return bool(self._count(tf.constant(float(value))) > 0)

    @contextlib.contextmanager
    def losses_explained(self) -> Iterator[None]:
        """Says in one line that another worker is gone, which ends this one too.

        Raises:
            ConnectionError: in place of TensorFlow's errors.
        """
        try:
            yield
        except _LOST as error:
            if self.number == 1:
                raise
            raise ConnectionError(
                "another worker has ended or cannot be reached; start all workers again with the "
                "same command, and training goes on from the newest checkpoint "
                f"({' '.join(str(error.message).split())[:300]})"
            ) from error

    def shares(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        """Batches of which every worker takes its share of the rows."""
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = (
            tf.data.experimental.AutoShardPolicy.DATA
        )
        return batches.with_options(options)

    @functools.cached_property
    def _count(self):
        def add(value):
            context = tf.distribute.get_replica_context()
            on_own_device = tf.identity(value)
            return context.all_reduce(tf.distribute.ReduceOp.SUM, on_own_device)

        @tf.function(autograph=False)
        def count(value):
            sums = self._strategy.run(add, args=(value,))
            return self._strategy.experimental_local_results(sums)[0]

        return count
