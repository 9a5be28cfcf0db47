"""A small corpus and a small trained model that many tests share."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import collections
import ctypes
import dataclasses
import fcntl
import gc
import pathlib
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping

import pytest

from export.saved_model.signature_names import OPTIONAL
from tf_transformer.__main__ import main
from tf_transformer.command_line import predictor_options
from tf_transformer.quantization import int8
from tf_transformer.storage.score_log import SCORES_NAME
from training.config import TrainingConfig
from training.data.text_pair import TextPair
from training.demo.corpus import write_demonstration
from training.settings import make_config, read_settings

# Fixtures that train or export a model.
EXPENSIVE = frozenset(("trained", "talkative", "exported", "with_files"))
GPU_TESTS = pathlib.Path(__file__).parent / "gpu"


def pytest_configure(config: pytest.Config) -> None:
    """Hides GPUs unless the tests of tests/gpu are run: all others are about the CPU's results."""
    paths = [pathlib.Path(argument.partition("::")[0]).resolve() for argument in config.args]
    if not all(path == GPU_TESTS or GPU_TESTS in path.parents for path in paths):
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"


def pytest_collection_finish() -> None:
    """Spares Python's garbage collector the many objects of the imported modules."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the tests of large models first: TensorFlow never frees the functions of an export.

    Marks the tests that need a trained model as slow, and the cases that a `representatives` mark
    does not choose as exhaustive.
    """
    items.sort(key=lambda item: "large" not in item.keywords)
    for item in items:
        if EXPENSIVE.intersection(item.fixturenames):
            item.add_marker("slow")
    cases = collections.defaultdict(list)
    for item in items:
        if item.get_closest_marker("representatives"):
            cases[item.nodeid.partition("[")[0]].append(item)
    is_whole = not any("[" in argument for argument in config.args)
    for function, group in cases.items():
        _mark_cases(function, group, is_whole)


def _mark_cases(function: str, items: list[pytest.Item], is_whole: bool) -> None:
    """Marks the cases of a function, of which `is_whole` tells whether all were collected."""
    mark = items[0].get_closest_marker("representatives")
    names, step = mark.args, mark.kwargs.get("every", len(items) + 1)
    unseen = set(names)
    for index, item in enumerate(items):
        found = {name for name in names if f"-{name}-" in f"-{item.callspec.id}-"}
        unseen -= found
        if not found and (names or index % step):
            item.add_marker("exhaustive")
    if unseen and is_whole:
        raise pytest.UsageError(f"{function}: no case is named {' or '.join(sorted(unseen))}")


@pytest.fixture(autouse=True, scope="session")
def small_matrices_in_int8() -> None:
    """Lets "int8" quantize the small models of the tests, too."""
    int8.FEWEST_WEIGHTS = int8.FEWEST_INPUTS = 0


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Files of a parallel corpus; keyword arguments of `train`, and options of the command."""

    directory: pathlib.Path

    def path(self, name: str) -> str:
        return str(self.directory / name)

    def pair(self, name: str, *more: str) -> TextPair:
        return TextPair(self.path(f"{name}.en"), self.path(f"{name}.de"), *more)

    @property
    def arguments(self) -> dict[str, TextPair]:
        return {"corpus": self.pair("train"), "validation": self.pair("validation")}

    @property
    def target_arguments(self) -> dict[str, TextPair]:
        """Those of a language model of the target, which takes half the time to build and trace.

        With the setting `model.decoder_only`; for what does not depend on the kind of model.
        """
        sides = {"corpus": "train.de", "validation": "validation.de"}
        return {name: TextPair(None, self.path(file)) for name, file in sides.items()}

    @property
    def guided(self) -> dict[str, TextPair]:
        """The same with word alignments."""
        return self.arguments | {"corpus": self.pair("train", self.path("train.align"))}

    @property
    def options(self) -> list[str]:
        return [
            *("--source", self.path("train.en"), "--target", self.path("train.de")),
            *("--validation-source", self.path("validation.en")),
            *("--validation-target", self.path("validation.de")),
        ]

    @property
    def target_options(self) -> list[str]:
        """Those of a language model of the target, see `target_arguments`."""
        return [*self.options[2:4], *self.options[6:]]


SMALL_SETTINGS = {
    "model.num_encoder_layers": 1,
    "model.num_decoder_layers": 1,
    "model.d_model": 32,
    "model.d_ff": 64,
    "model.num_heads": 2,
    "model.norm_position": "pre",
    "model.dropout_rate": 0.1,
    "model.max_length": 40,
    "vocabulary.size": 400,
    "data.batch_tokens": 512,
    "optimization.steps": 30,
    "optimization.warmup_steps": 100,
    "optimization.learning_rate_factor": 0.3,
    "optimization.checkpoint_every": 10,
    "validation.translate_every": 0,
}


def small_config(**changes: object) -> TrainingConfig:
    """Settings of a model that trains in seconds; `changes` are dotted names with `__` for dots."""
    overrides = {name.replace("__", "."): value for name, value in changes.items()}
    return make_config(read_settings(None, SMALL_SETTINGS | overrides))


@pytest.fixture(scope="module", autouse=True)
def free_memory() -> Iterator[None]:
    """Returns the memory of a module's tests: graphs are cycles, which Python collects late."""
    yield
    if "tensorflow.python.framework.ops" in sys.modules:
        from training.tuning.memory import forget_gradients

        forget_gradients()
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture
def no_hang() -> Iterator[None]:
    """Ends a test that would wait for ever."""

    def stop(*_):
        raise TimeoutError("no answer in 5 minutes")

    former = signal.signal(signal.SIGALRM, stop)
    signal.alarm(300)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, former)


