"""The check that scores are finite: very large finite weights give infinite or NaN logits."""

import numpy as np

from tf_transformer.errors import InputError


def check_scores(scores: object) -> None:
    """Checks that the scores of the best outputs are finite.

    Args:
        scores: score of each sentence's best output, `(batch,)`.

    Raises:
        InputError: a score is NaN or infinite.
    """
    scores = np.asarray(scores, np.float64)
    num_invalid = scores.size - np.count_nonzero(np.isfinite(scores))
    if num_invalid:
        raise InputError(
            f"the model's logits are NaN or infinite for {num_invalid:,} of {scores.size:,} "
            "inputs; expected finite logits. The weights are too large, probably because training "
            "diverged. Use earlier weights"
        )
