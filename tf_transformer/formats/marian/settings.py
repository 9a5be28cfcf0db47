"""The settings that Marian stores with the weights, as YAML in an array named `special:model.yml`.

Their meaning and their defaults are those of Marian's `src/common/config_parser.cpp` and
`src/models/transformer.h`.
"""

import re
from typing import Any

import pydantic

from tf_transformer.config_checks import (
    Activation,
    Autoregression,
    InnerWidth,
    ModelWidth,
    NormPosition,
    NumHeads,
    NumLayers,
    TiedEmbeddings,
    VocabSize,
    validate,
)
from tf_transformer.errors import InputError
from tf_transformer.formats.marian.weights import SETTINGS_NAME
from tf_transformer.formats.tensors.tensor_file import TensorFile
from tf_transformer.printable import shown
from tf_transformer.storage.plain_yaml import read_yaml

_MAX_BYTES = 2**20
ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "swish": "swish"}
AUTOREGRESSIONS: dict[str, Autoregression] = {
    "self-attention": "self_attention",
    "rnn": "ssru",
}
# Operations before and after a sublayer: n = norm, a = residual connection; without d = dropout.
NORM_POSITIONS: dict[tuple[str, str], NormPosition] = {("", "an"): "post", ("n", "a"): "pre"}
# Whether `tied-embeddings-all`, `tied-embeddings-src`, `tied-embeddings`.
TIED_EMBEDDINGS: dict[TiedEmbeddings, tuple[bool, bool, bool]] = {
    "all": (True, False, False),
    "inputs": (False, True, False),
    "target": (False, False, True),
    "none": (False, False, False),
}
# The supported values of settings that select another architecture, the default first.
_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "transformer-decoder-autoreg": tuple(AUTOREGRESSIONS),
    "transformer-ffn-activation": ("swish", "relu"),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-postprocess-top": ("", "d", "n", "nd", "dn"),
    "transformer-no-projection": (False,),
    "transformer-pool": (False,),
    "transformer-tied-layers": ([],),
    "transformer-train-position-embeddings": (False,),
    "transformer-disable-position-embeddings": (False,),
    "transformer-attention-mask": ("default",),
    "right-left": (False,),
    "input-types": ([], ["sequence", "sequence"]),
    "ulr": (False,),
    "lemma-dim-emb": (0,),
    "lemma-dependency": ("",),
}
# Those of the recurrent layers of a decoder.
_SUPPORTED_RECURRENT: dict[str, tuple[Any, ...]] = {
    "dec-cell": ("ssru",),
    "layer-normalization": (False,),
    "transformer-rnn-projection": (False,),
}
# Before this version, keys and values of pre-norm self-attention were not normalized.
_NORMALIZED_KEYS = (1, 11)


class MarianSettings(pydantic.BaseModel):
    """The settings that determine the weights and the equations, with Marian's defaults."""

    model_config = pydantic.ConfigDict(
        strict=True, extra="ignore", alias_generator=lambda name: name.replace("_", "-")
    )

    dim_vocabs: list[VocabSize] = pydantic.Field(min_length=2, max_length=2)
    dim_emb: ModelWidth
    enc_depth: NumLayers
    dec_depth: NumLayers
    dec_cell: str = "gru"
    transformer_heads: NumHeads = 8
    transformer_dim_ffn: InnerWidth = 2048
    transformer_decoder_dim_ffn: int = pydantic.Field(default=0, ge=0, le=2**18)
    transformer_decoder_autoreg: str = "self-attention"
    transformer_ffn_activation: str = "swish"
    transformer_preprocess: str = ""
    transformer_postprocess: str = "dan"
    transformer_postprocess_top: str = ""
    tied_embeddings: bool = False
    tied_embeddings_src: bool = False
    tied_embeddings_all: bool = False
    output_omit_bias: bool = False
    version: str = ""

    @property
    def tying(self) -> TiedEmbeddings:
        """The setting `tied_embeddings` of `TransformerConfig`."""
        if self.tied_embeddings_all or (self.tied_embeddings_src and self.tied_embeddings):
            return "all"
        if self.tied_embeddings_src:
            return "inputs"
        return "target" if self.tied_embeddings else "none"