def build_once(
    factory: pytest.TempPathFactory, name: str, build: Callable[[pathlib.Path], object]
) -> pathlib.Path:
    """Returns a folder that one process of a run builds; each process has a copy of its own.

    Args:
        factory: pytest's fixture.
        name: name of the folder.
        build: builds the folder, which does not exist.
    """
    own = factory.getbasetemp()
    place = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / f"shared-{name}"
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
        if not place.exists():
            unfinished = place.with_suffix(".unfinished")
            build(unfinished)
            unfinished.rename(place)
    return shutil.copytree(place, factory.mktemp(name) / "model", symlinks=True)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Corpus:
    directory = tmp_path_factory.mktemp("corpus")
    write_demonstration(directory, num_train=600, num_validation=40, num_test=200, seed=3)
    return Corpus(directory)


@pytest.fixture(scope="session")
def trained(corpus, tmp_path_factory) -> pathlib.Path:
    """A model directory after 30 steps, with three checkpoints; tests only read it."""
    from training.trainer import train

    def build(model_dir):
        train(small_config(), model_dir=model_dir, **corpus.arguments)

    return build_once(tmp_path_factory, "trained", build)


@pytest.fixture(scope="session")
def talkative(corpus, tmp_path_factory) -> pathlib.Path:
    """A model directory after 300 steps, enough to give every sentence another translation."""
    from training.trainer import train

    def build(model_dir):
        config = small_config(optimization__steps=300, optimization__checkpoint_every=300)
        train(config, model_dir=model_dir, **corpus.arguments)

    return build_once(tmp_path_factory, "talkative", build)


@pytest.fixture(scope="session")
def confidence_file(talkative, tmp_path_factory) -> pathlib.Path:
    """What `train-confidence` writes for `talkative`, with other numbers."""
    from tf_transformer.confidence.calibration import Calibration, write_calibration
    from tf_transformer.storage.model_dir import weights_digest

    path = tmp_path_factory.mktemp("confidence") / "confidence.json"
    write_calibration(path, Calibration(0.5, 0.25, weights_digest(talkative)), {})
    return path


@pytest.fixture(scope="session")
def language_file(tmp_path_factory) -> pathlib.Path:
    """What `train-language-id` writes, with random weights."""
    from tests.tf_transformer.language_id.reference import random_classifier
    from tf_transformer.language_id.classifier_file import write_classifier

    path = tmp_path_factory.mktemp("language_id") / "classifier"
    write_classifier(path, random_classifier())
    return path


