"""Adam with clipping, loss scaling and weight averages, for every distribution strategy."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from tf_transformer.private_interfaces import merge_call

# Loss scaling in float16, with the constants of Keras' `LossScaleOptimizer`.
_INITIAL_SCALE = 2.0**15
_SCALE_GROWTH_STEPS = 2000


class Adam(keras.optimizers.Adam):
    """Adam (Kingma and Ba, 2015) with the betas and epsilon of the paper, section 5.3.

    Gradients are first summed over the replicas. With g that sum and |g| its global norm,

    g is not finite:  the update is skipped and counted; weights and moments are unchanged
    otherwise:        g * min(1, clip_norm / |g|) is applied

    A skipped update counts as a step of the schedule, so that steps and batches correspond. (Keras
    clips each replica's gradient before the sum, and applies infinite gradients.) Each variable is
    updated by one fused kernel.

    With `average_decay`, each variable w has an average w', which update t changes to

    w' <- d w' + (1 - d) w,    d = min(average_decay, (1 + t) / (10 + t))

    In float16, gradients below 6e-8 underflow to zero: the caller multiplies the loss by
    `loss_scale`, and the optimizer divides the gradients by it. The scale is halved after every
    update that is not finite, and doubled after 2,000 finite ones in a row (Micikevicius et al.,
    2018, section 3.2).

    Args:
        learning_rate: a number or a schedule.
        clip_norm: maximum global norm of the applied gradient; None sets no limit.
        average_decay: upper bound of d in the equation above; None keeps no averages.
        scales_loss: whether `loss_scale` is adapted; otherwise it is always 1.

    Attributes:
        gradient_norm: |g| of the most recent update, before clipping.
        skipped: number of updates skipped so far.
        averages: w' of each variable; empty without `average_decay`.
        loss_scale: factor by which to multiply the loss of the next update.
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
            self.loss_scale.assign(_INITIAL_SCALE)
            self._finite_in_a_row = self._scalar("finite_in_a_row", "int64")
        else:
            self.loss_scale = 1.0
        self.averages = []
        if self.average_decay is not None:
            self.averages = [
                self.add_variable_from_reference(variable, "average", initializer="zeros")
                for variable in variables
            ]
        self.reset_averages(variables)

    def _scalar(self, name, dtype):
        return self.add_variable((), dtype=dtype, name=name, aggregation="only_first_replica")

    def reset_averages(self, variables: list[keras.Variable]) -> None:
        """Sets the averages, if any, to the current values of the variables."""
        for variable, average in zip(variables, self.averages, strict=bool(self.averages)):
            average.assign(variable)

    @contextlib.contextmanager
    def averaged_weights(self, variables: list[keras.Variable]) -> Iterator[None]:
        """Sets the variables to their averages, if any, and restores them on exit."""
        saved = [tf.identity(variable.value) for variable in variables] if self.averages else []
        for variable, average in zip(variables, self.averages, strict=bool(saved)):
            variable.assign(average)
        try:
            yield
        finally:
            for variable, value in zip(variables, saved, strict=bool(saved)):
                variable.assign(value)

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        variables = [variable.value for variable in trainable_variables]
        grads = [tf.convert_to_tensor(grad) for grad in grads]  # look-ups have `IndexedSlices`
        pairs = self._all_reduce_sum_gradients(zip(grads, variables, strict=True))
        norm = tf.linalg.global_norm([grad for grad, _ in pairs]) / self.loss_scale
        is_finite = tf.math.is_finite(norm)
        self.gradient_norm.assign(norm)
        self.skipped.assign_add(tf.cast(~is_finite, tf.int64))
        scale = 1.0 if self.clip_norm is None else self.clip_norm / tf.maximum(norm, self.clip_norm)
        scale = tf.where(is_finite, scale / self.loss_scale, 0.0)
        if self.scales_loss:
            self._update_loss_scale(is_finite)
        pairs = [(tf.math.multiply_no_nan(grad, scale), variable) for grad, variable in pairs]
        merge_call(self._update_all, self._distribution_strategy, pairs, learning_rate, is_finite)

    def _update_loss_scale(self, is_finite):
        in_a_row = tf.where(is_finite, self._finite_in_a_row + 1, 0)
        grows = in_a_row >= _SCALE_GROWTH_STEPS
        self._finite_in_a_row.assign(tf.where(grows, tf.zeros_like(in_a_row), in_a_row))
        factor = tf.where(is_finite, tf.where(grows, 2.0, 1.0), 0.5)
        self.loss_scale.assign(tf.maximum(self.loss_scale * factor, 1.0))

    def _update_all(self, strategy, pairs, learning_rate, is_finite):
        for gradient, variable in pairs:
            strategy.extended.update(
                variable, self._update, args=(gradient, learning_rate, is_finite), group=False
            )

    def _update(self, variable, gradient, learning_rate, is_finite):
        """Applies Adam to one variable.

        A skipped update gets learning rate 0, betas 1 and gradient 0, which change nothing.
        """
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
