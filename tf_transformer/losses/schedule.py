"""The learning rate of "Attention Is All You Need"."""

import keras
from keras import ops

from tf_transformer.errors import InputError


@keras.saving.register_keras_serializable(package="tf_transformer")
class NoamSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate schedule with warm-up and inverse square root decay   (equation 3).

    rate(n) = factor * d_model^-0.5 * min(n^-0.5, n * warmup_steps^-1.5)

    n is the update, counted from 1. Keras passes the number of finished updates, so n = step + 1.
    The rate rises linearly to its peak `factor * (d_model * warmup_steps)^-0.5` at
    n = warmup_steps, then falls with the square root of n.

    NiuTensor differs in two points: warm-up starts at `initial_rate` instead of 0,
    rate(n) + initial_rate * max(0, 1 - n / warmup_steps), and no rate is below `minimum_rate`.

    The defaults are those of the paper. `train` has other defaults (`OptimizationConfig`: 2,000 and
    2.0), since its runs are shorter by default.

    Args:
        d_model: width of the model.
        warmup_steps: number of updates until the peak, at least 1.
        factor: factor of the rate; 1 in the paper.
        initial_rate: rate at the start of warm-up; 0 in the paper.
        minimum_rate: lower bound of the rate; 0 in the paper.

    Raises:
        InputError: `d_model`, `warmup_steps` or `factor` is not positive, or a rate is negative.
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
