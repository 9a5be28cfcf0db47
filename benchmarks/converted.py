"""Translations of a converted model in the toolkit that it was converted for.

    python -m benchmarks.converted --model-dir DIR --sentences F [--limit 1000] [--formats ...]

Converts the model to CTranslate2, Transformers and Marian (see `benchmarks.marian_program`),
translates the sentences there and here with greedy search and with a beam of 4 without length
penalty, and counts equal translations; those that are equal until the limit of 256 tokens cuts them
off, which programs count differently; ties, which are other translations whose log-probability
differs by at most 1e-4; and others: those where the translation of this project is more probable,
and those where it is less probable. Prints a table in Markdown.
"""

import argparse
import collections
import pathlib
import tempfile
from collections.abc import Callable
from typing import NamedTuple

import sentencepiece

BEAM_SIZES = (1, 4)
TIE = 1e-4
BATCH_SIZE = 32
MAX_LENGTH = 256  # in tokens; CTranslate2's default
# The characters of the last tokens before the limit.
CUT = 12
KINDS = ("equal", "equal until cut off", "tie", "here more probable", "here less probable")


class Found(NamedTuple):
    """A translation, its log-probability, and whether it was cut off."""

    text: str
    score: float
    is_cut: bool = False


def translate_here(model_dir: pathlib.Path, sentences: list[str], beam_size: int) -> list[Found]:
    """Translates with this project, to any length, as the others do."""
    import tensorflow as tf

    from tf_transformer import Translator

    translator = Translator.load(
        model_dir, beam_size=beam_size, length_penalty=0.0, max_length_constant=MAX_LENGTH
    )
    found = translator.translate(tf.constant(sentences))
    columns = zip(*(part.numpy()[:, 0].tolist() for part in found[:3]), strict=True)
    limit = translator.search.limit
    return [Found(text.decode(), score, length >= limit) for text, score, length in columns]


def load_ctranslate2(folder: pathlib.Path) -> Callable[[list[str], int], list[Found]]:
    """Returns a function that translates with CTranslate2."""
    import ctranslate2

    source, target = (
        sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        for side in ("source", "target")
    )
    translator = ctranslate2.Translator(str(folder))

    def translate(sentences, beam_size):
        results = translator.translate_batch(
            source.encode(sentences, out_type=str),
            beam_size=beam_size,
            length_penalty=0,
            return_scores=True,
            max_batch_size=BATCH_SIZE,
        )
        return [Found(target.decode_pieces(x.hypotheses[0]), x.scores[0]) for x in results]

    return translate


def load_transformers(folder: pathlib.Path) -> Callable[[list[str], int], list[Found]]:
    """Returns a function that translates with Transformers."""
    import torch
    from transformers import MarianMTModel, MarianTokenizer

    tokenizer = MarianTokenizer.from_pretrained(folder)
    model = MarianMTModel.from_pretrained(folder).eval()

    def translate(sentences, beam_size):
        found = []
        for start in range(0, len(sentences), BATCH_SIZE):
            batch = tokenizer(
                sentences[start : start + BATCH_SIZE], return_tensors="pt", padding=True
            )
            with torch.no_grad():
                output = model.generate(
                    **batch,
                    num_beams=beam_size,
                    do_sample=False,
                    length_penalty=0.0,
                    early_stopping=False,
                    output_scores=True,
                    return_dict_in_generate=True,
                )
            texts = tokenizer.batch_decode(
                output.sequences, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
            scores = model.compute_transition_scores(
                output.sequences,
                output.scores,
                getattr(output, "beam_indices", None),
                normalize_logits=True,
            )
            scores = torch.where(torch.isfinite(scores), scores, 0)
            is_real = output.sequences[:, 1:] != model.config.pad_token_id
            found += map(Found, texts, (scores * is_real).sum(1).tolist())
        return found

    return translate


def load_marian(folder: pathlib.Path) -> Callable[[list[str], int], list[Found]]:
    """Returns a function that translates with Marian.

    Raises:
        InputError: it is not installed.
    """
    from benchmarks.marian_program import is_installed, translate
    from tf_transformer.errors import InputError

    if not is_installed():
        raise InputError("pymarian is not installed, see benchmarks/marian_program.py")
    return lambda sentences, beam_size: [
        Found(*pair) for pair in translate(folder, sentences, beam_size)
    ]


LOADERS = {"ctranslate2": load_ctranslate2, "hf": load_transformers, "marian": load_marian}


def compare(ours: list[Found], theirs: list[Found]) -> collections.Counter[str]:
    """Counts the kinds of results, see the module."""
    counts: collections.Counter[str] = collections.Counter()
    for our, their in zip(ours, theirs, strict=True):
        if our.text == their.text:
            counts["equal"] += 1
        elif our.is_cut and _is_equal_until_end(our.text, their.text):
            counts["equal until cut off"] += 1
        elif abs(our.score - their.score) <= TIE:
            counts["tie"] += 1
        else:
            is_better = our.score > their.score
            counts["here more probable" if is_better else "here less probable"] += 1
    return counts


def _is_equal_until_end(one: str, other: str) -> bool:
    """Returns whether the shorter text, but for its last tokens, begins the longer one."""
    shorter, longer = sorted((one, other), key=len)
    return longer.startswith(shorter[:-CUT])


def main() -> None:
    """Converts the model, translates, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model-dir", type=pathlib.Path, required=True)
    parser.add_argument("--sentences", type=pathlib.Path, required=True)
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--formats", nargs="+", choices=LOADERS, default=list(LOADERS))
    options = parser.parse_args()
    from tf_transformer.errors import InputError
    from tf_transformer.formats.convert_model import convert_model

    sentences = options.sentences.read_text(encoding="utf-8").splitlines()[: options.limit]
    print(f"{len(sentences)} sentences\n\n| format | beam | {' | '.join(KINDS)} |")
    print("|---" * (2 + len(KINDS)) + "|")
    with tempfile.TemporaryDirectory() as work:
        for name in options.formats:
            load = LOADERS[name]
            folder = pathlib.Path(work) / name
            try:
                convert_model(options.model_dir, name, folder)
                translate = load(folder)
            except InputError as error:
                print(f"| `{name}` | {error} |" + " |" * len(KINDS))
                continue
            for beam_size in BEAM_SIZES:
                ours = translate_here(options.model_dir, sentences, beam_size)
                counts = compare(ours, translate(sentences, beam_size))
                cells = " | ".join(str(counts[kind]) for kind in KINDS)
                print(f"| `{name}` | {beam_size} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
