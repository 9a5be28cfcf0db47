"""mBART and mBART-50 in Hugging Face's format."""

import pathlib
from typing import Any

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.formats.hf.added_tokens import DESCRIPTION_NAME, read_description
from tf_transformer.formats.hf.bart import COMMON, UNUSED_POSITIONS
from tf_transformer.formats.hf.fairseq_vocabulary import (
    begin_notes,
    language_notes,
    read_fairseq_vocabulary,
)
from tf_transformer.formats.hf.folder import (
    DEFAULTS,
    FolderFiles,
    check_settings,
    read_files,
    read_model_type,
)
from tf_transformer.formats.hf.generation import Generation
from tf_transformer.formats.hf.weights import FolderWeights, check_rows, keep_bias
from tf_transformer.formats.imported_model import ImportedModel
from tf_transformer.printable import shown

_SUPPORTED: dict[str, Any] = COMMON | {
    "model_type": "mbart",
    "normalize_before": True,
    "add_final_layer_norm": True,
}
_START = "decoder_start_token_id"
# The tokenizers of mbart-large-cc25, and those of mBART-50.
_CODES_BEHIND = ("MBartTokenizer", "MBartTokenizerFast")
_CODES_IN_FRONT = ("MBart50Tokenizer", "MBart50TokenizerFast")
# The languages that the tokenizer of mbart-large-cc25 knows; its files need not name them.
CC25_CODES = (
    *("ar_AR", "cs_CZ", "de_DE", "en_XX", "es_XX", "et_EE", "fi_FI", "fr_XX", "gu_IN", "hi_IN"),
    *("it_IT", "ja_XX", "kk_KZ", "ko_KR", "lt_LT", "lv_LV", "my_MM", "ne_NP", "nl_XX", "ro_RO"),
    *("ru_RU", "si_LK", "tr_TR", "vi_VN", "zh_CN"),
)


class HFMBart:
    """mBART and mBART-50 in Hugging Face's format, see `ModelFormat`.

    In mBART-50, source and target begin with the code of their language, as in M2M100. In mBART
    (mbart-large-cc25), that of the source is behind its end, and the decoder starts with that of
    the target.
    """

    name = "hf-mbart"

    def recognizes(self, path: pathlib.Path) -> bool:
        """Returns whether `config.json` names this architecture."""
        return read_model_type(path) == "mbart"

    def read(self, path: pathlib.Path) -> ImportedModel:
        """Reads a model.

        The decoder of mBART-50 starts with the end id. A code such as `de_DE` becomes the tag
        `>>de_DE<<`.

        Args:
            path: the folder.

        Raises:
            InputError: a file is missing or damaged, the files do not fit together, or a setting is
                not supported.
        """
        files, first_code, codes_behind = _separate_first_code(read_files(path))
        settings, model_settings = check_settings(files, _SUPPORTED)
        rows, source_model, target_model, notes = read_fairseq_vocabulary(
            path, settings, CC25_CODES if codes_behind else ()
        )
        weights = FolderWeights(path, settings, UNUSED_POSITIONS)
        check_rows(weights, rows, rows)
        generation = Generation(files)
        if codes_behind:
            generation.check_no_forced_begin()
            begin = language_notes(path, _START, first_code, rows)
        else:
            begin = begin_notes(path, generation, rows)
        target = generation.ban(rows)
        # A tag takes one of the positions.
        model_settings["max_length"] = settings.max_position_embeddings - 1
        config = TransformerConfig(
            source_vocab_size=rows.vocab_size,
            target_vocab_size=rows.vocab_size,
            tied_embeddings=weights.tied_embeddings,
            logits_bias=keep_bias(weights, target),
            norm_position="pre",
            embedding_norm=True,
            positions="learned",
            begin_embedding="end",
            language_tags="end_and_begin" if codes_behind else "source_and_target",
            **model_settings,
        )
        return ImportedModel(
            config,
            source_model,
            target_model,
            weights.convert(config, rows, target),
            (*notes, *begin, *generation.notes),
        )


def _separate_first_code(files: FolderFiles) -> tuple[FolderFiles, int | None, bool]:
    """Separates the code that the decoder of mBART starts with from the settings.

    The `config.json` of mbart-large-cc25 has none, since it was to be fine-tuned.

    Returns:
        The files with the end id in its place, the code's id or None, and whether the codes are
        behind the text, as in mBART.

    Raises:
        InputError: the tokenizer puts the codes elsewhere than the decoder's first id says.
    """
    stated = (files.generation.get(_START), files.config.get(_START))
    first = next((token_id for token_id in stated if token_id is not None), None)
    end = files.config.get("eos_token_id", DEFAULTS["mbart"]["eos_token_id"])
    ends = end if isinstance(end, list) else [end]
    codes_behind = first is None or (type(first) is int and first not in ends)
    path = files.folder / DESCRIPTION_NAME
    description = read_description(path) if path.exists() else {}
    for settings in (files.config, description):
        name = settings.get("tokenizer_class")
        if name in (_CODES_IN_FRONT if codes_behind else _CODES_BEHIND):
            raise InputError(
                f"{files.folder}: the tokenizer {name} and {_START}={shown(first)} do not fit "
                "together: mBART starts with the code of the target, mBART-50 with the end id"
            )
    if not codes_behind:
        return files, None, False
    generation = {name: value for name, value in files.generation.items() if name != _START}
    config = files.config | {_START: next(iter(ends), None)}
    return files._replace(config=config, generation=generation), first, True
