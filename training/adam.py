"""Adam that clips and checks the gradient of the whole batch, under every strategy."""

from typing import Any

import keras
import tensorflow as tf


class Adam(keras.optimizers.Adam):
    """Adam (Kingma and Ba, 2015) with beta and epsilon of the paper, section 5.3.

    Gradients are summed over the replicas first. Then, with g that sum and |g| its global norm,

    g is not finite:  the update is skipped and counted; weights and moments stay as they are
    otherwise:        g * min(1, clip_norm / |g|) is applied

    A skipped update counts as a step for the learning rate, so that steps and batches stay in line.
    (Keras clips each replica's share before the sum, and lets an infinite gradient through.) Each
    variable is updated by one fused kernel.

    Args:
        learning_rate: a number or a schedule.
        clip_norm: largest global norm of an applied gradient; None sets no limit.

    Attributes:
        gradient_norm: |g| of the newest update, before clipping.
        skipped: updates skipped so far.
    """

    def __init__(self, learning_rate: Any, *, clip_norm: float | None = None):
        super().__init__(learning_rate, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
        self.clip_norm = clip_norm

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self.gradient_norm, self.skipped = (
            self.add_variable((), dtype=dtype, name=name, aggregation="only_first_replica")
            for name, dtype in (("gradient_norm", "float32"), ("skipped", "int64"))
        )

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        variables = [variable.value for variable in trainable_variables]
        grads = [tf.convert_to_tensor(grad) for grad in grads]  # those of look-ups are sparse
        pairs = self._all_reduce_sum_gradients(zip(grads, variables, strict=True))
        norm = tf.linalg.global_norm([grad for grad, _ in pairs])
        is_finite = tf.math.is_finite(norm)
        self.gradient_norm.assign(norm)
        self.skipped.assign_add(tf.cast(~is_finite, tf.int64))
        scale = 1.0 if self.clip_norm is None else self.clip_norm / tf.maximum(norm, self.clip_norm)
        scale = tf.where(is_finite, scale, 0.0)
        pairs = [(tf.math.multiply_no_nan(grad, scale), variable) for grad, variable in pairs]
        tf.__internal__.distribute.interim.maybe_merge_call(
            self._update_all, self._distribution_strategy, pairs, learning_rate, is_finite
        )

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
            lr=tf.where(is_finite, learning_rate, 0.0),
            beta1=beta_1,
            beta2=beta_2,
            epsilon=self.epsilon,
            grad=gradient,
        )
