"""Decoding speed of the exported SavedModel compared with other engines, with the same weights.

    python -m benchmarks.decode --model-dir DIR --sentences F [--preset base] [--batches 1 8 32 128]
        [--beams 1 4] [--threads 1 2] [--rounds 5] [--natural 1000] [--single 200] [--systems ...]

The model, a small trained one, is widened to the preset's sizes with the same outputs (see
`widening.py`), so that hypotheses and lengths are those of real translations. First, the initial
15 pieces of the sentences are translated to exactly 20; then `--natural` whole sentences until
their translations end, and `--single` sentences one by one. `SavedModel float32, XLA` compiles for
all these batches, see `CompiledSearch`. Every system runs in its own process for each number of
threads. For each case the systems run alternately, so that changes in the machine's load affect all
alike. Prints tables in Markdown with medians at each system's best number of threads.
"""

import argparse
import importlib.util
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import tqdm

from benchmarks.worker_process import WorkerProcess

SOURCE_LENGTH, TARGET_LENGTH = 15, 20
MAX_COMPILED = 32  # sentences
MARIAN = "Marian, Transformers"
# Name: worker, dtype, maximum number of hypotheses at once (larger cases take too long).
SYSTEMS = {
    "SavedModel float32": ("tensorflow", "float32", None),
    "SavedModel float32, XLA": ("tensorflow", "xla", 256),
    "SavedModel bfloat16": ("tensorflow", "bfloat16", None),
    "SavedModel int8": ("tensorflow", "int8", None),
    "SavedModel int8, calibrated": ("tensorflow", "int8-calibrated", None),
    "CTranslate2 float32": ("ctranslate2", "float32", None),
    "CTranslate2 int8": ("ctranslate2", "int8", None),
    MARIAN: ("marian", "float32", 128),
    "without a cache": ("uncached", "float32", 8),
}
NATURAL = [name for name in SYSTEMS if name.startswith(("SavedModel", "CTranslate2"))]


def write_models(options: argparse.Namespace) -> None:
    """Writes the models and the sources; run in a separate process, which frees its memory."""
    import tensorflow as tf

    from benchmarks.where_time_goes import calibrate
    from benchmarks.widening import widen
    from export.saved_model.graph_options import without_graph_optimizer
    from export.saved_model.saved_model import write_graph
    from export.saved_model.signatures import ServedTranslator
    from tf_transformer import Transformer
    from tf_transformer.formats.writers.ctranslate2_writer import save_ctranslate2
    from tf_transformer.inference.translator import Translator
    from tf_transformer.storage.model_dir import dtype_to_load, load_model, prepare_for_decoding

    directory = options.write
    trained, *tokenizers = load_model(options.model_dir)
    model = widen(trained, options.preset) if options.preset else trained
    sentences = options.sentences.read_text(encoding="utf-8").splitlines()
    rows = tokenizers[0].tokenize(tf.constant(sentences)).to_list()
    description = {"config": model.get_config(), "rows": rows}
    (directory / "model.json").write_text(json.dumps(description))
    model.save_weights(directory / "model.weights.h5")
    pieces = ["<pad>", "<unk>", "<s>", "</s>"]
    pieces += [f"p{number}" for number in range(4, model.config.target_vocab_size)]
    weights = {x.path.partition("/")[2]: np.asarray(x, "float32") for x in model.weights}
    for kind, quantization in (("float32", None), ("int8", "int8")):
        path = directory / f"ctranslate2-{kind}"
        path.mkdir()
        save_ctranslate2(model.config, weights, pieces, pieces, path, quantization)
    for kind, dtype in (
        ("float32", "float32"),
        ("xla", "float32"),
        ("bfloat16", "bfloat16"),
        ("int8", "int8"),
        ("int8-calibrated", "int8"),
    ):
        systems = [name for name, (_, its_kind, _) in SYSTEMS.items() if its_kind == kind]
        if options.systems and not set(systems) & set(options.systems):
            continue
        own = Transformer(model.config, dtype=dtype_to_load(dtype))
        own.set_weights(model.get_weights())
        ranges = calibrate(own, tokenizers, sentences) if "calibrated" in kind else None
        prepare_for_decoding(own, dtype, ranges)
        for beam_size in options.beams:
            translator = Translator(
                own,
                *tokenizers,
                beam_size=beam_size,
                length_penalty=0.0,
                chunk_size=options.chunk_size,
                compiled_shapes=compiled_shapes(options) if kind == "xla" else (),
            )
            with without_graph_optimizer():
                served = ServedTranslator(translator, ["tokens_options"])
                write_graph(served, own, directory / f"{kind}-beam{beam_size}")


