"""The directions of imports between the folders, and that `--help` does not wait for TensorFlow."""

import ast
import importlib
import pathlib
import re
import runpy
import subprocess
import sys

import pytest

from tests.conftest import EXPENSIVE

ROOT = pathlib.Path(__file__).parents[1]
FOLDERS = ("tf_transformer", "training", "export")
OURS = {*FOLDERS, "tests", "benchmarks", "examples"}
# What modules of a folder may import; `__main__.py` hands over to the command lines.
ALLOWED = {
    "tf_transformer": {"tf_transformer"},
    "training": {"training", "tf_transformer"},
    "export": {"export", "tf_transformer"},
    "tf_transformer.__main__": {
        "tf_transformer",
        "training.commands.cli",
        "export.commands.cli",
    },
}
SLOW = {
    *("tensorflow", "tensorflow_text", "keras", "keras_hub"),
    *("sentencepiece", "matplotlib", "sacrebleu"),
    *("grpc", "apache_beam", "pyarrow", "starlette", "uvicorn", "prometheus_client"),
}


def module_name(path: pathlib.Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {
    module_name(path): path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))
}


def imports_of(source: str, module: str, is_package: bool = False) -> dict[str, bool]:
    """Modules that a source imports, anywhere in it, and whether it does so when it is imported.

    `from package import name` counts as `package.name`, be the name a module or not.
    """
    tree = ast.parse(source)
    lazy = {
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    package = module.split(".") if is_package else module.split(".")[:-1]
    found: dict[str, bool] = {}
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = [*above, node.module] if node.module else above
            names = [".".join([*base, alias.name]) for alias in node.names]
        for name in names:
            found[name] = found.get(name, False) or node not in lazy
    return found


def is_within(name: str, roots: set[str]) -> bool:
    return any(name == root or name.startswith(f"{root}.") for root in roots)


def forbidden(source: str, module: str) -> list[str]:
    """Imports of a module that go against the directions."""
    allowed = ALLOWED.get(module) or ALLOWED[module.partition(".")[0]]
    found = imports_of(source, module)
    wrong = [name for name in found if is_within(name, OURS) and not is_within(name, allowed)]
    if module == "tf_transformer.__main__":
        not_at_once = SLOW | {"training", "export"}
        wrong += [
            name for name, at_once in found.items() if at_once and is_within(name, not_at_once)
        ]
    return wrong


def test_every_module_is_seen():
    assert {
        "tf_transformer",
        "tf_transformer.models.transformer",
        "training.commands.cli",
        "export.commands.cli",
    } <= set(MODULES)
    assert len(MODULES) > 30
    # Folders that a package finder would take for packages, and these rules for nothing.
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages - {"tests", "benchmarks"} == set(FOLDERS)


@pytest.mark.parametrize("module", MODULES)
def test_directions(module):
    source = MODULES[module].read_text(encoding="utf-8")
    assert forbidden(source, module) == []


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("training.a", "import export", ["export"]),
        ("training.a", "from export.commands.cli import main", ["export.commands.cli.main"]),
        ("training.a", "def f():\n    from export.commands import cli", ["export.commands.cli"]),
        ("training.a", "from tf_transformer.models import transformer\nimport exports", []),
        (
            "export.a",
            "import tf_transformer.models.transformer, training.commands.cli",
            ["training.commands.cli"],
        ),
        ("export.a", "from . import training", []),
        ("export.a", "from .. import training", ["training"]),
        ("tf_transformer.a", "from training.data import corpus", ["training.data.corpus"]),
        (
            "tf_transformer.a",
            "if 0:\n    import export.commands.cli as cli",
            ["export.commands.cli"],
        ),
        ("tf_transformer.a", "from tests import numpy_reference", ["tests.numpy_reference"]),
        ("tf_transformer.__main__", "def f():\n    from training.commands import cli", []),
        ("tf_transformer.__main__", "from training.commands import cli", ["training.commands.cli"]),
        ("tf_transformer.__main__", "def f():\n    import training.config", ["training.config"]),
        ("tf_transformer.__main__", "import tensorflow as tf", ["tensorflow"]),
    ],
)
def test_the_check_finds_what_is_forbidden(module, source, expected):
    assert forbidden(source, module) == expected


def circular(sources: dict[str, str]) -> set[str]:
    """Modules that import each other in a circle, and those that lead there.

    A module imports the packages above it, too: `a.b.c` runs `a.b`, except where that is running
    already because it is above the module that imports.
    """
    imports = {}
    for module, source in sources.items():
        names = imports_of(source, module, MODULES[module].stem == "__init__")
        others = {above for name in names for above in _with_packages(name)}
        imports[module] = (others & set(sources)) - set(_with_packages(module))
    return circle(imports)


def _with_packages(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts) + 1)]


@pytest.mark.slow
def test_no_cycles():
    sources = {name: path.read_text(encoding="utf-8") for name, path in MODULES.items()}
    assert circular(sources) == set()


