"""Finite weights can still be so large that what is computed with them is not finite."""

import numpy as np

from tf_transformer.errors import InputError


def check_scores(scores: object) -> None:
    """Refuses scores of best outputs that are NaN or infinite: such a model finds no output.

    Args:
        scores: log-probabilities of what a search found first, `(batch,)`.

    Raises:
        ValueError: one of them is not finite.
    """
    scores = np.asarray(scores, np.float64)
    number = scores.size - np.count_nonzero(np.isfinite(scores))
    if number:
        raise InputError(
            f"the model's logits are NaN or infinite for {number:,} of {scores.size:,} inputs, as "
            "with weights that are too large after a training that diverged; expected finite ones. "
            "Take earlier weights"
        )
