"""The check that scores are finite: very large finite weights give infinite or NaN logits."""

from typing import Any

import numpy as np

from tf_transformer.errors import InputError


def check_scores(scores: Any) -> None:
    """Checks that the scores of outputs are finite.

    Args:
        scores: the scores of each input, `(batch,)` or `(batch, ...)`.

    Raises:
        InputError: a score is NaN or infinite.
    """
    rows = scores if isinstance(scores, list) else np.asarray(scores)
    num_invalid = sum(not np.isfinite(row).all() for row in rows)
    if num_invalid:
        raise InputError(
            f"the model's logits are NaN or infinite for {num_invalid:,} of {len(rows):,} "
            "inputs; expected finite logits. The weights are too large, probably because training "
            "diverged. Use earlier weights"
        )
