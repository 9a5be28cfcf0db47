"""One export of all that is served with files beside the model's."""

import dataclasses
import pathlib
from collections.abc import Iterator

import pytest

from export.saved_model.graph_options import without_graph_optimizer
from tests.export.saved_model.random_adapters import write_adapters
from tests.tf_transformer.language_id.reference import random_classifier
from tf_transformer.__main__ import main
from tf_transformer.confidence.calibration import Calibration, write_calibration
from tf_transformer.language_id.classifier import LanguageClassifier
from tf_transformer.language_id.classifier_file import write_classifier
from tf_transformer.storage.model_dir import weights_digest


@dataclasses.dataclass(frozen=True)
class ExportWithFiles:
    """What `export` wrote, and from what; `options` are those of its search and documents."""

    folder: pathlib.Path
    model_dir: pathlib.Path
    adapters: dict[str, pathlib.Path]
    calibration: Calibration
    classifier: LanguageClassifier
    signatures: tuple[str, ...] = (
        *("document", "document_options", "confidence", "language"),
        *("adapted", "serving_default"),
    )
    beam_size: int = 2
    document_languages: tuple[str, ...] = ("de", "en")  # of all, "Tte." is an abbreviation


@pytest.fixture(scope="package")
def with_files(talkative, tmp_path_factory) -> Iterator[ExportWithFiles]:
    """The export has verified it."""
    place = tmp_path_factory.mktemp("with_files")
    found = ExportWithFiles(
        folder=place / "served",
        model_dir=talkative,
        adapters=write_adapters(talkative, place),
        calibration=Calibration(0.5, 0.25, weights_digest(talkative)),
        classifier=random_classifier(),
    )
    write_calibration(place / "confidence.json", found.calibration, {})
    write_classifier(place / "classifier", found.classifier)
    command = ["export", "--model-dir", str(talkative), "--output", str(found.folder)]
    command += ["--signatures", *found.signatures, "--beam-size", str(found.beam_size)]
    command += ["--document-languages", *found.document_languages]
    command += ["--confidence", str(place / "confidence.json")]
    command += ["--language-id", str(place / "classifier")]
    command += ["--adapters", *(f"{name}={path}" for name, path in found.adapters.items())]
    assert main(command) == 0
    with without_graph_optimizer():  # as on a server
        yield found
