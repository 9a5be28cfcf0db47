"""The option `--language-id` of `export`."""

import argparse
from typing import TYPE_CHECKING, Any

from tf_transformer.command_line.command_options import file_path
from tf_transformer.language_id.classifier import LanguageClassifier

if TYPE_CHECKING:  # `--help` must not import TensorFlow
    from tf_transformer.language_id.identifier import LanguageIdentifier


def add_language_id(parser: argparse.ArgumentParser) -> None:
    """Adds `--language-id`."""
    parser.add_argument(
        "--language-id", type=file_path, metavar="F",
        help="a classifier of `train-language-id`, for a signature `language` that identifies the "
        "language of texts",
    )  # fmt: skip


def parse_classifier(options: argparse.Namespace) -> LanguageClassifier | None:
    """Returns the classifier that the options name, if any.

    Raises:
        InputError: the file is damaged.
    """
    if options.language_id is None:
        return None
    from tf_transformer.language_id.classifier_file import read_classifier

    return read_classifier(options.language_id)


def make_identifier(
    classifier: LanguageClassifier | None, facts: dict[str, Any]
) -> "LanguageIdentifier | None":
    """Returns the identifier to export, if any.

    Args:
        classifier: the result of `parse_classifier`.
        facts: entries of the model card, to which those of the classifier are added.
    """
    if classifier is None:
        return None
    from tf_transformer.language_id.identifier import LanguageIdentifier

    facts["language_id"] = {
        "languages": list(classifier.languages),
        "threshold": classifier.threshold,
        "digest_blake2b": classifier.digest,
    }
    return LanguageIdentifier(classifier)
