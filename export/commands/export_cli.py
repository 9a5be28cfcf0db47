"""The command `export`.

TensorFlow is imported only after all arguments and files have been checked.
"""

import argparse
import dataclasses
import functools
import json
import logging
import pathlib
import re
import sys

from export.commands.options.documents import add_document_languages, parse_document_languages
from export.commands.options.language_id import (
    add_language_id,
    make_identifier,
    parse_classifier,
)
from export.saved_model.export_folder import check_export_folder
from export.saved_model.model_card import (
    last_matching,
    read_evaluation,
    stored_scores,
    training_facts,
)
from export.saved_model.signature_names import ALL, DOCUMENTS, OF_FILES, OPTIONAL, expand_signatures
from tf_transformer.command_line.calibration_options import add_calibration, parse_calibration
from tf_transformer.command_line.command_options import (
    add_dtype,
    add_end_pieces,
    add_model_dirs,
    add_search_options,
    add_shortlist,
    file_path,
    folder,
    parse_models,
    parse_search,
    parse_shortlist,
    search_shape,
    text,
)
from tf_transformer.command_line.interruption import interrupted_by_signals
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.confidence.calibration import read_calibration
from tf_transformer.decoding.compiled.search_shapes import (
    DEFAULT_SHAPES,
    check_shapes,
    default_shapes,
)
from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.processor import lacks_bfloat16
from tf_transformer.storage.files import check_folder
from tf_transformer.storage.output_files import check_output_file
from tf_transformer.tasks.table import TASKS


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `export`."""
    parser = commands.add_parser(
        "export",
        help="write a SavedModel that turns strings into strings",
        description="Writes the next numbered version into the output directory. The version is "
        "verified in a fresh process before it appears under its number.",
    )
    add_model_dirs(parser)
    parser.add_argument(
        "--output", type=folder, required=True, metavar="DIR",
        help="the directory that TF Serving watches",
    )  # fmt: skip
    parser.add_argument(
        "--signatures", type=text, nargs="+", metavar="NAME",
        help="signatures to export; `tokens` alone is served without tensorflow-text. `all` stands "
        f"for all but {', '.join(OPTIONAL)} (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--languages", type=text, metavar="FROM-TO",
        help="languages for the model card, such as en-de",
    )  # fmt: skip
    parser.add_argument(
        "--scores", type=file_path, metavar="F",
        help="scores for the model card, a file of `evaluate --json F` (default: the last scores "
        "that `evaluate` stored for these weights and options, if any)",
    )  # fmt: skip
    parser.add_argument(
        "--adapters", type=_named_file, nargs="+", default=[], metavar="NAME=F",
        help="adapters that `train --lora` has written for this model; the signature `adapted` has "
        "an input that names one for each sentence",
    )  # fmt: skip
    parser.add_argument(
        "--confidence", type=file_path, metavar="F",
        help="a file that `train-confidence` has written for this model; the signature "
        "`confidence` returns the confidence of each word",
    )  # fmt: skip
    add_language_id(parser)
    add_document_languages(parser, "for the signatures for documents")
    add_search_options(parser)
    add_end_pieces(parser)
    add_dtype(parser)
    add_shortlist(parser)
    add_calibration(parser)
    parser.add_argument(
        "--xla", type=search_shape, nargs="*", metavar="ROWSxLENGTH",
        help="compile the search for batches up to these numbers of sentences and of source "
        "tokens, for low latency; the server then needs a flag, see the README that is written "
        f"(default: {' '.join(f'{rows}x{length}' for rows, length in DEFAULT_SHAPES)})",
    )  # fmt: skip
    parser.add_argument(
        "--device", default="cpu", choices=("cpu", "gpu"),
        help="what the server computes on; cpu: a processor like this one; gpu: weights are not "
        "arranged as processors read them faster (default: cpu)",
    )  # fmt: skip
    parser.set_defaults(run=_run_export)


@interrupted_by_signals()
def _run_export(options):
    parse_search(options)
    if options.xla is not None and options.dtype == "int8":
        raise InputError("--xla: XLA cannot compile a model in int8; leave out --dtype int8")
    if options.device == "gpu" and options.dtype == "int8":
        raise InputError("--device gpu: int8 needs the CPU; leave out --dtype int8")
    row_adapters = _row_adapters(options)
    document_languages = parse_document_languages(options)
    classifier = parse_classifier(options)
    check_export_folder(options.output)
    check_folder(options.output)
    models = dataclasses.replace(parse_models(options), row_adapters=row_adapters)
    if options.output.resolve() in [path.resolve() for path in models.directories]:
        raise InputError(
            f"--output {options.output}: is the model directory; expected another folder, for "
            "exported versions only"
        )
    check_output_file("--output", options.output, models.directories)
    source, target = models.check()
    if source is None:
        _check_language_model(options)
    target.end_ids(options.end_piece)
    _check_signatures(options, translates=source is not None)
    shortlist = source and parse_shortlist(options, (source, target))
    config = models.config()
    confidence = options.confidence and read_calibration(options.confidence, models.digest())
    int8_calibration = source and parse_calibration(options, source, config.num_tags)
    shapes = _compiled_shapes(options, config.max_length)
    facts = training_facts(models.directories, options.languages)
    scores = options.scores and read_evaluation(options.scores)
    _warn_of_slow_bfloat16(options)
    # So the SavedModel is the same on a machine with a GPU, and verified without using it.
    import_tensorflow(on_cpu=True)
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("export").setLevel(logging.INFO)
    engine, digest = _load_engine(options, models, shapes, shortlist, int8_calibration)
    facts["weights_digest_blake2b"] = digest
    if models.is_ensemble:
        facts["members"] = models.facts()
    if adapter := models.read_adapter():
        facts["adapter_digest_blake2b"] = adapter.digest()
    if adapters := models.read_row_adapters():
        facts["adapters"] = {name: adapter.digest() for name, adapter in adapters.items()}
    if options.document_languages:
        facts["document_languages"] = document_languages
    if confidence:
        facts["confidence"] = {"scale": confidence.scale, "offset": confidence.offset}
    if int8_calibration:
        facts["calibration"] = int8_calibration.facts
    identifier = make_identifier(classifier, facts)
    scores = scores or _scores_of(facts, options, models, shortlist)
    if scores:
        facts["scores"] = scores
    if source is not None and source.languages:
        facts["target_languages"] = source.languages
    from export.saved_model.deployment import describe_deployment
    from export.saved_model.saved_model import export_translator

    version = export_translator(
        engine,
        options.output,
        options.signatures,
        facts,
        calibration=confidence,
        identifier=identifier,
        document_languages=document_languages,
    )
    names = json.loads((version / "model.json").read_text())["signatures"]
    print(
        f"{version}: verified; moved and loaded in a fresh process, every signature returns what "
        f"the model returns here, without tracing during requests: {', '.join(names)}"
    )
    for line in describe_deployment(options.output):
        print(line)


def _check_language_model(options):
    """Checks that options are not for a translation model."""
    names = ("shortlist", "adapters", "confidence", "calibrate", "document_languages")
    given = [name for name in names if getattr(options, name)]
    given += ["xla"] if options.xla is not None else []  # without shapes, an empty list
    if given:
        raise InputError(
            f"--{given[0].replace('_', '-')} is for a translation model; {options.model_dir[0]} is "
            "a language model"
        )


def _check_signatures(options, translates: bool):
    """Checks that the signatures exist, and that those that files are for are exported."""
    added = {
        option: signature
        for option, signature in OF_FILES.items()
        if getattr(options, option.removeprefix("--").replace("-", "_"))
    }
    of_files = [*added.values(), *([] if translates else TASKS["continuation"].signatures)]
    names = expand_signatures(options.signatures or [ALL], of_files, translates=translates)
    for option, signature in added.items():
        if signature not in names:
            raise InputError(
                f"{option} is for the signature `{signature}`, which --signatures leaves out"
            )
    if options.document_languages and not set(DOCUMENTS) & set(names):
        raise InputError(
            f"--document-languages is for the signatures {', '.join(DOCUMENTS)}, which "
            "--signatures leaves out"
        )


def _named_file(value):
    """Converts NAME=F."""
    name, separator, path = value.partition("=")
    if not separator or not path or not re.fullmatch("[A-Za-z0-9_.-]{1,64}", name):
        raise argparse.ArgumentTypeError(
            f"{shown(value)}: expected NAME=F, the name of letters, digits and . _ -"
        )
    return name, pathlib.Path(path)


def _row_adapters(options):
    """Returns names and files of `--adapters`, after a check that they go with other options."""
    names = [name for name, _ in options.adapters]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--adapters: {name} is given twice; expected each name once")
    if names and options.adapter:
        raise InputError(
            "--adapter changes the model that --adapters belong to; give one of the two options"
        )
    if names and options.xla is not None:
        raise InputError("--xla: XLA cannot compile a model with several adapters; leave it out")
    return tuple(options.adapters)


def _warn_of_slow_bfloat16(options):
    if options.dtype == "bfloat16" and lacks_bfloat16():
        print(
            "tf-transformer: this machine's processor has no arithmetic in bfloat16; on such a "
            "processor, a model in bfloat16 is slower than in float32",
            file=sys.stderr,
        )


def _say_if_unquantized(options, model):
    from tf_transformer.quantization.int8 import FEWEST_INPUTS, FEWEST_WEIGHTS, is_quantized

    if options.dtype == "int8" and not is_quantized(model):
        inputs = f" and {FEWEST_INPUTS} inputs" if FEWEST_INPUTS > 1 else ""
        print(
            f"tf-transformer: --dtype int8: no matrix of this model has {FEWEST_WEIGHTS:,} weights"
            f"{inputs} or more; with smaller ones, products are faster in float32 on this "
            "machine's processor, and all of them stay in it",
            file=sys.stderr,
        )


def _compiled_shapes(options, longest):
    """Returns the shapes of `--xla`; the default ones are those that the model can translate."""
    if options.xla is None:
        return []
    if not options.xla:
        return default_shapes(longest)
    return check_shapes(options.xla, longest, "--xla")


def _scores_of(facts, options, models, shortlist):
    if models.is_ensemble:  # `evaluate` stores none
        return None
    stored = stored_scores(models.directories[0])
    scores = last_matching(
        stored,
        weights_digest_blake2b=facts["weights_digest_blake2b"],
        calibration=facts.get("calibration"),
        beam_size=options.beam_size,
        length_penalty=options.length_penalty,
        dtype=options.dtype,
        shortlist_digest_blake2b=shortlist and shortlist.digest,
        choice=None,
    )
    if stored and not scores:
        print(
            f"tf-transformer: none of the {len(stored)} stored scores belongs to these weights and "
            "options; run `evaluate` with the same options to add scores to the model card",
            file=sys.stderr,
        )
    return scores


def _load_engine(options, models, shapes, shortlist, calibration):
    """Returns the translator, or the continuer of a language model, and its weights' digest."""
    from tf_transformer.inference.continuer import Continuer
    from tf_transformer.inference.translator import Translator

    search = parse_search(options)
    calibrate = functools.partial(calibration.input_ranges, **search) if calibration else None
    model, source, target, digest = models.load_with_digest(
        options.dtype, calibrate, for_gpu=options.device == "gpu"
    )
    _say_if_unquantized(options, model)
    if source is None:
        return Continuer(model, target, **search, end_pieces=options.end_piece), digest
    translator = Translator(
        model,
        source,
        target,
        **search,
        end_pieces=options.end_piece,
        compiled_shapes=shapes,
        shortlist=shortlist,
    )
    return translator, digest
