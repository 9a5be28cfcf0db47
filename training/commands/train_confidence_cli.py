"""The command `train-confidence`."""

import argparse

from tf_transformer.command_line.command_options import (
    add_model_dir,
    add_search_options,
    check_translator,
    file_name,
    file_path,
    parse_search,
)
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.errors import InputError
from tf_transformer.storage.files import check_writable
from tf_transformer.storage.output_files import check_output_file


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `train-confidence`."""
    parser = commands.add_parser(
        "train-confidence",
        help="calibrate how confident a model is in the words of its translations",
        description="Translates a text, and finds how the probabilities of words must be scaled so "
        "that they are the share of words that occur in the reference. Half of the sentences are "
        "held out to measure the error. `export --confidence` takes the file.",
    )
    add_model_dir(parser, "the trained model")
    parser.add_argument(
        "--source", required=True, type=file_name, metavar="F", help="source text, not trained on"
    )
    parser.add_argument(
        "--reference", required=True, type=file_name, metavar="F", help="its references"
    )
    parser.add_argument(
        "--output", type=file_path, required=True, metavar="F", help="the file to write"
    )
    add_search_options(parser)
    parser.set_defaults(run=_run)


def _run(options):
    from tf_transformer.text.text_file import TextFile

    search = parse_search(options)
    files = [TextFile.parse(options.source, 1), TextFile.parse(options.reference, 2)]
    check_writable(options.output)
    check_output_file(
        "--output", options.output, [options.model_dir], [file.path for file in files]
    )
    from tf_transformer.storage.trained_models import TrainedModels

    models = TrainedModels((options.model_dir,))
    check_translator(models)
    sources, references = (list(file.lines()) for file in files)
    if len(sources) != len(references) or len(sources) < 2:
        raise InputError(
            f"{files[0]} and {files[1]}: expected the same number of lines, at least 2. Received: "
            f"{len(sources):,} and {len(references):,}"
        )
    import_tensorflow()
    from tf_transformer.confidence.calibration import Calibration, write_calibration
    from tf_transformer.inference.translator import Translator
    from training.confidence.train_confidence import train_confidence

    model, source, target, digest = models.load_with_digest("float32")
    translator = Translator(model, source, target, **search)
    translator.check_tags(sources, str(files[0]))
    fit = train_confidence(translator, sources, references)
    facts = {"words": fit.num_words, "share_right": fit.share_right, "errors": fit.errors}
    write_calibration(options.output, Calibration(fit.scale, fit.offset, digest), facts)
    print(
        f"{options.output}: {100 * fit.share_right:.1f} % of {fit.num_words:,} held-out words are "
        "right; expected calibration error"
    )
    for name, error in fit.errors.items():
        print(f"{name:>25} {100 * error:6.2f} %")
