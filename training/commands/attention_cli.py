"""The command `attention`."""

import argparse
import sys

from tf_transformer.command_line.command_options import add_model_dir, add_search_options, text
from tf_transformer.storage.files import replacing
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
        help="draw the attention weights of one sentence",
        description="Translates one sentence and draws the attention weights of every layer and "
        "head. A .html page holds all of them; a picture holds one part.",
    )
    add_model_dir(parser, "the model")
    parser.add_argument("--text", type=text, required=True, metavar="T", help="the sentence")
    parser.add_argument(
        "--part", default="cross", choices=("encoder", "decoder", "cross"),
        help="the attention that a picture shows (default: %(default)s)",
    )  # fmt: skip
    add_search_options(parser)
    add_figure_output(parser, "attention.html", "the file to write: .html, .png, .svg or .pdf")
    parser.set_defaults(run=_run)


def _run(options):
    check_figure_output(options, (".html",))
    translator = load_translator(options)
    from tf_transformer.inference.inspection import inspect_attention
    from training.plots.attention_maps import attention_page, draw_attention

    sentence = inspect_attention(translator, options.text)
    if sentence.truncated:
        print(
            f"tf-transformer: the text is longer than the model's limit of "
            f"{translator.source_limit} tokens; its end was cut off",
            file=sys.stderr,
        )
    if options.output.suffix == ".html":
        with replacing(options.output) as path:
            path.write_text(attention_page(sentence), encoding="utf-8")
    else:
        save_figure(draw_attention(sentence, options.part), options.output)
    translation = sentence.translation
    if sys.stdout.isatty():
        translation = escape_control_characters(translation)
    print(f"{translation}\nAttention: {options.output}")