def test_a_cycle_through_a_package_is_found():
    client = "tf_transformer.predictors.client"
    sources = {
        "tf_transformer.predictors.rows": f"from {client}.messages import make_tensor",
        client: f"from {client}.client import Client",
        f"{client}.client": "def f():\n    from tf_transformer.predictors.rows import to_rows",
        f"{client}.messages": "import numpy",
    }
    assert circular(sources) == set(sources) - {f"{client}.messages"}
    sources["tf_transformer.predictors.rows"] = "import numpy"
    assert circular(sources) == set()


def run_python(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300
    )


@pytest.mark.slow
def test_help_does_not_import_tensorflow():
    done = run_python("-X", "importtime", "-m", "tf_transformer", "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: tf-transformer ")
    for command in ("demo", "train", "evaluate", "average", "translate", "export"):
        assert re.search(rf"^    {command}\s", done.stdout, re.MULTILINE)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert {"argparse", "training.commands.cli", "export.commands.cli"} <= imported
    assert not SLOW & {name.partition(".")[0] for name in imported}


def test_importing_the_packages_does_not_import_tensorflow():
    done = run_python(
        "-c",
        "import sys, tf_transformer, tf_transformer.hub, training, export\n"
        "import tf_transformer.config, training.config, training.data.bucketing\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))",
    )
    assert done.returncode == 0
    imported = set(done.stdout.split())
    assert imported >= set(FOLDERS)
    assert not SLOW & imported


# Prints the names of each package, what its import has imported, and the error of an unknown name.
USE_OF_NAMES = """
import importlib, sys
packages = [importlib.import_module(name) for name in sys.argv[1:]]
for package in packages:
    print(*dir(package))
print(*sys.modules)
for package in packages:
    for name in package.__all__:
        assert getattr(package, name).__name__ == name
    names = {}
    exec(f"from {package.__name__} import *", names)
    assert set(package.__all__) <= set(names)
    try:
        package.nowhere
    except AttributeError as error:
        print(error)
"""


@pytest.mark.slow
def test_public_names():
    """They are there for completion, and import TensorFlow only once they are used."""
    done = run_python("-c", USE_OF_NAMES, *FOLDERS)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    names, (modules, *errors) = lines[: len(FOLDERS)], lines[len(FOLDERS) :]
    for package, found in zip(FOLDERS, names, strict=True):
        assert {*found.split()} >= {*importlib.import_module(package).__all__, "__all__"}
    assert not SLOW & {*modules.split()}
    assert errors == [
        f"module '{package}' has no attribute 'nowhere'; dir({package}) lists its names"
        for package in FOLDERS
    ]


@pytest.mark.parametrize("package", FOLDERS)
def test_editors_and_type_checkers_see_the_public_names(package):
    """What reads the source finds in it the same names, from the same modules."""
    tree = ast.parse(MODULES[package].read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    read = {alias.name: node.module for node in block.body for alias in node.names}
    (listed,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets) == "__all__"
    )
    modules = importlib.import_module(package)._MODULES
    # A name may come from another package: those have the package in them.
    assert read == {
        name: module if module.partition(".")[0] in FOLDERS else f"{package}.{module}"
        for name, module in modules.items()
    }
    assert sorted(listed) == sorted(read)
    assert (ROOT / package / "py.typed").exists()


def test_what_users_of_the_layers_need_is_public():
    import tf_transformer

    assert set(tf_transformer.__all__) >= {
        *("Transformer", "LanguageModel", "Encoder", "EncoderLayer", "Decoder", "DecoderLayer"),
        *("SelfAttention", "CrossAttention", "scaled_dot_product_attention", "FeedForward"),
        *("TokenEmbedding", "PositionalEncoding", "beam_search", "SearchOptions"),
        *("LabelSmoothedCrossEntropy", "NoamSchedule", "TokenAccuracy", "Perplexity"),
        *("SmoothedLoss", "Tokenizer", "Translator", "Completer", "load_model"),
    }


# ---- Sub-packages ----

# What a sub-package of `tf_transformer` may import: its own modules and tiers before its own.
TIERS = (
    {
        *("errors", "printable", "argument_types", "backend", "processor", "private_interfaces"),
        *("known_names", "model_names", "config_checks", "language_tags", "presets", "config"),
        *("ensemble_config", "import_hook", "tensorflow_messages", "layer_settings"),
    },
    {"text"},
    {"layers", "word_alignment"},
    {"losses", "models"},
    {"shortlists"},
    {"decoding", "quantization"},
    {"terms"},
    {"storage"},
    {"apache_beam"},
    {"inference"},
    {"documents"},
    {"confidence"},
    {"hub"},
    {"formats"},
    {"language_id"},
    {"tasks"},
    {"predictors"},
    {"reranking"},
    {"command_line"},
)


def part_of(module: str) -> str:
    """The sub-package that a module belongs to; a module of the package itself is one alone."""
    return ".".join(module.split(".")[:2])


def parts_imported(sources: dict[str, str]) -> dict[str, set[str]]:
    """Other parts of the same package that each part imports, at once or later.

    Left out are `__init__` and `__main__`, which only hand over, and the commands, which use
    everything.
    """
    parts = {part_of(name) for name in MODULES if "." in name}
    found: dict[str, set[str]] = {}
    for module, source in sources.items():
        package, part = module.partition(".")[0], part_of(module)
        if part.endswith((".__main__", ".commands")) or MODULES[module].stem == "__init__":
            continue
        others = {part_of(name) for name in imports_of(source, module)} & parts - {part}
        inside = {other for other in others if is_within(other, {package})}
        found.setdefault(part, set()).update(inside)
    return found


