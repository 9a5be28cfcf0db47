"""The model directories of a command: one, or several that translate together as an ensemble."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tf_transformer.config import TransformerConfig
from tf_transformer.ensemble_config import common_config, normalized_weights
from tf_transformer.errors import InputError
from tf_transformer.storage.adapter_file import Adapter, read_adapter
from tf_transformer.storage.model_dir import (
    WEIGHTS_NAME,
    Calibrate,
    check_model_dir,
    load_for_decoding,
    read_config,
    weights_digest,
)
from tf_transformer.text.vocabulary import Vocabulary

if TYPE_CHECKING:  # checking must not import TensorFlow
    from tf_transformer.models.base import DecoderModel
    from tf_transformer.models.ensemble import Ensemble
    from tf_transformer.text.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class TrainedModels:
    """One model directory, or several whose models are the members of an `Ensemble`.

    Args:
        directories: the model directories.
        weights: the weight of each member, see `Ensemble`; None weights all equally.
        adapter: file of an adapter of the model, see `adapter_file`; None adapts nothing.
        row_adapters: names and files of adapters to choose from for each sentence, see
            `models/row_adapters.py`.
    """

    directories: tuple[pathlib.Path, ...]
    weights: tuple[float, ...] | None = None
    adapter: pathlib.Path | None = None
    row_adapters: tuple[tuple[str, pathlib.Path], ...] = ()

    @property
    def is_ensemble(self) -> bool:
        """Whether there are several models."""
        return len(self.directories) > 1

    def check(self) -> tuple[Vocabulary | None, Vocabulary]:
        """Checks the directories as `check_model_dir` does, and that the models fit together.

        Returns:
            The vocabularies of source and target; the source of a language model is None.

        Raises:
            InputError: as `check_model_dir` and `read_adapter`, or the models do not fit together.
        """
        first, *others = (check_model_dir(directory) for directory in self.directories)
        self.member_weights()
        self.config()
        self.read_adapter()
        self.read_row_adapters()
        for directory, vocabularies in zip(self.directories[1:], others, strict=True):
            sides = zip(("source", "target"), first, vocabularies, strict=True)
            for side, expected, found in sides:
                if expected and found and expected.model != found.model:
                    raise InputError(
                        f"{self.directories[0]} and {directory} have different vocabularies of the "
                        f"{side}; they need the same to be used together (`train --vocabulary "
                        f"{self.directories[0]}`)"
                    )
        return first

    def config(self) -> TransformerConfig:
        """Returns the model's settings, or what the models have in common, see `common_config`.

        Raises:
            InputError: as `read_config` and `common_config`.
        """
        configs = [read_config(directory) for directory in self.directories]
        if not self.is_ensemble:
            return configs[0]
        try:
            return common_config(configs)
        except InputError as error:
            raise InputError(f"{', '.join(map(str, self.directories))}: {error}") from error

    def read_adapter(self) -> Adapter | None:
        """Returns the adapter, if there is one.

        Raises:
            InputError: as the function `read_adapter`, or it adapts another model.
        """
        return None if self.adapter is None else self._read_adapters([self.adapter])[0]

    def read_row_adapters(self) -> dict[str, Adapter]:
        """Returns the adapters to choose from, by name.

        Raises:
            InputError: as `read_adapter`.
        """
        adapters = self._read_adapters([path for _, path in self.row_adapters])
        return {
            name: adapter for (name, _), adapter in zip(self.row_adapters, adapters, strict=True)
        }

    def _read_adapters(self, paths: Sequence[pathlib.Path]) -> list[Adapter]:
        """Reads adapters of the model, whose weights are read once to compute their digest."""
        if not paths:
            return []
        if self.is_ensemble:
            raise InputError(
                f"{paths[0]}: an adapter belongs to one model; for an ensemble, give the model "
                "directories that `train --lora` has written"
            )
        (directory,) = self.directories
        config = read_config(directory)
        adapters = [read_adapter(path, config) for path in paths]
        digest = weights_digest(directory)
        for path, adapter in zip(paths, adapters, strict=True):
            if adapter.base_digest != digest:
                raise InputError(
                    f"{path}: adapts the model with the weights digest {adapter.base_digest}, "
                    f"{directory} has {digest}; give the model directory of its --init-from"
                )
        return adapters

    def digests(self) -> list[str]:
        """Returns the `weights_digest` of each model.

        Raises:
            InputError: weights are missing or damaged.
        """
        return [weights_digest(directory) for directory in self.directories]

    def digest(self) -> str:
        """Returns the `weights_digest` of the model, or one of all models, weights and adapters.

        Raises:
            InputError: weights are missing or damaged.
        """
        digests = self.digests()
        if not self.is_ensemble:
            if (adapter := self.read_adapter()) is None:
                return digests[0]
            content = repr((digests[0], adapter.digest())).encode()
        else:
            content = repr((digests, self.member_weights())).encode()
        return hashlib.blake2b(content, digest_size=16).hexdigest()

    def member_weights(self) -> list[float]:
        """Returns the weights, which sum to 1.

        Raises:
            InputError: they do not fit the models.
        """
        return normalized_weights(self.weights, len(self.directories))

    def facts(self) -> list[dict[str, Any]]:
        """Returns the digest and the weight of each member, as plain values."""
        weights = self.member_weights()
        return [
            {"weights_digest_blake2b": digest, "weight": weight}
            for digest, weight in zip(self.digests(), weights, strict=True)
        ]

    def load(
        self,
        dtype: str = "float32",
        calibrate: Calibrate | None = None,
        for_gpu: bool | None = None,
    ) -> "tuple[DecoderModel | Ensemble, Tokenizer | None, Tokenizer]":
        """Loads the model or the ensemble, see `load_for_decoding`.

        Args:
            dtype: see `load_for_decoding`.
            calibrate: see `load_for_decoding`; called for each model.
            for_gpu: see `load_for_decoding`.

        Returns:
            The model and the tokenizers of source and target.

        Raises:
            InputError: as `check` and `load_for_decoding`.
        """
        if self.is_ensemble:
            self.check()
        adapter, row_adapters = self.read_adapter(), self.read_row_adapters()
        members, sources, targets = zip(
            *(
                load_for_decoding(directory, dtype, calibrate, adapter, for_gpu, not row_adapters)
                for directory in self.directories
            ),
            strict=True,
        )
        if not self.is_ensemble:
            if row_adapters:
                from tf_transformer.models.row_adapters import adapt_rows

                of_layers = {name: found.of_layers() for name, found in row_adapters.items()}
                adapt_rows(members[0], of_layers)
            return members[0], sources[0], targets[0]
        from tf_transformer.models.ensemble import Ensemble

        return Ensemble(members, self.member_weights()), sources[0], targets[0]

    def load_with_digest(
        self, dtype: str, calibrate: Calibrate | None = None, for_gpu: bool | None = None
    ) -> "tuple[DecoderModel | Ensemble, Tokenizer | None, Tokenizer, str]":
        """Calls `load`, and returns the digest as well.

        Raises:
            InputError: as `load`, or weights have changed while they were read.
        """
        exist = all((directory / WEIGHTS_NAME).is_file() for directory in self.directories)
        digest = self.digest() if exist else None
        model, source, target = self.load(dtype, calibrate, for_gpu)
        if digest is None or digest != self.digest():
            names = ", ".join(map(str, self.directories))
            raise InputError(f"{names}: the weights have changed while they were read. Try again")
        return model, source, target, digest
