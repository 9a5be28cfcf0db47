"""The settings of a model of CTranslate2: `config.json`, and scalars among the variables."""

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pydantic

from tf_transformer.config_checks import Epsilon, validate
from tf_transformer.errors import InputError
from tf_transformer.formats.tensors.tensor_file import TensorFile
from tf_transformer.printable import shown
from tf_transformer.storage.json_files import read_json

CONFIG_NAME = "config.json"
# include/ctranslate2/ops/activation.h
_ACTIVATIONS = {0: "relu", 2: "swish", 3: "gelu"}
_OTHER_ACTIVATIONS = {1: "GELUTanh", 4: "GELUSigmoid", 5: "Tanh"}
# Parts of architectures that are not supported, in names of variables.
_UNSUPPORTED = {
    "layernorm_embedding": "a norm of the embeddings",
    "relative_attention_bias": "a relative bias of attention",
    "relative_position_keys": "relative positions",
    "relative_asymmetric_position_keys": "relative positions",
    "rotary_dim": "rotary positions",
    "linear_0_noact": "gated feed-forward layers",
    "embeddings_1": "features of words",
    "scale_outputs": "scaled outputs",
    "external_post_encoder_layers": "layers of another encoder",
    "project_in": "projections of the embeddings",
}


class Tokens(pydantic.BaseModel):
    """The settings in `config.json`, with CTranslate2's defaults."""

    model_config = pydantic.ConfigDict(strict=True, extra="ignore")

    unk_token: str = "<unk>"
    bos_token: str = "<s>"
    eos_token: str = "</s>"
    decoder_start_token: str | None = "<s>"
    add_source_bos: bool = False
    add_source_eos: bool = False
    layer_norm_epsilon: Epsilon | None = None

    @property
    def epsilon(self) -> float:
        """The epsilon of the norms."""
        return 1e-5 if self.layer_norm_epsilon is None else self.layer_norm_epsilon


def read_tokens(folder: pathlib.Path, version: int, scalars: Mapping[str, Any]) -> Tokens:
    """Reads the special tokens and what is added to the source.

    Before version 6 of the format they are variables, where they differ from the defaults.

    Args:
        folder: folder of the model.
        version: version of the format.
        scalars: the scalars and texts among the variables.

    Raises:
        InputError: `config.json` is missing or damaged, or a setting is not supported.
    """
    path = folder / CONFIG_NAME
    if version >= 6:
        if not path.exists():
            raise InputError(f"{path}: missing; expected it beside the weights")
        values = read_json(path, unique_keys=True)
    else:
        names = {"add_source_bos": "with_source_bos", "add_source_eos": "with_source_eos"}
        values = {name: bool(scalars.get(old, 0)) for name, old in names.items()}
        for name in ("unk_token", "bos_token", "eos_token"):
            if name in scalars:
                values[name] = scalars[name]
        values["decoder_start_token"] = values.get("bos_token", "<s>")
    tokens = validate(Tokens, values, path)
    if tokens.add_source_bos:
        raise InputError(f"{path}: add_source_bos=true is not supported, only false")
    if tokens.decoder_start_token is None:
        raise InputError(
            f"{path}: a multilingual model whose decoder starts with a language's code, such as "
            "mbart-large-cc25, is not supported; import its folder of Transformers"
        )
    return tokens


def scalars_of(file: TensorFile) -> dict[str, Any]:
    """Returns the scalars among the variables by name, and texts, which are bytes."""
    scalars: dict[str, Any] = {}
    for name, shape in file.shapes.items():
        if shape == ():
            scalars[name] = file[name].item()
        elif name.endswith("_token") and len(shape) == 1:
            content = np.asarray(file[name], "int8").tobytes()
            scalars[name] = content.decode("utf-8", "replace")
    return scalars


def model_settings(file: TensorFile, scalars: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of `TransformerConfig` that follow from the variables.

    Raises:
        InputError: one is missing or not supported.
    """
    for name in file:
        for part, what in _UNSUPPORTED.items():
            if f"/{part}" in name:
                raise InputError(f"{file.path}: {what} ({shown(name)}): not supported")
    sides = [_side(file, scalars, stack) for stack in ("encoder", "decoder")]
    for name in ("norm_position", "activation", "is_scaled"):
        if sides[0][name] != sides[1][name]:
            raise InputError(f"{file.path}: encoder and decoder differ in {name}: not supported")
    encoder, decoder = sides
    return dict(
        num_encoder_layers=encoder["num_layers"],
        num_decoder_layers=decoder["num_layers"],
        d_model=decoder["d_model"],
        num_heads=encoder["num_heads"],
        d_ff=encoder["d_ff"],
        decoder={"num_heads": decoder["num_heads"], "d_ff": decoder["d_ff"]},
        norm_position=encoder["norm_position"],
        activation=encoder["activation"],
    )


def _side(file, scalars, stack):
    layers = {name.split("/")[1] for name in file if name.startswith(f"{stack}/layer_")}
    layers.discard("layer_norm")
    inner = f"{stack}/layer_0/ffn/linear_0/weight"
    if sorted(layers) != sorted(f"layer_{index}" for index in range(len(layers))) or (
        len(file.shapes.get(inner, ())) != 2
    ):
        raise InputError(f"{file.path}: expected layers of a Transformer in {stack}")
    activation = int(scalars.get(f"{stack}/activation", 0))
    if activation not in _ACTIVATIONS:
        name = _OTHER_ACTIVATIONS.get(activation, activation)
        raise InputError(
            f"{file.path}: {stack}/activation={name} is not supported, only "
            f"{', '.join(_ACTIVATIONS.values())}"
        )
    d_ff, d_model = file.shapes[inner]
    is_pre = bool(scalars.get(f"{stack}/pre_norm", 1))
    return dict(
        num_layers=len(layers),
        num_heads=int(scalars.get(f"{stack}/num_heads", 8)),
        d_ff=d_ff,
        d_model=d_model,
        norm_position="pre" if is_pre else "post",
        activation=_ACTIVATIONS[activation],
        is_scaled=is_scaled(scalars, stack, d_model),
    )


def is_scaled(scalars: Mapping[str, Any], stack: str, d_model: int) -> bool:
    """Returns whether a stack multiplies its embeddings by sqrt(d_model).

    Raises:
        InputError: it multiplies them by something else.
    """
    scale = scalars.get(f"{stack}/scale_embeddings", 1)
    if isinstance(scale, float) and not np.isclose(scale, (1.0, d_model**0.5), rtol=1e-3).any():
        raise InputError(f"{stack}/scale_embeddings={shown(scale)} is not supported")
    return scale != 1.0 if isinstance(scale, float) else bool(scale)
