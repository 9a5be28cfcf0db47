"""Adam that clips and checks the gradient of the whole batch, under every strategy."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from tf_transformer.private_interfaces import merge_call

# Of the loss in float16: Keras' numbers.
_FIRST_SCALE = 2.0**15
_RAISE_AFTER = 2000


class Adam(keras.optimizers.Adam):
    """Adam (Kingma and Ba, 2015) with beta and epsilon of the paper, section 5.3.

    Gradients are summed over the replicas first. Then, with g that sum and |g| its global norm,

    g is not finite:  the update is skipped and counted; weights and moments stay as they are
    otherwise:        g * min(1, clip_norm / |g|) is applied

    A skipped update counts as a step for the learning rate, so that steps and batches stay in line.
    (Keras clips each replica's share before the sum, and lets an infinite gradient through.) Each
    variable is updated by one fused kernel.

    With an average, a copy w' of each variable w follows it, after update t with

    w' <- d w' + (1 - d) w,    d = min(average_decay, (1 + t) / (10 + t))

    In float16, gradients below 6e-8 vanish: the caller multiplies the loss by `loss_scale`, and
    gradients are divided by it here. It is halved with every update that is not finite, and doubled
    after 2,000 finite ones (Micikevicius et al., 2018, section 3.2).

    Args:
        learning_rate: a number or a schedule.
        clip_norm: largest global norm of an applied gradient; None sets no limit.
        average_decay: see above; None keeps no average.
        scales_loss: whether `loss_scale` moves; otherwise it stays 1.

    Attributes:
        gradient_norm: |g| of the newest update, before clipping.
        skipped: updates skipped so far.
        averages: w' of each variable; empty without an average.
        loss_scale: what the loss of the next update is to be multiplied by.
    """

    def __init__(
        self,
        learning_rate: Any,
        *,
        clip_norm: float | None = None,
        average_decay: float | None = None,
        scales_loss: bool = False,
    ):
        super().__init__(learning_rate, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
        self.clip_norm = clip_norm
        self.average_decay = average_decay
        self.scales_loss = scales_loss

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self.gradient_norm = self._scalar("gradient_norm", "float32")
        self.skipped = self._scalar("skipped", "int64")
        if self.scales_loss:
            self.loss_scale = self._scalar("loss_scale", "float32")
            self.loss_scale.assign(_FIRST_SCALE)
            self._finite_in_a_row = self._scalar("finite_in_a_row", "int64")
        else:
            self.loss_scale = 1.0
        self.averages = []
        if self.average_decay is not None:
            self.averages = [
                self.add_variable_from_reference(variable, "average", initializer="zeros")
                for variable in variables
            ]
        self.restart_averages(variables)

    def _scalar(self, name, dtype):
        return self.add_variable((), dtype=dtype, name=name, aggregation="only_first_replica")

    def restart_averages(self, variables: list[keras.Variable]) -> None:
        """Lets the averages, if there are any, start from what the variables are now."""
        for variable, average in zip(variables, self.averages, strict=bool(self.averages)):
            average.assign(variable)

    @contextlib.contextmanager
    def averaged_weights(self, variables: list[keras.Variable]) -> Iterator[None]:
        """Gives the variables their averages for a while, if there are any."""
        kept = [tf.identity(variable.value) for variable in variables] if self.averages else []
        for variable, average in zip(variables, self.averages, strict=bool(kept)):
            variable.assign(average)
        try:
            yield
        finally:
            for variable, value in zip(variables, kept, strict=bool(kept)):
                variable.assign(value)

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        variables = [variable.value for variable in trainable_variables]
        grads = [tf.convert_to_tensor(grad) for grad in grads]  # those of look-ups are sparse
        pairs = self._all_reduce_sum_gradients(zip(grads, variables, strict=True))
        norm = tf.linalg.global_norm([grad for grad, _ in pairs]) / self.loss_scale
        is_finite = tf.math.is_finite(norm)
        self.gradient_norm.assign(norm)
        self.skipped.assign_add(tf.cast(~is_finite, tf.int64))
        scale = 1.0 if self.clip_norm is None else self.clip_norm / tf.maximum(norm, self.clip_norm)
        scale = tf.where(is_finite, scale / self.loss_scale, 0.0)
        if self.scales_loss:
            self._move_scale(is_finite)
        pairs = [(tf.math.multiply_no_nan(grad, scale), variable) for grad, variable in pairs]
        merge_call(self._update_all, self._distribution_strategy, pairs, learning_rate, is_finite)

    def _move_scale(self, is_finite):
        in_a_row = tf.where(is_finite, self._finite_in_a_row + 1, 0)
        is_time = in_a_row >= _RAISE_AFTER
        self._finite_in_a_row.assign(tf.where(is_time, tf.zeros_like(in_a_row), in_a_row))
        factor = tf.where(is_finite, tf.where(is_time, 2.0, 1.0), 0.5)
        self.loss_scale.assign(tf.maximum(self.loss_scale * factor, 1.0))

    def _update_all(self, strategy, pairs, learning_rate, is_finite):
        for gradient, variable in pairs:
            strategy.extended.update(
                variable, self._update, args=(gradient, learning_rate, is_finite), group=False
            )

    def _update(self, variable, gradient, learning_rate, is_finite):
        """With rate 0, betas 1 and gradient 0, what a skipped update gets, nothing moves."""
        index = self._get_variable_index(variable)
        beta_1, beta_2 = (tf.where(is_finite, beta, 1.0) for beta in (self.beta_1, self.beta_2))
        updates = tf.cast(self.iterations.value, tf.float32) + 1.0
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=tf.pow(self.beta_1, updates),
            beta2_power=tf.pow(self.beta_2, updates),
            lr=tf.where(is_finite, tf.cast(learning_rate, tf.float32), 0.0),
            beta1=beta_1,
            beta2=beta_2,
            epsilon=self.epsilon,
            grad=gradient,
        )
        if self.averages:
            decay = tf.minimum(self.average_decay, (1.0 + updates) / (10.0 + updates))
            average = self.averages[index].value
            tf.raw_ops.AssignSubVariableOp(
                resource=average.handle,
                value=(1.0 - decay) * (average.read_value() - variable.read_value()),
            )
