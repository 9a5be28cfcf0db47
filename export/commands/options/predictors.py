"""Loading a model directory for the commands that translate with it."""

import argparse
from typing import TYPE_CHECKING

from export.commands.options.documents import parse_document_languages
from tf_transformer.command_line.command_options import parse_models, parse_search
from tf_transformer.command_line.predictor_options import load_models

if TYPE_CHECKING:  # `--help` must not import SentencePiece
    from tf_transformer.confidence.calibration import Calibration
    from tf_transformer.predictors.model_predictor import ModelPredictor
    from tf_transformer.shortlists.table import ShortlistTable


def load_model_predictor(
    options: argparse.Namespace,
    *,
    shortlist: "ShortlistTable | None" = None,
    calibration: "Calibration | None" = None,
    xla: str = "off",
) -> "ModelPredictor":
    """Loads the model directory, or those of an ensemble, for the search of the options.

    Args:
        options: the parsed command line, with the options of `add_model_dirs`, `add_dtype`,
            `add_search_options`, `add_end_pieces` and `add_document_languages`.
        shortlist: the shortlist, if there is one.
        calibration: that of the model's confidences, if there is one.
        xla: see `ModelPredictor`.

    Raises:
        InputError: the model cannot be loaded.
    """
    return load_models(
        parse_models(options),
        options.dtype or "float32",
        xla=xla,
        calibration=calibration,
        document_languages=parse_document_languages(options),
        shortlist=shortlist,
        end_pieces=options.end_piece,
        **parse_search(options),
    )
