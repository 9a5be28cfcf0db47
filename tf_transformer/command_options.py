"""Options that commands of both rooms share."""

import argparse
import pathlib


def add_model_dir(parser: argparse.ArgumentParser, description: str) -> None:
    """Adds `--model-dir`."""
    parser.add_argument(
        "--model-dir", type=pathlib.Path, required=True, metavar="DIR", help=description
    )


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of beam search."""
    parser.add_argument(
        "--beam-size", type=int, default=4, metavar="N",
        help="hypotheses kept for each sentence; 1 is greedy search (default: 4)",
    )  # fmt: skip
    parser.add_argument(
        "--length-penalty", type=float, default=0.6, metavar="A",
        help="alpha of the GNMT length penalty (default: 0.6)",
    )  # fmt: skip


def add_end_pieces(parser: argparse.ArgumentParser) -> None:
    """Adds `--end-piece`, for the commands that write what a search finds."""
    parser.add_argument(
        "--end-piece", action="append", default=[], metavar="P",
        help="a piece of the vocabulary that ends an output like its end token; repeatable",
    )  # fmt: skip


def add_dtype(parser: argparse.ArgumentParser) -> None:
    """Adds `--dtype`."""
    parser.add_argument(
        "--dtype", default="float32", choices=("float32", "bfloat16", "int8"),
        help="bfloat16: layers in half the memory, faster where the processor has it; int8: "
        "products in 8 bits, a quarter of their memory, faster still (default: float32)",
    )  # fmt: skip


def add_target_language(parser: argparse.ArgumentParser) -> None:
    """Adds `--target-language`."""
    parser.add_argument(
        "--target-language", metavar="L",
        help="of a model of several: puts its tag, such as <2de>, before every sentence",
    )  # fmt: skip