def compiled_shapes(options: argparse.Namespace) -> list[tuple[int, int]]:
    """Returns the numbers of sentences and of source tokens that XLA compiles for."""
    sizes = {(batch, SOURCE_LENGTH + 1) for batch in options.batches if batch <= MAX_COMPILED}
    rows = [1] * bool(options.single) + [options.chunk_size] * bool(options.natural)
    return sorted(sizes | set(itertools.product(rows, (16, 32, 64))))


class Worker:
    """A system in its own process."""

    def __init__(self, name: str, threads: int, options: argparse.Namespace):
        self.name, self.threads, self.memory = name, threads, 0
        kind, dtype, self.most = SYSTEMS[name]
        words = [sys.executable, "-m", "benchmarks.decode_worker", kind, dtype, str(threads)]
        words += [str(options.write), str(options.chunk_size)]
        self._process = WorkerProcess(name, words)

    def run(self, case: dict) -> tuple[float, list[list[int]]]:
        """Returns the seconds that the case took, and the target ids of every row."""
        answer = self._process.ask(case)
        self.memory = answer["memory"]
        wrong = {len(ids) for ids in answer["ids"]} - {case["length"]}
        if case["length"] and wrong:
            raise RuntimeError(f"{self.name}: expected {case['length']} tokens, got {wrong}")
        return answer["seconds"], answer["ids"]

    def close(self) -> None:
        self._process.close()


def measure(workers: list[Worker], cases: list[dict], rounds: int) -> tuple[dict, dict]:
    """Returns seconds by (system, threads, case), and the last outputs by (system, case)."""
    seconds, outputs = {}, {}
    steps = list(itertools.product(cases, range(rounds + 1)))
    for case, round_index in tqdm.tqdm(steps, unit=" rounds", disable=None):
        for worker in workers:
            if worker.most and len(case["rows"]) * case["beam_size"] > worker.most:
                continue
            time, outputs[worker.name, case["name"]] = worker.run(case)
            if round_index:  # the first round is a warm-up
                key = worker.name, worker.threads, case["name"]
                seconds.setdefault(key, []).append(time)
    return seconds, outputs


def table(seconds: dict, cases: list[dict], workers: list[Worker]) -> list[str]:
    """Returns a table of medians in milliseconds at the best number of threads, and memory."""
    lines = ["| ms | " + " | ".join(case["name"] for case in cases) + " | memory |"]
    lines.append("|---" * (len(cases) + 2) + "|")
    for name in dict.fromkeys(worker.name for worker in workers):
        cells = []
        for case in cases:
            medians = {
                threads: statistics.median(times)
                for (system, threads, case_name), times in seconds.items()
                if (system, case_name) == (name, case["name"])
            }
            best = min(medians, key=medians.get, default=None)
            cells.append(f"{1000 * medians[best]:.0f} ({best})" if medians else "-")
        memory = min(worker.memory for worker in workers if worker.name == name)
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {memory / 2**20:.0f} MB |")
    return lines


