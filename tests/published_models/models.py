"""The published models in `docs/published-models.md`, and those that are refused."""

import dataclasses
import math
from typing import Any

from tests.published_models import configs, vocabularies
from tests.published_models.configs import opus_mt, sizes, t5
from tests.published_models.tensors import is_weight, tensor_shapes
from tests.published_models.vocabularies import Writer


@dataclasses.dataclass(frozen=True)
class PublishedModel:
    """A model of the Hugging Face Hub.

    Attributes:
        name: its name there.
        task: languages or task.
        format_name: the format that reads it.
        licence: what its page says; None if that was not found.
        write_vocabulary: writes the files of its kind of tokenizer.
        config: the content of `config.json`.
        generation: that of `generation_config.json`; None if there is none, or it was not found.
        num_tags: number of languages in the files that `write_vocabulary` writes.
        weights: their number as others have counted it; None if no count was found.
        counts_positions: whether this count includes two computed tables of positions.
        is_copied: whether `config` follows a public copy of the file; otherwise, it is that of a
            related model with the sizes that are published elsewhere.
    """

    name: str
    task: str
    format_name: str
    licence: str | None
    write_vocabulary: Writer
    config: dict[str, Any]
    generation: dict[str, Any] | None = None
    num_tags: int = 0
    weights: int | None = None
    counts_positions: bool = False
    is_copied: bool = True

    @property
    def row(self) -> str:
        """The row of the table in the documentation."""
        shapes = tensor_shapes(self.config)
        number = sum(math.prod(shape) for name, shape in shapes.items() if is_weight(name))
        checked = ["`config.json`" if self.is_copied else "sizes"]
        checked += ["number of weights"] if self.weights else []
        cells = (f"`hf:{self.name}`", self.task, f"{number:,}", f"`{self.format_name}`")
        return f"| {' | '.join((*cells, self.licence or 'not found', ', '.join(checked)))} |"


def _opus_mt(name: str, task: str, licence: str | None, size: int, **other: Any) -> PublishedModel:
    """Returns a model of OPUS-MT; `other` can have `changes` of its settings."""
    config = opus_mt(size, **other.pop("changes", {}))
    names = ("bad_words_ids", "decoder_start_token_id", "eos_token_id", "forced_eos_token_id")
    generation = {name: config[name] for name in (*names, "pad_token_id")}
    generation |= {"bos_token_id": 0, "max_length": 512, "renormalize_logits": True}
    generation["num_beams"] = config["num_beams"] or 4
    other = {"write_vocabulary": vocabularies.write_marian, "generation": generation} | other
    name = f"Helsinki-NLP/opus-mt-{name}"
    return PublishedModel(name, task, "hf-marian", licence, config=config, **other)


def _m2m100(name: str, task: str, licence: str | None, **other: Any) -> PublishedModel:
    return PublishedModel(f"facebook/{name}", task, "hf-m2m100", licence, **other)


def _nllb(name: str, config: dict[str, Any], **other: Any) -> PublishedModel:
    generation = {"bos_token_id": 0, "decoder_start_token_id": 2, "eos_token_id": 2}
    generation |= {"_from_model_config": True, "max_length": 200, "pad_token_id": 1}
    return _m2m100(
        f"nllb-200-{name}", "200 languages", "CC-BY-NC-4.0", config=configs.NLLB | config,
        write_vocabulary=vocabularies.write_nllb, num_tags=202, generation=generation, **other,
    )  # fmt: skip


def _mbart50(name: str, task: str, licence: str | None, **other: Any) -> PublishedModel:
    changes = other.pop("changes", {})
    return PublishedModel(
        f"facebook/mbart-large-50{name}", task, "hf-mbart", licence,
        config=configs.MBART50 | changes, write_vocabulary=vocabularies.write_mbart50, num_tags=52,
        generation=configs.MBART50_GENERATION | changes, **other,
    )  # fmt: skip


def _mbart(name: str, task: str, **changes: Any) -> PublishedModel:
    return PublishedModel(
        f"facebook/mbart-large-{name}", task, "hf-mbart", None, vocabularies.write_mbart,
        configs.MBART_CC25 | changes, num_tags=25, is_copied=False,
    )  # fmt: skip


def _bart(name: str, task: str, **other: Any) -> PublishedModel:
    other = {"licence": None} | other
    return PublishedModel(
        f"facebook/bart-{name}", task, "hf-bart", write_vocabulary=vocabularies.write_bart, **other
    )


def _pegasus(name: str, task: str, **other: Any) -> PublishedModel:
    changes = other.pop("changes", {})
    return PublishedModel(
        f"google/pegasus-{name}", task, "hf-pegasus", None, config=configs.PEGASUS | changes,
        write_vocabulary=vocabularies.write_pegasus, **other,
    )  # fmt: skip