@pytest.fixture(scope="session")
def exported(talkative, confidence_file, language_file, tmp_path_factory) -> pathlib.Path:
    """What `export` writes of `talkative`: all signatures but that of adapters.

    Its verification is spared: the tests compare the answers of the signatures.
    """

    def build(directory):
        options = ["--model-dir", str(talkative), "--output", str(directory)]
        options += ["--languages", "en-de", "--signatures", "all", *OPTIONAL]
        options += ["--confidence", str(confidence_file), "--language-id", str(language_file)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("export.saved_model.saved_model.verify", lambda *_, **__: None)
            assert main(["export", *options]) == 0

    return build_once(tmp_path_factory, "exported", build)


@pytest.fixture(scope="module")
def loaded(exported) -> Iterator[Mapping[str, Callable]]:
    """The signatures of `exported`, run without TensorFlow's graph optimizer, as on a server."""
    from export.saved_model.graph_options import without_graph_optimizer
    from tests.served_functions import load_signatures

    with without_graph_optimizer():
        yield load_signatures(exported / "1")


@pytest.fixture(scope="session", autouse=True)
def models_loaded_once() -> Iterator[None]:
    """Loads and traces a model once, not in each command that the tests run in this process."""
    load, found = predictor_options.load_models, {}

    def load_once(models, dtype, **options):
        paths = [path for folder in models.directories for path in folder.iterdir()]
        paths = [path for path in paths if path.name != SCORES_NAME]  # which evaluations append to
        paths += [models.adapter] if models.adapter else []
        states = ((path, path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(paths))
        given = ((name, str(value)) for name, value in sorted(options.items()))
        key = (models, dtype, *given, *states)
        if options.get("xla") == "on" or options.get("shortlist"):
            return load(models, dtype, **options)
        if key not in found:
            while len(found) >= 2:  # their graphs take memory
                del found[next(iter(found))]
            found[key] = load(models, dtype, **options)
        return found[key]

    with pytest.MonkeyPatch.context() as patch:
        commands = ("distill_cli", "back_translate_cli", "align_cli", "complete_cli")
        for module in ("options.predictors", *commands):
            patch.setattr(f"export.commands.{module}.load_models", load_once)
        yield


_BUILT: dict[str, tuple] = {}  # models of `models_built_once`, and their first values


@pytest.fixture(scope="module")
def models_built_once() -> Iterator[None]:
    """Lets trainings with the same settings of the model share one, which is traced once.

    Each of them gets it with all variables as they were when it was built. For modules that train
    in this process again and again, and are not about how models are built or freed.
    """
    from training import trainer

    def variables(model):
        return [*model.variables, *model.optimizer.variables]

    def build_once(config, *sizes, **options):
        same = {"steps": 1, "checkpoint_every": 1, "keep_checkpoints": 1}
        settings = config.transformer_config(*sizes), config.lora, options
        key = repr((settings, dataclasses.replace(config.optimization, **same)))
        if key not in _BUILT:
            while len(_BUILT) >= 2:  # their graphs take memory
                del _BUILT[next(iter(_BUILT))]
            model = build_model(config, *sizes, **options)
            _BUILT[key] = model, [variable.numpy() for variable in variables(model)]
        model, values = _BUILT[key]
        for variable, value in zip(variables(model), values, strict=True):
            variable.assign(value)
        return model

    build_model = trainer.build_model
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "build_model", build_once)
        yield


@pytest.fixture(scope="module")
def untraced_training() -> Iterator[None]:
    """Lets trainings of up to 10 steps in this process run without graphs: tracing takes longer.

    For modules that are not about the training step itself.
    """
    from training import trainer

    def build_untraced(config, *sizes, **options):
        model = build_model(config, *sizes, **options)
        is_short = config.optimization.steps <= 10
        if model.run_eagerly != is_short:  # of a model that is shared
            model.run_eagerly = is_short
            model.train_function = model.test_function = None
        return model

    build_model = trainer.build_model
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "build_model", build_untraced)
        yield


@pytest.fixture
def unverified(monkeypatch) -> None:
    """Spares the export of models its comparison, where something else is under test."""
    monkeypatch.setattr("export.saved_model.saved_model.verify", lambda *_, **__: None)


@pytest.fixture
def untranslated(monkeypatch) -> None:
    """Spares the import of models its two translations, where something else is under test."""
    monkeypatch.setattr("tf_transformer.formats.import_model._check_translations", lambda *_: None)


@pytest.fixture
def inline_beam(monkeypatch) -> None:
    """Lets pipelines of Apache Beam run in the thread of the test, see `tests.inline_beam`."""
    pytest.importorskip("apache_beam")
    from tests.inline_beam import execute

    monkeypatch.setattr("tf_transformer.apache_beam.pipelines._execute", execute)
