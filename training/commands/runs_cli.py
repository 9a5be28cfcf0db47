"""The command that tabulates model directories: runs."""

import argparse
from typing import NamedTuple

from tf_transformer.command_line.command_options import file_path, folder
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.command_line.standard_streams import standard_output
from tf_transformer.errors import InputError
from tf_transformer.printable import printable
from tf_transformer.storage.files import check_writable, replacing
from tf_transformer.storage.json_files import write_json
from tf_transformer.storage.output_files import check_output_file
from training.report.options import add_report, check_report


class _Column(NamedTuple):
    """A metric as a column: its name in stored scores, title, decimals, and when it is shown."""

    name: str
    title: str
    digits: int = 2
    is_always_shown: bool = False


_METRIC_COLUMNS = (
    _Column("bleu", "BLEU", is_always_shown=True),
    _Column("chrf", "chrF", is_always_shown=True),
    _Column("chrf++", "chrF++"),
    _Column("ter", "TER"),
    _Column("comet", "COMET", digits=4),
    _Column("exact", "exact", is_always_shown=True),
    _Column("perplexity", "ppl", is_always_shown=True),
)
_SETTINGS = ("dtype", "bleu_signature")


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `runs`."""
    parser = commands.add_parser(
        "runs",
        help="tabulate model directories: sizes, steps, validation, scores",
        description="Finds the model directories in and below folders, and shows for each its "
        "sizes, the progress of its training, the last validation, and the scores that `evaluate` "
        "has stored; * marks scores of weights that have been replaced since.",
    )
    parser.add_argument("folders", nargs="+", type=folder, metavar="DIR", help="folders to search")
    parser.add_argument("--json", type=file_path, metavar="F", help="write everything as JSON")
    add_report(
        parser, "one .html file with curves, settings that differ, samples and attention maps"
    )
    parser.set_defaults(run=_run)


def _run(options):
    if options.json:
        check_writable(options.json)
    else:
        standard_output()
    check_report(options)
    if options.report and options.report == options.json:
        raise InputError(f"--report {options.report} is also --json; give another one")
    import tqdm

    from training.evaluation.runs import find_model_dirs, read_run

    paths = list(find_model_dirs(options.folders))
    for name in ("json", "report"):
        if path := getattr(options, name):
            check_output_file(f"--{name}", path, paths)
    runs = [read_run(path) for path in tqdm.tqdm(paths, leave=False, disable=None)]
    if options.json:
        with replacing(options.json) as path:
            write_json(path, [run.as_dict() for run in runs])
    if not runs:
        folders = ", ".join(printable(str(folder)) for folder in options.folders)
        if options.report:
            raise InputError(f"no model directory in {folders}, so {options.report} is not written")
        print(f"No model directory in {folders}")
        return
    if options.report:
        _write_report(options.report, runs)
    for table in (_run_rows(runs), _score_rows(runs)):
        if len(table) > 1:
            print(f"{_format_table(table)}\n")
    for run in runs:
        if run.fault:
            print(f"damaged: {run.fault}")
    if options.report:
        print(f"Report: {printable(str(options.report))}")


def _write_report(report, runs):
    import_tensorflow()  # TensorBoard imports it when it reads the files
    from training.report.html_page import write_page
    from training.report.recorded_run import read_recorded_run
    from training.report.run_report import runs_report

    recorded = [read_recorded_run(run) for run in runs]
    write_page(report, runs_report(recorded, [_run_rows(runs), _score_rows(runs)]))


def _run_rows(runs):
    rows = [["model", "preset", "layers", "d_model", "d_ff", "pieces", "weights", "step", "of"]]
    rows[0] += ["val loss", "val ppl", "val acc", "state"]
    for run in runs:
        loss, perplexity, accuracy = (
            run.validation.get(name) for name in ("loss", "perplexity", "accuracy")
        )
        weights = run.num_weights and f"{run.num_weights / 1e6:.2f}M"
        state = "damaged" if run.fault else "ok" if run.num_weights else "no weights yet"
        values = [run.path, run.preset, run.layers, run.d_model, run.d_ff, run.vocab_size, weights]
        values += [run.step, run.steps, _number(loss, 3), _number(perplexity, 2)]
        rows.append([*values, _number(accuracy, 3), state])
    return rows


def _score_rows(runs):
    from training.evaluation.runs import test_set_of

    scores = [(run, score) for run in runs for score in run.scores]
    shown = [
        column
        for column in _METRIC_COLUMNS
        if column.is_always_shown or any(score.get(column.name) is not None for _, score in scores)
    ]
    rows = [["scores of", "date", "reference", *(column.title for column in shown)]]
    rows[0] += ["beam", "penalty", "choice", "dtype", "BLEU signature"]
    for run, score in scores:
        row = [f"{run.path}{'' if score['current'] else ' *'}", score.get("date")]
        row += [test_set_of(score)]
        row += [_metric(score.get(column.name), column) for column in shown]
        row += [score.get("beam_size"), score.get("length_penalty")]
        row += [_choice(score.get("choice")), *(score.get(key) for key in _SETTINGS)]
        rows.append(row)
    return rows


def _metric(value, column):
    if column.name == "exact":
        return None if value is None else f"{100 * value:.1f}%"
    return _number(value, column.digits)


def _choice(facts):
    """Names how translations were chosen among candidates, if not by the search."""
    if not facts:
        return None
    return "MBR" if "mbr" in facts else "reranked"


def _number(value, digits):
    if value is None:
        return None
    return f"{value:.{digits}f}" if abs(value) < 1e9 else f"{value:.{digits}e}"


def _format_table(rows):
    """Aligns text left and columns of numbers right; a missing value becomes a dash."""
    import tabulate

    head, *body = ([cell if cell is None else printable(str(cell)) for cell in row] for row in rows)
    are_numbers = [
        all(cell is None or cell[:1].isdecimal() for cell in column)
        for column in zip(*body, strict=True)
    ]
    return tabulate.tabulate(
        body,
        headers=head,
        tablefmt="plain",
        missingval="-",
        disable_numparse=True,
        colalign=["right" if is_number else "left" for is_number in are_numbers],
    )