def _indictrans(
    name: str, task: str, sizes: tuple[int, int], *, is_small: bool, **changes: Any
) -> PublishedModel:
    """Returns a model of IndicTrans2, with `changes` of its settings."""
    width = (512, 8, 2048) if is_small else (1024, 16, 8192)
    return PublishedModel(
        f"ai4bharat/indictrans2-{name}", task, "hf-indictrans", "MIT", num_tags=34,
        write_vocabulary=vocabularies.write_indictrans,
        config=configs.indictrans(*width, *sizes, layernorm_embedding=is_small, **changes),
    )  # fmt: skip


def _t5(
    name: str, task: str, config: dict[str, Any], weights: int | None, **other: Any
) -> PublishedModel:
    other = {"write_vocabulary": vocabularies.write_t5, "licence": "Apache-2.0"} | other
    return PublishedModel(name, task, "hf-t5", config=config, weights=weights, **other)


_ENGLISH, _INSTRUCTIONS = (
    "English to German, French, Romanian; other tasks",
    "instructions, several languages",
)
_GATED = configs.GATED
_MT5 = dict(task="101 languages, to be fine-tuned", write_vocabulary=vocabularies.write_mt5)
_V1_1 = "English, to be fine-tuned"

MODELS = (
    _opus_mt("en-de", "English to German", "CC-BY-4.0", 58101, weights=73_886_208),
    _opus_mt(
        "fr-en", "French to English", "Apache-2.0", 59514, weights=75_133_952,
        counts_positions=True, is_copied=False,
    ),
    _opus_mt(
        "zh-en", "Chinese to English", "CC-BY-4.0", 65001, generation=None,
        changes={"extra_pos_embeddings": 65001, "num_beams": 6},
    ),
    _opus_mt(
        "en-zh", "English to Chinese, several scripts", "Apache-2.0", 65001, weights=77_943_296,
        counts_positions=True, write_vocabulary=vocabularies.write_marian_with_tags, num_tags=3,
        changes={"max_length": None, "num_beams": None, "bad_words_ids": [[65000]]},
    ),
    _opus_mt(
        "tc-big-fr-en", "French to English, large", "CC-BY-4.0", 53017, is_copied=False,
        changes=sizes(6, 1024, 16, 4096) | {
            "activation_function": "relu", "eos_token_id": 43311, "forced_eos_token_id": 43311,
            "max_position_embeddings": 1024,
        },
    ),
    _m2m100(
        "m2m100_418M", "100 languages", "MIT", config=configs.M2M100, weights=483_905_536,
        write_vocabulary=vocabularies.write_m2m100, num_tags=100,
        generation=configs.M2M100_GENERATION,
    ),
    _m2m100(
        "m2m100_1.2B", "100 languages", "MIT", config=configs.M2M100 | sizes(24, 1024, 16, 8192),
        weights=1_239_470_080, write_vocabulary=vocabularies.write_m2m100, num_tags=100,
        is_copied=False,
    ),
    _m2m100(
        "wmt21-dense-24-wide-en-x", "English to 7 languages", "MIT", config=configs.WMT21,
        write_vocabulary=vocabularies.write_wmt21, num_tags=8, is_copied=False,
    ),
    _m2m100(
        "wmt21-dense-24-wide-x-en", "7 languages to English", None,
        config=configs.WMT21 | {"forced_bos_token_id": 128001},
        write_vocabulary=vocabularies.write_wmt21, num_tags=8, is_copied=False,
    ),
    _nllb("distilled-600M", {}, weights=615_073_792),
    _nllb("distilled-1.3B", sizes(24, 1024, 16, 8192), is_copied=False),
    _nllb("1.3B", sizes(24, 1024, 16, 8192), weights=1_370_638_336, is_copied=False),
    _nllb("3.3B", sizes(24, 2048, 16, 8192), weights=3_344_863_232, is_copied=False),
    _mbart50(
        "", "50 languages, to be fine-tuned", "MIT", weights=610_879_488, is_copied=False,
    ),
    _mbart50("-many-to-many-mmt", "50 languages", "MIT", weights=610_879_488),
    _mbart50("-one-to-many-mmt", "English to 49 languages", None, is_copied=False),
    _mbart50(
        "-many-to-one-mmt", "49 languages to English", None, is_copied=False,
        changes={"forced_bos_token_id": 250004},
    ),
    _mbart("cc25", "25 languages, to be fine-tuned"),
    _mbart("en-ro", "English to Romanian", decoder_start_token_id=250_020),
    _bart(
        "base", "English, to be fine-tuned", is_copied=False,
        config=configs.BART_BASE, weights=139_420_416,
    ),
    _bart(
        "large", "English, to be fine-tuned", licence="Apache-2.0", is_copied=False,
        config=configs.BART, weights=406_291_456,
    ),
    _bart(
        "large-cnn", "summaries of news", licence="MIT", config=configs.BART_CNN,
        generation=configs.BART_CNN_GENERATION, weights=406_290_432,
    ),
    _bart(
        "large-xsum", "summaries in a sentence", is_copied=False, weights=406_290_432,
        config=configs.BART | {
            "vocab_size": 50264, "max_length": 62, "min_length": 11, "num_beams": 6,
        },
    ),
    _pegasus("large", "summaries, to be fine-tuned", weights=570_797_056, counts_positions=True),
    _indictrans("en-indic-1B", "English to 22 languages of India", (32322, 122672), is_small=False),
    _indictrans("indic-en-1B", "22 languages of India to English", (122706, 32296), is_small=False),
    _indictrans("indic-indic-1B", "22 languages of India", (122706, 122672), is_small=False),
    _indictrans(
        "en-indic-dist-200M", "English to 22 languages of India", (32322, 122672), is_small=True,
        share_decoder_input_output_embed=True,
    ),
    _indictrans(
        "indic-indic-dist-320M", "22 languages of India", (122706, 122672), is_small=True,
    ),
    _pegasus(
        "cnn_dailymail", "summaries of news",
        changes={"max_length": 128, "min_length": 32}, generation=configs.PEGASUS_GENERATION,
    ),
    _pegasus(
        "xsum", "summaries in a sentence", changes={
            "max_position_embeddings": 512, "extra_pos_embeddings": 0, "length_penalty": 0.6,
            "max_length": 64, "do_blenderbot_90_layernorm": False,
        },
    ),
    _t5("google-t5/t5-small", _ENGLISH, t5(6, 512, 8, 2048), 60_506_624),
    _t5("google-t5/t5-base", _ENGLISH, t5(12, 768, 12, 3072), 222_903_552, is_copied=False),
    _t5("google-t5/t5-large", _ENGLISH, t5(24, 1024, 16, 4096), 737_668_096),
    _t5(
        "google-t5/t5-3b", _ENGLISH, t5(24, 1024, 32, 16384, 128), 2_851_598_336,
        is_copied=False,
    ),
    _t5(
        "google/t5-v1_1-base", _V1_1, t5(12, 768, 12, 2048) | _GATED, None, licence=None,
        is_copied=False,
    ),
    _t5("google/flan-t5-small", _INSTRUCTIONS, t5(8, 512, 6, 1024) | _GATED, 76_961_152),
    _t5("google/flan-t5-base", _INSTRUCTIONS, t5(12, 768, 12, 2048) | _GATED, 247_577_856),
    _t5("google/flan-t5-large", _INSTRUCTIONS, t5(24, 1024, 16, 2816) | _GATED, 783_150_080),
    _t5(
        "google/flan-t5-xl", _INSTRUCTIONS, t5(24, 2048, 32, 5120) | _GATED, 2_849_757_184,
        is_copied=False,
    ),
    _t5("google/mt5-small", config=configs.mt5(8, 512, 6, 1024), weights=300_176_768, **_MT5),
    _t5(
        "google/mt5-base", config=configs.mt5(12, 768, 12, 2048), weights=582_401_280,
        is_copied=False, **_MT5,
    ),
    _t5(
        "google/mt5-large", config=configs.mt5(24, 1024, 16, 2816), weights=None,
        is_copied=False, **_MT5,
    ),
    _t5(
        "google/madlad400-3b-mt", "over 400 languages", configs.MADLAD, 2_940_374_016,
        write_vocabulary=vocabularies.write_madlad, num_tags=2, is_copied=False,
    ),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class RefusedModel:
    """A published model that is not read.

    Attributes:
        name: its name on the Hub.
        config: what decides in `config.json`.
        message: what the error message must contain.
    """

    name: str
    config: dict[str, Any]
    message: str


def _other(name: str, model_type: str) -> RefusedModel:
    message = f"model_type '{model_type}' is not supported"
    return RefusedModel(name, {"model_type": model_type}, message)


REFUSED = (
    RefusedModel(
        "google/byt5-small",
        t5(12, 1472, 6, 3584) | _GATED | {"vocab_size": 384, "tokenizer_class": "ByT5Tokenizer"},
        "spiece.model",
    ),
    _other("google/umt5-small", "umt5"),
    _other("google/long-t5-local-base", "longt5"),
    _other("google/switch-base-8", "switch_transformers"),
    _other("google/bigbird-pegasus-large-arxiv", "bigbird_pegasus"),
    _other("google/pegasus-x-base", "pegasus_x"),
    _other("facebook/nllb-moe-54b", "nllb-moe"),
)
