"""Import of a preset of `tf_transformer.hub`, without Keras."""

import pathlib

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.formats.imported_model import ImportedModel
from tf_transformer.printable import shown
from tf_transformer.storage.json_files import read_json
from tf_transformer.storage.model_dir import CONFIG_NAME, WEIGHTS_NAME, config_from_settings
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.storage.weights_file import read_arrays
from tf_transformer.text.vocabulary import MAX_MODEL_BYTES, Vocabulary

_BACKBONE = "tf_transformer>TransformerBackbone"
_OF_KERAS = ("name", "trainable", "dtype")  # entries that are no settings of the model
_MODEL_NAME = "vocabulary.spm"


class KerasHub:
    """Presets of `tf_transformer.hub`, see `ModelFormat`."""

    name = "keras-hub"

    def recognizes(self, path: pathlib.Path) -> bool:
        """Returns whether `config.json` describes the backbone."""
        try:
            return read_json(path / CONFIG_NAME).get("registered_name") == _BACKBONE
        except (OSError, InputError):
            return False

    def read(self, path: pathlib.Path) -> ImportedModel:
        """Reads a preset. Its weights are those of a model directory; other files are not used.

        Args:
            path: the folder.

        Raises:
            InputError: a file is missing or damaged, or the files do not fit together.
        """
        config = _read_config(path / CONFIG_NAME)
        folder = path / "assets"
        source = read_regular(folder / "tokenizer" / _MODEL_NAME, MAX_MODEL_BYTES)
        target_path = folder / "target_tokenizer" / _MODEL_NAME
        target = read_regular(target_path, MAX_MODEL_BYTES) if target_path.exists() else source
        for side, model, size in (
            ("source", source, config.source_vocab_size),
            ("target", target, config.target_vocab_size),
        ):
            if (found := Vocabulary(model).vocab_size) != size:
                raise InputError(
                    f"{path}: the vocabulary of the {side} must have {side}_vocab_size={size} "
                    f"pieces, got {found}"
                )
        weights = read_arrays(path / WEIGHTS_NAME, weight_shapes(config))
        return ImportedModel(config, source, target, weights)


def _read_config(path: pathlib.Path) -> TransformerConfig:
    settings = read_json(path).get("config")
    if not isinstance(settings, dict):
        raise InputError(f"{path}: expected the settings of the backbone, got {shown(settings)}")
    settings = {name: value for name, value in settings.items() if name not in _OF_KERAS}
    return config_from_settings(settings, path)