def read_settings(file: TensorFile) -> tuple[MarianSettings, dict[str, Any]]:
    """Reads the settings of a model.

    Args:
        file: the model's file.

    Returns:
        The settings, and those of this project's `TransformerConfig` that follow from them.

    Raises:
        InputError: the file contains none, or a setting is missing, wrong, or not supported.
    """
    where = f"{file.path}: {SETTINGS_NAME}"
    values = _read_values(file, where)
    _check_supported(values, _SUPPORTED, where)
    if values.get("transformer-decoder-autoreg") == "rnn":
        _check_supported({"dec-cell": "gru"} | values, _SUPPORTED_RECURRENT, where)
    settings = validate(MarianSettings, values, where)
    return settings, _model_settings(settings, where)


def _read_values(file: TensorFile, where: str) -> dict[str, Any]:
    if SETTINGS_NAME not in file:
        raise InputError(f"{file.path}: no array {SETTINGS_NAME}; expected a model of Marian")
    shape = file.shapes[SETTINGS_NAME]
    if len(shape) != 1 or shape[0] > _MAX_BYTES or file.dtypes[SETTINGS_NAME] != "int8":
        raise InputError(
            f"{where}: expected at most {_MAX_BYTES:,} values of type int8, got the shape {shape} "
            f"of type {file.dtypes[SETTINGS_NAME]}"
        )
    try:
        # It ends with the first NUL; newer versions of Marian write several.
        text = file[SETTINGS_NAME].tobytes().partition(b"\0")[0].decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8") from error
    values = read_yaml(text, where)
    if not isinstance(values, dict):
        raise InputError(f"{where}: expected settings with names, got {shown(values)}")
    if values.get("type") != "transformer":
        raise InputError(
            f"{where}: type={shown(values.get('type'))} is not supported, only type='transformer'"
        )
    return {name: value for name, value in values.items() if value is not None}


def _check_supported(
    values: dict[str, Any], supported: dict[str, tuple[Any, ...]], where: str
) -> None:
    for name, choices in supported.items():
        value = values.get(name, choices[0])
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            raise InputError(
                f"{where}: {name}={shown(value)} is not supported, only "
                f"{' or '.join(map(repr, choices))}"
            )


def _model_settings(settings: MarianSettings, where: str) -> dict[str, Any]:
    operations = (
        settings.transformer_preprocess.replace("d", ""),
        settings.transformer_postprocess.replace("d", ""),
    )
    if operations not in NORM_POSITIONS:
        raise InputError(
            f"{where}: transformer-preprocess={shown(settings.transformer_preprocess)} with "
            f"transformer-postprocess={shown(settings.transformer_postprocess)} is not supported, "
            "only '' with 'dan' or 'n' with 'da'"
        )
    norm_position = NORM_POSITIONS[operations]
    if norm_position == "pre":
        _check_version(settings.version, where)
    decoder_width = settings.transformer_decoder_dim_ffn
    return dict(
        num_encoder_layers=settings.enc_depth,
        num_decoder_layers=settings.dec_depth,
        d_model=settings.dim_emb,
        d_ff=settings.transformer_dim_ffn,
        num_heads=settings.transformer_heads,
        decoder={"d_ff": decoder_width} if decoder_width else {},
        activation=ACTIVATIONS[settings.transformer_ffn_activation],
        norm_position=norm_position,
        final_norm="n" in settings.transformer_postprocess_top,
        decoder_autoregression=AUTOREGRESSIONS[settings.transformer_decoder_autoreg],
        tied_embeddings=settings.tying,
    )


def _check_version(version: str, where: str) -> None:
    match = re.match(r"v?(\d{1,9})\.(\d{1,9})", version)
    if match and (int(match[1]), int(match[2])) < _NORMALIZED_KEYS:
        raise InputError(
            f"{where}: transformer-preprocess='n' of version {shown(version)} is not supported: "
            "before Marian 1.11, self-attention does not normalize keys and values"
        )
