"""Time of a search by the number of sentences that are decoded together.

    python -m benchmarks.chunks --model-dir M --source F [--sentences 500] [--preset base]
        [--beam-size 4] [--dtype int8] [--sizes 32 64 128 256] [--rounds 3]

With `--preset`, the model is widened to the preset's sizes with the same outputs (see
`widening.py`). Prints, in Markdown, the milliseconds for all sentences with each size, one thread,
in turn, as medians, and the median of the ratios to the first size.
"""

import argparse
import os
import pathlib
import statistics
import time


def make_translators(options: argparse.Namespace) -> dict:
    """Returns a translator for each size of a chunk, of the same model."""
    from benchmarks.widening import widen
    from tf_transformer.inference.translator import Translator
    from tf_transformer.storage.model_dir import load_model, prepare_for_decoding

    model, *tokenizers = load_model(options.model_dir)
    if options.preset:
        model = widen(model, options.preset)
    prepare_for_decoding(model, options.dtype)
    return {
        size: Translator(model, *tokenizers, beam_size=options.beam_size, chunk_size=size)
        for size in options.sizes
    }


def main() -> None:
    """Measures the sizes in turn and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model-dir", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--preset", default="")
    parser.add_argument("--beam-size", type=int, default=4)
    parser.add_argument("--dtype", choices=("float32", "int8"), default="float32")
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 64, 128, 256])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    lines = options.source.read_text(encoding="utf-8").splitlines()[: options.sentences]
    translators = make_translators(options)
    seconds: dict[int, list[float]] = {size: [] for size in options.sizes}
    for index in range(options.rounds + 1):  # the first round also traces
        for size in options.sizes[:: -1 if index % 2 else 1]:
            begin = time.perf_counter()
            translators[size](lines)
            seconds[size] += [time.perf_counter() - begin] * bool(index)
    print("| sentences together | ms | ratio |\n|---|---|---|")
    first = seconds[options.sizes[0]]
    for size, own in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(own, first, strict=True))
        print(f"| {size} | {1000 * statistics.median(own):.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
