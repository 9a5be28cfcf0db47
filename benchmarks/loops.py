"""Time of an export whose loops are calls of functions, and of one whose loops are part of a graph.

    python -m benchmarks.loops --model-dir M --source F [--width 512] [--layers 2] [--dtype int8]
        [--sentences 64] [--rounds 5]

With `--width`, the model is widened to that many features with the same outputs (see
`widening.py`). Prints, in Markdown, the milliseconds of a sentence, alone and in batches of 32, one
thread, in turn, as medians, and the median of the ratios. A session runs the SavedModel, as in
TF Serving.
"""

import argparse
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable

BATCHES = (1, 32)


def write_exports(options: argparse.Namespace, folder: pathlib.Path) -> list[pathlib.Path]:
    """Writes the SavedModel with loops that are calls, and with others."""
    from benchmarks.widening import widen
    from export.saved_model.graph_options import without_graph_optimizer
    from export.saved_model.graph_simplification import simplify_saved_model
    from export.saved_model.signatures import ServedTranslator
    from tf_transformer.inference.translator import Translator
    from tf_transformer.storage.model_dir import dtype_to_load, load_model, prepare_for_decoding
    from tf_transformer.storage.saved_model import write_saved_model

    dtype = "float32" if options.width else dtype_to_load(options.dtype)
    model, *tokenizers = load_model(options.model_dir, dtype)
    if options.width:
        width, layers = options.width, options.layers
        model = widen(
            model, "base", d_model=width, d_ff=4 * width, num_heads=max(4, width // 64),
            num_encoder_layers=layers, num_decoder_layers=layers,
        )  # fmt: skip
    prepare_for_decoding(model, options.dtype)
    translator = Translator(model, *tokenizers)
    folders = [folder / name for name in ("calls", "graph")]
    with without_graph_optimizer():
        served = ServedTranslator(translator, ["serving_default"])
        for path in folders:
            write_saved_model(served, path, served.functions)
            simplify_saved_model(path, loops_are_calls=path.name == "calls")
    return folders


def load(folder: pathlib.Path) -> Callable[[list[bytes]], object]:
    """Returns the signature of a SavedModel, run in a session with one thread."""
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1)
    config.inter_op_parallelism_threads = 1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
    with session.graph.as_default():
        saved = tf.compat.v1.saved_model.load(session, ["serve"], str(folder))
    signature = saved.signature_def["serving_default"]
    fetches = {name: tensor.name for name, tensor in signature.outputs.items()}
    (text,) = (tensor.name for tensor in signature.inputs.values())
    return lambda lines: session.run(fetches, {text: lines})


def main() -> None:
    """Measures both exports in turn and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model-dir", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--width", type=int, default=0)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--dtype", choices=("float32", "int8"), default="float32")
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    lines = options.source.read_bytes().splitlines()[: options.sentences]
    with tempfile.TemporaryDirectory() as folder:
        runs = [load(path) for path in write_exports(options, pathlib.Path(folder))]
    print("| sentences at a time | calls: ms a sentence | in the graph | ratio |")
    print("|---|---|---|---|")
    for size in BATCHES:
        seconds: list[list[float]] = [[], []]
        for index in range(options.rounds + 1):  # the first round also prepares the graph
            for run, own in list(zip(runs, seconds, strict=True))[:: -1 if index % 2 else 1]:
                begin = time.perf_counter()
                for start in range(0, len(lines), size):
                    run(lines[start : start + size])
                own += [time.perf_counter() - begin] * bool(index)
        ratio = statistics.median(calls / graph for calls, graph in zip(*seconds, strict=True))
        times = (1000 * statistics.median(own) / len(lines) for own in seconds)
        print("| {} | {:.2f} | {:.2f} | {:.2f} |".format(size, *times, ratio))


if __name__ == "__main__":
    main()
