"""The probability of a given translation."""

from typing import TYPE_CHECKING, Any

from tf_transformer.tasks.task import TRUNCATED, Input, Output, Task

if TYPE_CHECKING:
    from tf_transformer.tasks.parts import Parts


def score(parts: "Parts", source: Any, target: Any) -> dict[str, Any]:
    """Returns the fields of `Scores` for each pair of a source and a target."""
    from tf_transformer.inference.scorer import score_pairs

    return score_pairs(parts.translator, source, target)._asdict()


SOURCE = Input("source", "string", "a sentence")
TARGET = Input("target", "string", "its translation")
SCORE_PAIR = Task(
    "score",
    "the log-probability of a given translation",
    (SOURCE, TARGET),
    (
        Output("log_prob", "float32", "log p(target, end | source) in nats"),
        Output("num_tokens", "int32", "number of tokens of the target and its end"),
        Output("token_log_probs", "float32", "that of each token, zeros after the end", rank=2),
        TRUNCATED,
    ),
    score,
    "score",
    options=(),
)