def circle(graph: dict[str, set[str]]) -> set[str]:
    """The nodes that import each other in a circle, and those that lead there."""
    graph = dict(graph)
    while leaves := [node for node, others in graph.items() if not others & set(graph)]:
        for node in leaves:
            del graph[node]
    return set(graph)


@pytest.fixture(scope="module")
def parts() -> dict[str, set[str]]:
    sources = {name: path.read_text(encoding="utf-8") for name, path in MODULES.items()}
    return parts_imported(sources)


@pytest.mark.slow
def test_errors_of_input_have_a_class_of_their_own():
    """The command line reports them in one line; any other `ValueError` is a fault of ours."""
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):  # raised here, or returned to be raised
                assert ast.unparse(node.func) != "ValueError", f"{name}:{node.lineno}"


@pytest.mark.slow
def test_only_a_command_changes_malloc():
    """It is the whole process's, which belongs to whoever calls `training.train`."""
    importers = {
        name
        for name, path in MODULES.items()
        if any(
            is_within(other, {"training.malloc"})
            for other in imports_of(path.read_text(encoding="utf-8"), name)
        )
    }
    assert importers == {"training.commands.train_cli", "training.commands.tune_cli"}


def test_every_folder_is_a_package():
    folders = {path.parent for path in MODULES.values()}
    assert len(folders) > 20
    assert all((folder / "__init__.py").exists() for folder in folders)


def test_every_folder_is_installed(monkeypatch):
    given = {}
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("setuptools.setup", lambda **arguments: given.update(arguments))
    runpy.run_path(str(ROOT / "setup.py"))
    assert set(given["packages"]) == {module_name(path.parent) for path in MODULES.values()}


def test_tests_mirror_the_packages():
    for package in FOLDERS:
        for path in (ROOT / "tests" / package).rglob("*.py"):
            assert (ROOT / path.parent.relative_to(ROOT / "tests")).is_dir(), path


def test_sub_packages_import_each_other_in_one_direction(parts):
    assert {"tf_transformer.models", "training.data", "tf_transformer.predictors"} <= set(parts)
    assert parts["tf_transformer.models"] >= {"tf_transformer.layers", "tf_transformer.config"}
    assert circle(parts) == set()


def test_a_circle_is_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}
    assert circle(graph) == {"a", "b", "c"}
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == set()
    sources = {
        "training.data.text_pair": "from training.prepared import records",
        "training.prepared.records": "def f():\n    import training.data.text_pair",
        "training.commands.cli": "from training.data import text_pair",
        "training.loop": "from tf_transformer.storage import files\nimport training.trainer",
    }
    assert parts_imported(sources) == {
        "training.data": {"training.prepared"},
        "training.prepared": {"training.data"},
        "training.loop": {"training.trainer"},
    }


def test_the_order_of_the_sub_packages(parts):
    """From configuration to inference, see `TIERS`."""
    tier = {f"tf_transformer.{name}": i for i, names in enumerate(TIERS) for name in names}
    # It imports the modules by their names, once Keras is there.
    found = {part for part in parts if is_within(part, {"tf_transformer"})}
    assert found - {"tf_transformer.registration"} == set(tier)
    for part, others in parts.items():
        upwards = [name for name in others if part in tier and tier[name] > tier[part]]
        assert upwards == [], part
        beside = [name for name in others if part in tier and tier[name] == tier[part]]
        assert beside == [] or tier[part] == 0, part


def test_the_layout_is_written_down(parts):
    """docs/architecture.md lists each sub-package with its docstring, after what it may import."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    listed = {}
    for package in FOLDERS:
        (table,) = re.findall(rf"^\| `{package}/` \|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
        rows = re.findall(r"^\| `([\w.]+)` \| (.+) \|$", table, re.MULTILINE)
        listed |= {f"{package}.{name}": description for name, description in rows}
    docstrings = {
        name: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        for name, path in MODULES.items()
        if path.stem == "__init__" and name not in FOLDERS
    }
    assert listed == docstrings
    order = list(listed)
    for number, part in enumerate(order):
        assert parts.get(part, set()) & set(order[number:]) == set(), part


@pytest.mark.slow
def test_every_package_has_fast_tests():
    """`make test-fast` leaves out what is marked as slow, and what needs a trained model."""
    for folder in {
        path.parent for package in FOLDERS for path in (ROOT / "tests" / package).rglob("test_*.py")
    }:
        assert any(map(_has_fast_test, folder.glob("test_*.py"))), folder


def _has_fast_test(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if "pytestmark = pytest.mark.slow" in map(ast.unparse, tree.body):
        return False
    return any(
        isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and "pytest.mark.slow" not in map(ast.unparse, node.decorator_list)
        and not EXPENSIVE & {argument.arg for argument in node.args.args}
        for node in tree.body
    )
