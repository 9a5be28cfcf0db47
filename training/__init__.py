"""Parallel text in, a trained model directory out."""

from typing import TYPE_CHECKING, Any

from tf_transformer.known_names import missing_attribute
from tf_transformer.registration import import_public

if TYPE_CHECKING:  # gives editors and type checkers the real names
    from tf_transformer.text.text_file import TextFile
    from training.config import (
        DataConfig,
        NoiseConfig,
        OptimizationConfig,
        TrainingConfig,
        ValidationConfig,
        VocabularyConfig,
    )
    from training.data.text_pair import TextPair
    from training.fine_tuning import config_like
    from training.loop import TrainingResult
    from training.noise.noise import perturb_lines
    from training.prepared.prepared_corpus import PreparedCorpus
    from training.prepared.prepared_folder import PreparedFolder
    from training.run import Devices, Start
    from training.settings import make_config, read_settings
    from training.trainer import train
else:  # hidden from type checkers, which would otherwise accept any name of this package

    def __getattr__(name: str) -> Any:
        """Imports a public name on first use, so that `import training` loads no TensorFlow."""
        if name not in _MODULES:
            raise missing_attribute(__name__, name, __all__)
        return getattr(import_public(_MODULES[name]), name)


_MODULES = {
    "DataConfig": "training.config",
    "Devices": "training.run",
    "NoiseConfig": "training.config",
    "OptimizationConfig": "training.config",
    "PreparedCorpus": "training.prepared.prepared_corpus",
    "PreparedFolder": "training.prepared.prepared_folder",
    "Start": "training.run",
    "TextFile": "tf_transformer.text.text_file",
    "TextPair": "training.data.text_pair",
    "TrainingConfig": "training.config",
    "TrainingResult": "training.loop",
    "ValidationConfig": "training.config",
    "VocabularyConfig": "training.config",
    "config_like": "training.fine_tuning",
    "make_config": "training.settings",
    "perturb_lines": "training.noise.noise",
    "read_settings": "training.settings",
    "train": "training.trainer",
}

__all__ = [
    "DataConfig",
    "Devices",
    "NoiseConfig",
    "OptimizationConfig",
    "PreparedCorpus",
    "PreparedFolder",
    "Start",
    "TextFile",
    "TextPair",
    "TrainingConfig",
    "TrainingResult",
    "ValidationConfig",
    "VocabularyConfig",
    "config_like",
    "make_config",
    "perturb_lines",
    "read_settings",
    "train",
]


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
