"""Random translations of a sentence."""

from typing import TYPE_CHECKING, Any

from tf_transformer.decoding.search_options import EPSILON_OPTIONS, SAMPLING_OPTIONS
from tf_transformer.tasks.task import TEXT, TRANSLATION, TRUNCATED, Output, Task

if TYPE_CHECKING:
    from tf_transformer.tasks.parts import Parts


def sample(parts: "Parts", text: Any, **options: Any) -> dict[str, Any]:
    """Returns a sampled translation and its log-probability under the unmodified distribution."""
    import tensorflow as tf

    from tf_transformer.decoding.sampling import SamplingOptions
    from tf_transformer.inference.sampler import sample_translations

    given = {"top_k": None, "top_p": None, **options}
    max_length = tf.zeros_like(options["seed"], tf.int32)  # the translator's limit
    found = sample_translations(
        parts.translator, text, SamplingOptions(**given, max_length=max_length)
    )
    return {
        "translation": found.text,
        "log_prob": found.log_probs,
        "truncated": found.truncated,
    }


SAMPLE = Task(
    "sample",
    "a translation drawn at random",
    (TEXT,),
    (
        TRANSLATION._replace(description="the translation"),
        Output("log_prob", "float32", "log p(translation, end | text) in nats"),
        TRUNCATED,
    ),
    sample,
    with_options="sample",
    options=SAMPLING_OPTIONS,
)
SAMPLE_EPSILON = SAMPLE._replace(
    name="sample_epsilon",
    description="a translation drawn at random from the tokens above a probability",
    with_options="sample_epsilon",
    options=EPSILON_OPTIONS,
    is_optional=True,
)
