"""The command `attention`."""

import argparse
import sys

from tf_transformer.command_line.command_options import add_model_dir, add_search_options, text
from tf_transformer.errors import InputError
from tf_transformer.text.lines import escape_control_characters
from training.commands.options.figures import (
    add_figure_output,
    check_figure_output,
    load_translator,
    save_figure,
)


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `attention`."""
    parser = commands.add_parser(
        "attention",
        help="show the attention weights and the beam search of sentences, on a page",
        description="Translates sentences and shows how. A .html page has the attention weights "
        "of every layer and head, to choose from, and the beam search step by step; a picture "
        "holds one part of the attention of one sentence.",
    )
    add_model_dir(parser, "the model")
    parser.add_argument(
        "--text", type=text, required=True, nargs="+", metavar="T",
        help="the sentence; a page can have several",
    )  # fmt: skip
    parser.add_argument(
        "--part", default="cross", choices=("encoder", "decoder", "cross"),
        help="the attention that a picture shows, and a page at first (default: %(default)s)",
    )  # fmt: skip
    add_search_options(parser)
    add_figure_output(parser, "attention.html", "the file to write: .html, .png, .svg or .pdf")
    parser.set_defaults(run=_run)


def _run(options):
    check_figure_output(options, (".html",))
    is_page = options.output.suffix == ".html"
    if len(options.text) > 1 and not is_page:
        raise InputError(
            f"--text: a picture shows one sentence, got {len(options.text)}; a page "
            "(--output F.html) shows several"
        )
    translator = load_translator(options, options.text)
    if is_page:
        inspected = _write_page(translator, options)
    else:
        inspected = [_draw_picture(translator, options)]
    for sentence in inspected:
        if sentence.truncated:
            print(
                f"tf-transformer: the text is longer than the model's limit of "
                f"{translator.source_limit} tokens; its end was cut off",
                file=sys.stderr,
            )
        translation = sentence.translation
        if sys.stdout.isatty():
            translation = escape_control_characters(translation)
        print(translation)
    print(f"Attention: {options.output}")


def _write_page(translator, options):
    from training.report.attention_report import attention_page, explain
    from training.report.html_page import write_page

    sentences = explain(translator, options.text)
    search = translator.search
    page = attention_page(
        sentences,
        beam_size=search.beam_size,
        length_penalty=search.length_penalty,
        part=options.part,
        facts=[
            f"model: {options.model_dir}",
            f"beam: {search.beam_size}",
            f"length penalty: {search.length_penalty:g}",
        ],
    )
    write_page(options.output, page)
    return [sentence.inspected for sentence in sentences]


def _draw_picture(translator, options):
    from tf_transformer.inference.inspection import inspect_attention
    from training.plots.attention_maps import draw_attention

    sentence = inspect_attention(translator, options.text[0])
    save_figure(draw_attention(sentence, options.part), options.output)
    return sentence