def percentiles(seconds: dict, cases: list[dict], workers: list[Worker]) -> list[str]:
    """Returns a table of the 50th and 99th percentile of the cases' medians, in milliseconds."""
    lines = ["| | threads | p50 ms | p99 ms |", "|---|---|---|---|"]
    for worker in workers:
        times = [
            1000 * statistics.median(seconds[worker.name, worker.threads, case["name"]])
            for case in cases
        ]
        p50, p99 = np.percentile(times, [50, 99])
        lines.append(f"| {worker.name} | {worker.threads} | {p50:.1f} | {p99:.1f} |")
    return lines


def agreement(outputs: dict, case: dict) -> list[str]:
    """Returns how many outputs of each system equal those of CTranslate2 in float32."""
    expected = outputs.get(("CTranslate2 float32", case["name"]))
    lines: list[str] = []
    if expected is None:
        return lines
    for (name, case_name), found in outputs.items():
        if case_name == case["name"]:
            same = sum(ours == theirs for ours, theirs in zip(found, expected, strict=True))
            lines.append(f"{name}: {same} of {len(expected)} outputs equal to CTranslate2 float32")
    return lines


def installed() -> list[str]:
    """Returns the names of the installed systems."""
    if all(importlib.util.find_spec(name) for name in ("torch", "transformers")):
        return list(SYSTEMS)
    print(f'{MARIAN} is left out: it needs pip install -e ".[dev,parity]".\n')
    return [name for name in SYSTEMS if name != MARIAN]


def run(options: argparse.Namespace) -> None:
    """Measures all systems and prints the tables."""
    rows = json.loads((options.write / "model.json").read_text())["rows"]
    long = [row[:SOURCE_LENGTH] for row in rows if len(row) >= SOURCE_LENGTH]
    fixed = [
        {
            "name": f"batch {batch}, beam {beam_size}",
            "rows": list(itertools.islice(itertools.cycle(long), batch)),
            "beam_size": beam_size,
            "length": TARGET_LENGTH,
        }
        for batch in options.batches
        for beam_size in options.beams
    ]
    name = f"{options.natural} sentences, beam {options.beams[-1]}"
    beam_size = options.beams[-1]
    whole = {"name": name, "rows": rows[: options.natural], "beam_size": beam_size, "length": 0}
    workers = [
        Worker(name, threads, options)
        for name in installed()
        if not options.systems or name in options.systems
        for threads in options.threads
    ]
    seconds, _ = measure(workers, fixed, options.rounds)
    print("\n".join(table(seconds, fixed, workers)), flush=True)
    if options.natural:
        chosen = [worker for worker in workers if worker.name in NATURAL]
        seconds, outputs = measure(chosen, [whole], max(1, options.rounds // 2))
        print("\n".join(["", *table(seconds, [whole], chosen), "", *agreement(outputs, whole)]))
    for beam_size in options.beams if options.single else ():
        chosen = [worker for worker in workers if worker.name in NATURAL]
        cases = [
            {"name": f"{beam_size}, {index}", "rows": [row], "beam_size": beam_size, "length": 0}
            for index, row in enumerate(rows[: options.single])
        ]
        seconds, _ = measure(chosen, cases, options.rounds)
        print(f"\n{len(cases)} single sentences, beam {beam_size}:\n")
        print("\n".join(percentiles(seconds, cases, chosen)), flush=True)
    for worker in workers:
        worker.close()


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model-dir", type=pathlib.Path, required=True)
    parser.add_argument("--sentences", type=pathlib.Path, required=True)
    parser.add_argument("--preset", default="base", help="'' for the model's own sizes")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8, 32, 128])
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--natural", type=int, default=1000)
    parser.add_argument("--single", type=int, default=200)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, help="default: all")
    parser.add_argument("--chunk-size", type=int, default=32, help="sentences decoded together")
    parser.add_argument("--write", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write_models(options)
        return
    with tempfile.TemporaryDirectory() as directory:
        options.write = pathlib.Path(directory)
        words = [sys.executable, "-m", "benchmarks.decode", *sys.argv[1:], "--write", directory]
        subprocess.run(words, check=True)
        run(options)


if __name__ == "__main__":
    main()
