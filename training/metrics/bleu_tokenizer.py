"""SacreBLEU's tokenizers for BLEU, and what is missing for one in a line."""

import os
from typing import Any

import sacrebleu
import sacrebleu.utils
from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS

from tf_transformer.errors import InputError
from tf_transformer.printable import printable

_EXTRAS = {"ja-mecab": "ja", "ko-mecab": "ko"}
# sacreBLEU's choice for target languages; of all others, 13a.
_OF_LANGUAGE = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}


def tokenizer_of_language(language: str) -> str:
    """Returns the tokenizer that sacreBLEU takes for a target language by default."""
    return _OF_LANGUAGE.get(language, "13a")


def make_bleu(tokenizer: str, **options: Any) -> sacrebleu.BLEU:
    """Makes sacreBLEU's BLEU.

    Args:
        tokenizer: sacreBLEU's name of the tokenizer.
        **options: other arguments of sacreBLEU's class.

    Raises:
        InputError: the tokenizer needs a package that is not installed, or a SentencePiece model
            that is not in sacreBLEU's cache and cannot be downloaded, or is damaged.
    """
    try:
        return sacrebleu.BLEU(tokenize=tokenizer, **options)
    except (RuntimeError, ImportError, OSError) as error:
        raise InputError(_fault(tokenizer, error)) from error


def _fault(tokenizer, error):
    if extra := _EXTRAS.get(tokenizer):
        return (
            f"the tokenizer {tokenizer} needs packages that are not installed: "
            f"pip install 'sacrebleu[{extra}]'"
        )
    path = model_path(tokenizer)
    reason = printable(str(error), 200)
    if os.path.exists(path):
        return (
            f"{path}: expected the SentencePiece model of the tokenizer {tokenizer}: {reason}. "
            "Delete the file, which is then downloaded again"
        )
    return (
        f"the tokenizer {tokenizer} needs a SentencePiece model that cannot be downloaded: "
        f"{reason}. Save {SPM_MODELS[tokenizer]['url']} as {path}; the environment variable "
        "SACREBLEU names another folder than this cache"
    )


def model_path(tokenizer: str) -> str:
    """Returns where sacreBLEU keeps the SentencePiece model of a tokenizer."""
    name = os.path.basename(SPM_MODELS[tokenizer]["url"])
    return os.path.join(sacrebleu.utils.SACREBLEU_DIR, "models", name)
