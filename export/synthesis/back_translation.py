"""Back-translation: sources for target text, by a model of the reverse direction.

Sennrich et al., 2016. Sampled sources help more than the best ones where there is much text
(Edunov et al., 2018); a tag at the start tells the model which sources are synthetic (Caswell et
al., 2019).
"""

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from export.lines.line_results import ProcessLines, write_results
from export.synthesis.source_tags import tagged_lines
from export.synthesis.synthetic_folder import INCOMPLETE, begun, check_part, write_pairs
from tf_transformer.decoding.sampling import SamplingOptions
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.inference.sampler import sample_translations
from tf_transformer.inference.translator import Translator
from tf_transformer.storage.trained_models import TrainedModels
from tf_transformer.text.text_file import TextFile

_PART_NAME = "back.source"


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How sources are sampled, see `SamplingOptions`.

    Args:
        seed: seed of all samples; each line draws from it and its number.
        temperature: divisor of the logits.
        top_k: number of most probable tokens to draw from; 0 means all.
    """

    seed: int
    temperature: float = 1.0
    top_k: int = 0


@dataclasses.dataclass(frozen=True)
class BackTranslation:
    """What is translated back, and how.

    Args:
        models: the model, or the models of an ensemble, from the target to the source.
        text: text of the target language.
        search: the options of the beam search.
        sampling: how to sample instead of searching, or None.
        tag: put before each source, with a space; "" for none.
        languages: language tags to put before what the model reads, see `find_tags`; "" for none.
        dtype: see `load_for_decoding`.
    """

    models: TrainedModels
    text: TextFile
    search: dict[str, Any]
    sampling: Sampling | None = None
    tag: str = "<bt>"
    dtype: str = "float32"
    languages: str = ""

    def request(self, text_digest: str) -> dict[str, Any]:
        """Returns what the result depends on, as JSON values."""
        how = dataclasses.asdict(self.sampling) if self.sampling else self.search
        return {
            "weights_digest_blake2b": self.models.digest(),
            "text_digest_blake2b": text_digest,
            "tag": self.tag,
            "dtype": self.dtype,
            **({"languages": self.languages} if self.languages else {}),
            **how,
        }


def back_translate(
    back_translation: BackTranslation, folder: pathlib.Path, text_digest: str
) -> dict[str, int]:
    """Writes pairs of synthetic sources and the text, or resumes an interrupted call.

    Args:
        back_translation: what to translate.
        folder: the folder to write.
        text_digest: digest of the text.

    Returns:
        The number of pairs that were written, and of those with a blank side, or none because a
        line is longer than the model's limit.

    Raises:
        InputError: the folder belongs to another back-translation, a line is invalid or lacks the
            tags that the model needs, or the file of sources is not complete.
        OSError: a file cannot be written.
    """
    request = back_translation.request(text_digest)
    text, counts = back_translation.text, {INCOMPLETE: 0}
    with begun(folder, request):
        part = folder / _PART_NAME
        if not part.exists():
            write_results(text, part, lambda: _load(back_translation), request, "back-translating")
        check_part(part, text)

        def pairs() -> Iterator[tuple[str, str]]:
            for source, target in zip(TextFile(part).lines(), text.lines(), strict=True):
                if source.strip() and target.strip():
                    yield f"{back_translation.tag} {source}".lstrip(" "), target
                else:
                    counts[INCOMPLETE] += 1

        return {"written": write_pairs(folder, pairs())} | counts


def _load(back_translation: BackTranslation) -> ProcessLines:
    loaded = back_translation.models.load(back_translation.dtype)
    translator = Translator(*loaded, **back_translation.search)
    sampling = back_translation.sampling

    def tagged(lines, numbers):
        tags = back_translation.languages
        return tagged_lines(translator, lines, numbers, back_translation.text, tags)

    def search(lines, numbers):
        found = [best[0] for best in translator.translate_batch(tagged(lines, numbers))]
        check_scores([best.score for best in found])
        return ["" if best.truncated else best.text for best in found]

    if sampling is None:
        return search

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int64)],
        autograph=False,
    )
    def draw(lines, seeds):
        rows = tf.shape(lines)[0]
        options = SamplingOptions(
            temperature=tf.fill([rows], sampling.temperature),
            top_k=tf.fill([rows], sampling.top_k) if sampling.top_k else None,
            top_p=None,
            seed=seeds,
            max_length=tf.zeros([rows], tf.int32),
        )
        found = sample_translations(translator, lines, options)
        return tf.where(found.truncated, "", found.text), found.log_probs

    def sample(lines, numbers):
        # Equal lines draw differently, and a resumed run draws the same.
        seeds = [(sampling.seed << 40) + number for number in numbers]
        texts, log_probs = draw(tf.constant(tagged(lines, numbers)), tf.constant(seeds, tf.int64))
        check_scores(log_probs.numpy().tolist())
        return [text.decode() for text in texts.numpy()]

    return sample
