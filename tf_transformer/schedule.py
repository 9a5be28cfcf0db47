"""The learning rate of "Attention Is All You Need"."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="tf_transformer")
class NoamSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """rate(n) = factor * d_model^-0.5 * min(n^-0.5, n * warmup_steps^-1.5)   (equation 3).

    n counts updates from 1; Keras passes the number of updates done, so n = step + 1. The rate
    rises linearly to its peak `factor * (d_model * warmup_steps)^-0.5` at n = warmup_steps, then
    falls with the square root of n.

    Args:
        d_model: width of the model.
        warmup_steps: updates until the peak, at least 1.
        factor: scales the whole curve; 1 in the paper.

    Raises:
        ValueError: an argument is not positive.
    """

    def __init__(self, d_model: int, warmup_steps: int = 4000, factor: float = 1.0):
        for name, value in (
            ("d_model", d_model),
            ("warmup_steps", warmup_steps),
            ("factor", factor),
        ):
            if not value > 0:
                raise ValueError(f"`{name}` must be positive. Received: {name}={value!r}")
        super().__init__()
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        self.factor = factor

    def __call__(self, step):
        update = ops.cast(step, "float32") + 1.0
        return (
            self.factor
            * self.d_model**-0.5
            * ops.minimum(ops.rsqrt(update), update * self.warmup_steps**-1.5)
        )

    def get_config(self):
        return {
            "d_model": self.d_model,
            "warmup_steps": self.warmup_steps,
            "factor": self.factor,
        }
