"""A random translation of a sentence."""

from typing import TYPE_CHECKING, Any

from tf_transformer.decoding.search_options import SAMPLING_OPTIONS
from tf_transformer.tasks.task import TEXT, TRANSLATION, TRUNCATED, Output, Task

if TYPE_CHECKING:
    from tf_transformer.tasks.parts import Parts


def sample(
    parts: "Parts", text: Any, temperature: Any, top_k: Any, top_p: Any, seed: Any
) -> dict[str, Any]:
    """Returns a sampled translation and its log-probability under the unmodified distribution."""
    import tensorflow as tf

    from tf_transformer.decoding.sampling import SamplingOptions
    from tf_transformer.inference.sampler import sample_translations

    options = SamplingOptions(temperature, top_k, top_p, seed, tf.zeros_like(top_k))
    found = sample_translations(parts.translator, text, options)
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
