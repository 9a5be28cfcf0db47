"""The command `back-translate`.

TensorFlow is imported only after all arguments and files have been checked.
"""

import argparse

from export.commands.options.synthetic_corpus import (
    add_corpus_output,
    check_corpus_output,
    report_corpus,
)
from tf_transformer.command_line.client_options import add_client_options
from tf_transformer.command_line.command_options import (
    add_dtype,
    add_languages,
    add_model_dirs,
    add_search_options,
    check_languages,
    check_translator,
    file_name,
    parse_models,
    parse_search,
    text,
)
from tf_transformer.command_line.interruption import interrupted_by_signals
from tf_transformer.command_line.predictor_options import (
    add_exported_model,
    check_place,
    load_models,
    model_facts,
    open_predictor,
    row_options,
)
from tf_transformer.command_line.tag_options import parse_exported, parse_tags, prepare_with
from tf_transformer.decoding.search_options import DEFAULT_SEARCH
from tf_transformer.errors import InputError
from tf_transformer.printable import shown

# Of TensorFlow's random numbers, together with a line's number.
_LARGEST_SEED = 2**22


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `back-translate`."""
    parser = commands.add_parser(
        "back-translate",
        help="make sources for target text with a model of the reverse direction",
        description="Writes DIR/train.source and DIR/train.target. The same command resumes an "
        "interrupted run.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    add_model_dirs(parser, source)
    add_exported_model(source)
    add_client_options(parser)
    parser.add_argument(
        "--input", required=True, type=file_name, metavar="F", help="text of the target language"
    )
    add_corpus_output(parser)
    parser.add_argument(
        "--tag", type=text, default="<bt>", metavar="T",
        help="put before each source; '' for none (default: %(default)s, which "
        "vocabulary.symbols=[<bt>] makes a piece)",
    )  # fmt: skip
    parser.add_argument(
        "--sample", type=int, metavar="SEED",
        help="draw the sources at random, with this seed, instead of searching the best",
    )  # fmt: skip
    parser.add_argument(
        "--temperature", type=float, metavar="T",
        help="with --sample, divides the logits (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--top-k", type=int, metavar="K",
        help="with --sample, draws from the K most probable tokens (default: all)",
    )  # fmt: skip
    add_languages(parser)
    add_search_options(parser)
    add_dtype(parser)
    # None, so that they are not given with --sample.
    parser.set_defaults(run=_run, beam_size=None, length_penalty=None, dtype=None)


@interrupted_by_signals()
def _run(options):
    from tf_transformer.text.parallel_text import digest
    from tf_transformer.text.text_file import TextFile

    search = (DEFAULT_SEARCH if options.model_dir else {}) | parse_search(options)
    _check_sampling(options)
    check_languages(options)
    if not options.tag.isprintable() or options.tag != options.tag.strip():
        raise InputError(
            f"--tag {shown(options.tag)}: expected printable characters without spaces around "
            "them, or ''"
        )
    check_place(options, ("ensemble_weights", "adapter", "dtype"))
    given = TextFile.parse(options.input, 1)
    read = options.model_dir or [place for place in [options.saved_model] if place]
    check_corpus_output(options.output, read, [given.path])
    dtype = options.dtype or "float32"
    if options.model_dir is None:
        languages, num_tags = parse_exported(options) or ([], 1)
        tags = parse_tags(options)
    else:
        models = parse_models(options)
        vocabulary, _ = check_translator(models)
        languages, num_tags = vocabulary.languages, models.config().num_tags
        tags = parse_tags(options, vocabulary, num_tags)
    if languages and not tags:
        raise InputError(
            "the model is multilingual; name the language of the sources to write by "
            "--target-language"
        )
    if next(given.lines(), None) is None:
        raise InputError(f"{given} is empty")
    text_digest = digest(given)
    from export.synthesis.back_translation import BackTranslation, Sampling, back_translate
    from export.synthesis.teacher import Teacher

    sampling = None
    if options.sample is not None:
        temperature = 1.0 if options.temperature is None else options.temperature
        sampling = Sampling(options.sample, temperature, options.top_k or 0)

    def load():
        return load_models(parse_models(options), dtype, **search)

    with open_predictor(options, load) as predictor:
        prepare = prepare_with(tags, languages, num_tags)
        teacher = Teacher(predictor, model_facts(options), prepare, tags, row_options(options))
        back_translation = BackTranslation(teacher, given, search, sampling, options.tag, dtype)
        report_corpus(options.output, back_translate(back_translation, options.output, text_digest))


def _check_sampling(options):
    for name in ("temperature", "top_k"):
        if getattr(options, name) is not None and options.sample is None:
            raise InputError(f"--{name.replace('_', '-')} is valid only with --sample")
    for name in ("beam_size", "length_penalty"):
        if getattr(options, name) is not None and options.sample is not None:
            raise InputError(f"--{name.replace('_', '-')} is not valid with --sample")
    if options.sample is not None and not 0 <= options.sample < _LARGEST_SEED:
        raise InputError(f"--sample {options.sample}: expected 0 to {_LARGEST_SEED - 1}, a seed")
    if options.temperature is not None and not 0 < options.temperature < 100:
        raise InputError(f"--temperature {options.temperature:g}: expected more than 0, below 100")
    if options.top_k is not None and not 1 <= options.top_k < 2**20:
        raise InputError(f"--top-k {options.top_k}: expected at least 1, below {2**20}")
