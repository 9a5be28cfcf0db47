"""What is trained: all weights, those that no pattern freezes, or matrices of LoRA instead."""

import fnmatch
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.storage.adapter_file import kernel_shapes, lora_shapes
from tf_transformer.storage.weight_shapes import Shapes, weight_shapes
from training.config import LoraConfig, TrainingConfig

if TYPE_CHECKING:  # settings are checked before TensorFlow is imported
    import keras

# The names of the weights that are trained alone, if a model has them.
DRAFT_HEADS = "draft_heads/"
_NUM_SHOWN = 4


def matching(patterns: Sequence[str], names: Iterable[str], setting: str) -> list[str]:
    """Returns the names that one of the patterns matches, in their order.

    `*` matches any characters, `/` included, `?` one character and `[ab]` one of these.

    Args:
        patterns: the patterns.
        names: the names.
        setting: where the patterns are from, for the error message.

    Raises:
        InputError: a pattern matches nothing; the message shows some names.
    """
    names = list(names)
    found: set[str] = set()
    for pattern in patterns:
        matched = fnmatch.filter(names, pattern)
        if not matched:
            raise InputError(
                f"'{setting}': {shown(pattern)} matches nothing of this model; expected a pattern "
                f"of names such as {_some(names)}"
            )
        found.update(matched)
    return [name for name in names if name in found]


def _some(names: Sequence[str]) -> str:
    """Lists names from all parts of the model."""
    step = max(1, len(names) // _NUM_SHOWN)
    return ", ".join(names[::step][:_NUM_SHOWN])


def check_frozen(patterns: Sequence[str], config: TransformerConfig) -> None:
    """Checks that each pattern matches a weight, and that there is something left to train.

    Args:
        patterns: the setting `optimization.frozen`.
        config: settings of the model.

    Raises:
        InputError: a pattern matches nothing, or all weights are frozen.
    """
    if not patterns:
        return
    if not _unfrozen(patterns, config):
        raise InputError(
            f"'optimization.frozen': {shown(list(patterns))} freezes all "
            f"{len(weight_shapes(config))} weights of this model, so that there is nothing to "
            "train; expected patterns that leave some"
        )


def _unfrozen(patterns, config) -> Shapes:
    """Returns the shapes of the weights that are not frozen."""
    shapes = weight_shapes(config)
    if config.draft_heads:
        return {name: shape for name, shape in shapes.items() if name.startswith(DRAFT_HEADS)}
    frozen = set(matching(patterns, shapes, "optimization.frozen"))
    if not config.trainable_embeddings:
        frozen |= {name for name in shapes if name.endswith("_embedding/embeddings")}
    return {name: shape for name, shape in shapes.items() if name not in frozen}


def freeze(model: "keras.Model", patterns: Sequence[str]) -> None:
    """Makes weights untrainable: they get no gradient, no optimizer state and no average.

    A matrix that the source, the target and the logits share is one weight, which is frozen in all
    of its uses.

    Args:
        model: the model, before its optimizer is built.
        patterns: the setting `optimization.frozen`; patterns of names as `weight_shapes` has them.

    Raises:
        InputError: a pattern matches nothing.
    """
    from tf_transformer.models.lora import inner_name

    weights = {inner_name(weight.path): weight for weight in model.weights}
    for name in matching(patterns, weights, "optimization.frozen"):
        weights[name].trainable = False


def lora_layers(lora: LoraConfig, config: TransformerConfig) -> Shapes:
    """Returns the shapes of the kernels that get an update, by the names of their layers.

    Raises:
        InputError: a pattern of `lora.targets` matches no dense layer.
    """
    if lora.rank is None:
        return {}
    kernels = kernel_shapes(config)
    return {name: kernels[name] for name in matching(lora.targets, kernels, "lora.targets")}


def check_trained(config: TrainingConfig, model: TransformerConfig) -> None:
    """Checks the settings of what is trained.

    Args:
        config: settings of the run.
        model: settings of the model.

    Raises:
        InputError: as `check_frozen` and `lora_layers`, settings contradict each other, or the rank
            of LoRA is larger than that of the smallest layer.
    """
    check_frozen(config.optimization.frozen, model)
    if config.lora.rank is None:
        if config.lora != LoraConfig():
            raise InputError(
                "'lora.alpha' and 'lora.targets' are settings of LoRA; set 'lora.rank' as well"
            )
        return
    kernels = lora_layers(config.lora, model)
    if not kernels:
        raise InputError("'lora.targets': expected at least one pattern of names of dense layers")
    smallest = min(kernels, key=lambda name: min(kernels[name]))
    if config.lora.rank > min(kernels[smallest]):
        raise InputError(
            f"'lora.rank' {config.lora.rank}: expected at most {min(kernels[smallest])}, the "
            f"rank of the weights of {smallest}"
        )
    if config.optimization.frozen:
        raise InputError(
            "'optimization.frozen': with 'lora.rank', all weights are frozen already; leave it out"
        )


def choose_trained(model: "keras.Model", config: TrainingConfig) -> None:
    """Freezes weights of a new model, and adds the matrices of LoRA.

    Args:
        model: the model, a `DecoderModel`, before its optimizer is built.
        config: settings of the run.
    """
    freeze(model, config.optimization.frozen)
    if model.config.draft_heads:
        from tf_transformer.models.lora import inner_name

        for weight in model.weights:
            weight.trainable = inner_name(weight.path).startswith(DRAFT_HEADS)
    if config.lora.rank is not None:
        from tf_transformer.models.lora import enable_lora

        layers = lora_layers(config.lora, model.config)
        enable_lora(model, config.lora.rank, layers, config.lora.alpha)


def trained_shapes(config: TrainingConfig, model: TransformerConfig) -> Shapes:
    """Returns the shapes of the weights that are trained, by name.

    Args:
        config: settings of the run, see `check_trained`.
        model: settings of the model.
    """
    if config.lora.rank is None:
        return _unfrozen(config.optimization.frozen, model)
    return lora_shapes(lora_layers(config.lora, model), config.lora.rank)


def all_shapes(config: TrainingConfig | None, model: TransformerConfig) -> Shapes:
    """Returns the shapes of all weights in a checkpoint, those of LoRA included, by name.

    Args:
        config: settings of the run; None if they are unknown, and LoRA is not expected.
        model: settings of the model.
    """
    shapes = weight_shapes(model)
    if config is None or config.lora.rank is None:
        return shapes
    return shapes | lora_shapes(lora_layers(config.lora, model), config.lora.rank)
