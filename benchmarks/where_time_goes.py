"""Profile of decoding: operations per step, and the share of each kernel (tf.profiler).

    python -m benchmarks.where_time_goes --model-dir DIR --sentences F [--preset base]
        [--batch 32] [--beam 4] [--dtype float32, bfloat16, int8 or int8-calibrated] [--threads 1]

The model is widened as in `decode.py`. 15 pieces of every sentence are translated to exactly 20.
"""

import argparse
import collections
import itertools
import pathlib

from benchmarks.kernels import kernel_table, kernel_times

SOURCE_LENGTH, TARGET_LENGTH = 15, 20
DTYPES = ("float32", "bfloat16", "int8", "int8-calibrated")
CALIBRATION_SENTENCES = 200
_FREE = {"Const", "Identity", "NoOp", "PartitionedCall", "StatefulPartitionedCall"}


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that `make_search` reads."""
    parser.add_argument("--model-dir", type=pathlib.Path, required=True)
    parser.add_argument("--sentences", type=pathlib.Path, required=True)
    parser.add_argument("--preset", default="base", help="'' for the model's own sizes")
    parser.add_argument("--dtype", default="float32", choices=DTYPES)


def calibrate(model, tokenizers, lines: list[str]) -> dict:
    """Returns the ranges of the inputs of a float32 model's products."""
    from tf_transformer.inference.calibration import Calibration

    sentences = tuple(line for line in lines if line.strip())[:CALIBRATION_SENTENCES]
    return Calibration(sentences).input_ranges(model, *tokenizers)


def make_search(options):
    """Returns a function of source ids and of the length of all outputs, and source ids."""
    import tensorflow as tf

    from benchmarks.widening import widen
    from tf_transformer import Transformer
    from tf_transformer.decoding.translation_options import TranslationOptions
    from tf_transformer.decoding.translation_search import TranslationSearch
    from tf_transformer.storage.model_dir import load_model, prepare_for_decoding

    model, *tokenizers = load_model(options.model_dir)
    model = widen(model, options.preset) if options.preset else model
    if options.dtype == "bfloat16":
        half = Transformer(model.config, dtype="bfloat16")
        half.set_weights(model.get_weights())
        model = half
    lines = options.sentences.read_text(encoding="utf-8").splitlines()
    ranges = None
    if options.dtype == "int8-calibrated":
        ranges = calibrate(model, tokenizers, lines)
    prepare_for_decoding(model, options.dtype.partition("-")[0], ranges)
    translation_search = TranslationSearch(model, beam_size=options.beam, length_penalty=0.0)
    rows = tokenizers[0].tokenize(tf.constant(lines)).to_list()
    rows = [row[:SOURCE_LENGTH] for row in rows if len(row) >= SOURCE_LENGTH]
    if not rows:
        raise SystemExit(f"{options.sentences}: no sentence has {SOURCE_LENGTH} pieces or more")
    rows = list(itertools.islice(itertools.cycle(rows), options.batch))
    ids = tf.ragged.constant(rows, tf.int32)

    @tf.function(autograph=False)
    def search(ids, length):
        lengths = tf.fill([options.batch], length)
        rows = TranslationOptions.defaults(options.batch)
        return translation_search.run(ids, rows._replace(max_length=lengths, min_length=lengths))

    return search, ids


def count_operations(function) -> collections.Counter:
    """Counts the operations in the body of the largest loop, including called functions."""
    graph = function.graph.as_graph_def()
    bodies = {body.signature.name: body for body in graph.library.function}

    def count(nodes):
        found = collections.Counter()
        for node in nodes:
            found[node.op] += node.op not in _FREE
            if node.op.endswith("PartitionedCall"):
                found += count(bodies[node.attr["f"].func.name].node_def)
        return found

    loops = [
        node.attr["body"].func.name
        for nodes in (graph.node, *(body.node_def for body in bodies.values()))
        for node in nodes
        if node.op in ("While", "StatelessWhile")
    ]
    return max((count(bodies[name].node_def) for name in loops), key=lambda found: found.total())


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_search_arguments(parser)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    search, ids = make_search(options)
    length = tf.constant(TARGET_LENGTH)
    search(ids, length)
    counts = count_operations(search.get_concrete_function(ids, length))
    most = ", ".join(f"{count} {kind}" for kind, count in counts.most_common(8))
    print(f"{counts.total()} operations per step, before TensorFlow's optimizer: {most}\n")
    times = kernel_times(lambda: search(ids, length))
    print("\n".join(kernel_table(times, 12)))


if __name__ == "__main__":
    main()
