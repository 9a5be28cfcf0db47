"""The worker processes that train one model together."""

import contextlib
import functools
from collections.abc import Iterator

import tensorflow as tf

# Errors that collective operations raise when a worker is lost.
_LOST = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
)


class Workers:
    """The worker processes of a `tf.distribute` strategy.

    Every worker trains; only the chief writes logs, checkpoints and models, into a folder that all
    workers can read. A process that trains alone is the chief.

    Args:
        strategy: the strategy of this process.

    Attributes:
        num_workers: number of worker processes.
        is_chief: whether this process is the chief.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self._strategy = strategy
        resolver = strategy.cluster_resolver
        cluster = resolver.cluster_spec().as_dict() if resolver is not None else {}
        self.num_workers = max(1, sum(len(addresses) for addresses in cluster.values()))
        first = "chief" if "chief" in cluster else "worker"
        self.is_chief = self.num_workers == 1 or (resolver.task_type, resolver.task_id) == (
            first,
            0,
        )

    def wait(self) -> None:
        """Blocks until every worker has called it."""
        self.any(False)

    def any(self, value: bool) -> bool:
        """Returns whether the value is True on any worker.

        All workers must call this together, and get the same result.
        """
        if self.num_workers == 1:
            return value
        return bool(self._count(tf.constant(float(value))) > 0)

    @contextlib.contextmanager
    def lost_workers_explained(self) -> Iterator[None]:
        """Turns TensorFlow's errors about a lost worker into a one-line error.

        Raises:
            ConnectionError: another worker has ended or cannot be reached.
        """
        try:
            yield
        except _LOST as error:
            if self.num_workers == 1:
                raise
            raise ConnectionError(
                "another worker has ended or cannot be reached; start all workers again with the "
                "same command to resume from the newest checkpoint "
                f"({' '.join(str(error.message).split())[:300]})"
            ) from error

    def shares(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        """Returns batches whose rows `fit` divides among the workers."""
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = (
            tf.data.experimental.AutoShardPolicy.DATA
        )
        return batches.with_options(options)

    @functools.cached_property
    def _count(self):
        def add(value):
            context = tf.distribute.get_replica_context()
            on_replica_device = tf.identity(value)
            return context.all_reduce(tf.distribute.ReduceOp.SUM, on_replica_device)

        @tf.function(autograph=False)
        def count(value):
            sums = self._strategy.run(add, args=(value,))
            return self._strategy.experimental_local_results(sums)[0]

        return count
