"""Engines compared from text to text: BLEU, speed, latency, memory and cold start.

    python -m benchmarks.engines --model-dir DIR [--model-dir DIR ...] --source F --reference F
        [--shortlist F] [--calibrate F] [--threads 1] [--beams 1 4] [--rounds 3] [--single 200]
        [--engines NAME ...] [--work DIR] [--json F] [--output-figure F]
    python -m benchmarks.engines --from F --output-figure F

Writes each model for each engine (`variants.py`), as far as the engine's format holds it. Then each
runs in a process of its own, pinned to as many processors as it has threads; the processes take
turns, so that changes in the machine's load affect all alike. Text goes in and text comes out, so
tokenization is included. All have a length penalty of 1, which each defines in its own way: without
one, translations with a beam are too short or empty. A line says what is left out and why. Prints a
table in Markdown with medians over the turns; the picture shows BLEU over words per second.
`--from` draws it and prints the table again from the JSON file. The status is 1 if a process has
failed.
"""

import argparse
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from benchmarks.engines.measurement import Case, measure
from benchmarks.engines.packages import versions
from benchmarks.engines.picture import draw
from benchmarks.engines.results import describe_environment, points, table
from benchmarks.engines.variants import FILES, VARIANTS, Request, Variant
from tf_transformer.errors import InputError
from tf_transformer.storage.json_files import read_json, write_json


def write_cases(
    options: argparse.Namespace, work: pathlib.Path, left_out: list[str]
) -> Iterator[Case]:
    """Writes the models and yields the cases.

    Args:
        options: the command line's.
        work: the folder to write to; models that an earlier run has written there are used.
        left_out: gets a line for each variant that cannot be measured.
    """
    files = {name: getattr(options, name) for name in FILES if getattr(options, name)}
    for name in options.engines:
        variant = VARIANTS[name]
        found = versions(variant.python, variant.packages)
        missing = [package for package, version in found.items() if version is None]
        if missing:
            left_out.append(f"{name}: {variant.python} lacks {', '.join(missing)}")
            continue
        needed = [f"--{file}" for file in variant.needs if file not in files]
        if needed:
            left_out.append(f"{name}: needs {' and '.join(needed)}")
            continue
        for model_dir in options.model_dir:
            for beam_size in options.beams:
                folder = work / model_dir.name / f"{name}, beam {beam_size}"
                case = Case(model_dir.name, name, beam_size, folder)
                print(f"writing {case}", file=sys.stderr, flush=True)
                try:
                    write(variant, Request(model_dir, folder, beam_size, files))
                except InputError as error:
                    left_out.append(f"{model_dir.name}, {name}: {error}")
                    break
                yield case


def write(variant: Variant, request: Request) -> None:
    """Writes a model unless its folder exists, which then is complete."""
    if request.folder.exists():
        return
    partial = request.folder.with_name(f"{request.folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    variant.write(request._replace(folder=partial))
    partial.rename(request.folder)


def run(options: argparse.Namespace, work: pathlib.Path) -> dict[str, Any]:
    """Measures, and returns the results."""
    sentences, references = (
        path.read_text(encoding="utf-8").splitlines()
        for path in (options.source, options.reference)
    )
    if len(sentences) != len(references) or not sentences:
        raise InputError(f"{len(sentences)} sentences have {len(references)} references")
    left_out: list[str] = []
    cases = list(write_cases(options, work, left_out))
    print("".join(f"left out: {line}\n" for line in left_out), flush=True)
    turns, failures = measure(cases, sentences, options.single, options.threads, options.rounds)
    found, signature = points(turns, sentences, references)
    return {
        "points": found,
        "bleu_signature": signature,
        "left_out": left_out,
        "failures": {str(case): message for case, message in failures.items()},
        "sentences": len(sentences),
        "single_sentences": min(options.single, len(sentences)),
        "threads": options.threads,
        "rounds": options.rounds,
        **describe_environment(),
    }


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model-dir", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--source", type=pathlib.Path, help="sentences, one a line")
    parser.add_argument("--reference", type=pathlib.Path, help="their translations, for BLEU")
    parser.add_argument("--shortlist", type=pathlib.Path, help="file of `train-shortlist`")
    parser.add_argument("--calibrate", type=pathlib.Path, help="text for `export --calibrate`")
    parser.add_argument("--threads", type=int, default=1, help="of each engine")
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--rounds", type=int, default=3, help="processes of each engine")
    parser.add_argument("--single", type=int, default=200, help="sentences translated one by one")
    parser.add_argument("--engines", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--work", type=pathlib.Path, help="keep the written models here")
    parser.add_argument("--json", type=pathlib.Path, help="write the results here")
    parser.add_argument("--output-figure", type=pathlib.Path, help=".png, .svg or .pdf")
    parser.add_argument("--from", type=pathlib.Path, dest="results", help="results to draw")
    return parser


def main() -> None:
    """Runs the benchmark."""
    parser = make_parser()
    options = parser.parse_args()
    if options.results:
        results = read_json(options.results)
    else:
        if not (options.model_dir and options.source and options.reference):
            parser.error("--model-dir, --source and --reference are required without --from")
        if len({path.name for path in options.model_dir}) < len(options.model_dir):
            parser.error("two of --model-dir have the same name, which identifies them")
        with tempfile.TemporaryDirectory() as work:
            results = run(options, options.work or pathlib.Path(work))
    if options.json and not options.results:
        write_json(options.json, results)
    print("\n".join(table(results["points"])), f"\nBLEU: {results['bleu_signature']}")
    if options.output_figure and results["points"]:
        draw(results["points"]).savefig(options.output_figure, dpi=150)
    for case in results["failures"]:
        print(f"failed, see above or in the results: {case}", file=sys.stderr)
    raise SystemExit(bool(results["failures"]))


if __name__ == "__main__":
    main()
