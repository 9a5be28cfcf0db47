"""One export of all that is served with files beside the model's."""

import dataclasses
import pathlib
from collections.abc import Iterator

import pytest

from export.saved_model import verification
from export.saved_model.graph_options import without_graph_optimizer
from tests.conftest import build_once
from tests.export.saved_model.in_this_process import run_in_this_process
from tests.export.saved_model.random_adapters import ADAPTERS, adapter_path, write_adapters
from tests.tf_transformer.language_id.reference import random_classifier
from tf_transformer.__main__ import main
from tf_transformer.language_id.classifier import LanguageClassifier
from tf_transformer.language_id.classifier_file import write_classifier


@dataclasses.dataclass(frozen=True)
class ExportWithFiles:
    """What `export` wrote, and from what; `options` are those of its search and documents."""

    folder: pathlib.Path
    model_dir: pathlib.Path
    adapters: dict[str, pathlib.Path]
    classifier: LanguageClassifier
    signatures: tuple[str, ...] = ("document_options", "language", "adapted")
    beam_size: int = 2
    document_languages: tuple[str, ...] = ("de", "en")  # of all, "Tte." is an abbreviation


@pytest.fixture(scope="package")
def with_files(talkative, tmp_path_factory) -> Iterator[ExportWithFiles]:
    """The export has verified it, in this process."""
    options = ["--signatures", *ExportWithFiles.signatures]
    options += ["--beam-size", str(ExportWithFiles.beam_size)]
    options += ["--document-languages", *ExportWithFiles.document_languages]

    def build(place):
        place.mkdir()
        adapters = write_adapters(talkative, place)
        write_classifier(place / "classifier", random_classifier())
        command = ["export", "--model-dir", str(talkative), "--output", str(place / "served")]
        command += [*options, "--language-id", str(place / "classifier")]
        command += ["--adapters", *(f"{name}={path}" for name, path in adapters.items())]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(verification, "run_in_fresh_process", run_in_this_process)
            assert main(command) == 0

    place = build_once(tmp_path_factory, "with_files", build)
    with without_graph_optimizer():  # as on a server
        yield ExportWithFiles(
            folder=place / "served",
            model_dir=talkative,
            adapters={name: adapter_path(place, name) for name in ADAPTERS},
            classifier=random_classifier(),
        )
