"""The learning rate of "Attention Is All You Need"."""

import keras
from keras import ops

from tf_transformer.errors import InputError


@keras.saving.register_keras_serializable(package="tf_transformer")
class NoamSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """rate(n) = factor * d_model^-0.5 * min(n^-0.5, n * warmup_steps^-1.5)   (equation 3).

    n counts updates from 1; Keras passes the number of updates done, so n = step + 1. The rate
    rises linearly to its peak `factor * (d_model * warmup_steps)^-0.5` at n = warmup_steps, then
    falls with the square root of n.

    NiuTensor's program begins and ends elsewhere: the rise starts at `initial_rate` instead of 0,
    rate(n) + initial_rate * max(0, 1 - n / warmup_steps), and no rate is below `minimum_rate`.

    Args:
        d_model: width of the model.
        warmup_steps: updates until the peak, at least 1.
        factor: scales the whole curve; 1 in the paper.
        initial_rate: where the rise starts; 0 in the paper.
        minimum_rate: where the fall ends; 0 in the paper.

    Raises:
        ValueError: one of the first three is not positive, or one of the rates negative.
    """

    def __init__(
        self,
        d_model: int,
        warmup_steps: int = 4000,
        factor: float = 1.0,
        initial_rate: float = 0.0,
        minimum_rate: float = 0.0,
    ):
        for name, value in (
            ("d_model", d_model),
            ("warmup_steps", warmup_steps),
            ("factor", factor),
        ):
            if not value > 0:
                raise InputError(f"`{name}` must be positive. Received: {name}={value!r}")
        for name, value in (("initial_rate", initial_rate), ("minimum_rate", minimum_rate)):
            if not value >= 0:
                raise InputError(f"`{name}` must not be negative. Received: {name}={value!r}")
        super().__init__()
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        self.factor = factor
        self.initial_rate = initial_rate
        self.minimum_rate = minimum_rate

    def __call__(self, step):
        update = ops.cast(step, "float32") + 1.0
        rate = (
            self.factor
            * self.d_model**-0.5
            * ops.minimum(ops.rsqrt(update), update * self.warmup_steps**-1.5)
        )
        rate = rate + self.initial_rate * ops.relu(1.0 - update / self.warmup_steps)
        return ops.maximum(rate, self.minimum_rate)

    def get_config(self):
        return {
            "d_model": self.d_model,
            "warmup_steps": self.warmup_steps,
            "factor": self.factor,
            "initial_rate": self.initial_rate,
            "minimum_rate": self.minimum_rate,
        }
