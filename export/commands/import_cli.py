"""The command `import`."""

import argparse
import shlex
from typing import Any

from tf_transformer.command_line.command_options import add_model_dir, folder
from tf_transformer.command_line.interruption import interrupted_by_signals
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.errors import InputError
from tf_transformer.formats.format_names import IMPORTED
from tf_transformer.printable import printable


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `import`."""
    parser = commands.add_parser(
        "import",
        help="convert a model of another toolkit to a model directory",
        description="Converts a translation model of another toolkit. The model directory can be "
        "used with translate, evaluate, export, attention, and train --init-from. The format is "
        "recognized: " + "; ".join(f"{name} is a {what}" for name, what in IMPORTED.items()) + ".",
    )
    parser.add_argument(
        "--input", type=_path_or_name, required=True, metavar="PATH",
        help="file or folder of the model, or its name on the Hugging Face Hub, hf:OWNER/NAME or "
        "hf:OWNER/NAME@REVISION",
    )  # fmt: skip
    add_model_dir(parser, "the model directory to write, a new or empty folder")
    parser.add_argument("--format", choices=IMPORTED, help="format of the model")
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE",
        help="settings that a checkpoint of OpenNMT-tf does not contain, such as num_heads=8; also "
        "activation, layer_norm_epsilon, positions, source_end, and dropout rates",
    )  # fmt: skip
    parser.set_defaults(run=_run)


@interrupted_by_signals()
def _run(options):
    from tf_transformer.formats.import_model import local_path, read_model, write_model
    from tf_transformer.formats.imported_model import SHORTLIST_NAME
    from tf_transformer.storage.new_folder import check_new_folder

    check_new_folder(options.model_dir)
    settings = dict(map(_parse_setting, options.set))
    path = local_path(options.input)
    imported = read_model(path, options.format, settings)
    import_tensorflow(on_cpu=True)
    write_model(imported, path, options.model_dir)
    words = ["tf-transformer", "translate", "--model-dir", str(options.model_dir)]
    if imported.shortlist is not None:
        words += ["--shortlist", str(options.model_dir / SHORTLIST_NAME)]
    words += _language_options(options.model_dir, imported.config.num_tags)
    again = shlex.join([*words, *imported.options])
    for note in imported.notes:
        print(f"{options.model_dir}: {note}")
    print(f"{options.model_dir}: imported, and two sentences translated. To translate:\n  {again}")


def _language_options(model_dir, num_tags):
    """Returns the options that name languages of a multilingual model, with some of its own."""
    from tf_transformer.storage.model_dir import read_vocabularies

    source = read_vocabularies(model_dir)[0]
    languages = [name.strip("<>") for name in source.languages] if source else []
    options = ("--target-language", "--source-language")[:num_tags]
    return [word for pair in zip(options, languages, strict=False) for word in pair]


def _path_or_name(value: str) -> str:
    folder(value)  # refuses an empty one
    return value


def _parse_setting(setting: str) -> tuple[str, Any]:
    from tf_transformer.storage.plain_yaml import read_yaml  # the client has no YAML

    name, equals, value = setting.partition("=")
    if not equals:
        raise InputError(f"--set {printable(setting, 100)}: expected NAME=VALUE")
    return name, read_yaml(value, f"--set {printable(setting, 100)}")
