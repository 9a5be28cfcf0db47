"""Training SentencePiece models on a corpus."""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import sentencepiece

from tf_transformer.errors import InputError
from tf_transformer.text.language_tags import TAG_BEGIN, language_tag
from tf_transformer.text.special_ids import BEGIN_ID, END_ID, NUM_SPECIAL, PAD_ID, UNKNOWN_ID
from tf_transformer.text.text_file import TextFile
from tf_transformer.text.vocabulary import WORD_BEGIN
from training.config import VocabularyConfig

# SentencePiece samples this many sentences from larger corpora, to bound its memory.
MAX_SENTENCES = 2_000_000


def train_vocabularies(
    sources: Sequence[TextFile],
    targets: Sequence[TextFile],
    config: VocabularyConfig,
    read: Callable[[Sequence[TextFile]], Iterable[str]] | None = None,
) -> tuple[bytes | None, bytes]:
    """Trains one SentencePiece model for both sides, or one for each.

    Args:
        sources: files of the source; empty for a language model.
        targets: files of the target.
        config: settings of the vocabulary.
        read: returns the lines of files to train on; None reads all lines.

    Returns:
        The serialized SentencePiece models of source and target; the same model twice if joint,
        None for the source of a language model.

    Raises:
        InputError: the corpus cannot fill the vocabulary.
    """

    def train(files, tags=()):
        symbols = [*tags, *config.symbols]
        return train_sentencepiece((read or _all_lines)(files), config, symbols)

    if not sources:
        return None, train(targets)
    tags = [
        WORD_BEGIN + tag if tag.startswith(TAG_BEGIN) else tag
        for tag in map(language_tag, config.languages)
    ]
    if config.joint:
        model = train([*sources, *targets], tags)
        return model, model
    return train(sources, tags), train(targets)


def _all_lines(files: Sequence[TextFile]) -> Iterator[str]:
    for file in files:
        yield from file.lines()


def train_sentencepiece(
    lines: Iterable[str], config: VocabularyConfig, symbols: Sequence[str] = ()
) -> bytes:
    """Trains one SentencePiece model with the project's special ids.

    Args:
        lines: the sentences to train on.
        config: settings of the vocabulary.
        symbols: pieces that are never split, such as language tags.

    Returns:
        The serialized model.

    Raises:
        InputError: no such model can be trained; if the size is the reason, the message suggests
            another.
    """
    num_special = NUM_SPECIAL + len(symbols)
    if config.size <= num_special:
        raise InputError(
            f"a vocabulary of {config.size} pieces has room for nothing but its {num_special} "
            "special ones; set a larger --vocab-size"
        )
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=config.kind,
            vocab_size=config.size,
            character_coverage=config.character_coverage,
            byte_fallback=config.byte_fallback,
            split_digits=config.split_digits,
            normalization_rule_name=config.normalization,
            # Unigram and char models may have fewer pieces than `size`.
            hard_vocab_limit=config.kind == "bpe",
            pad_id=PAD_ID,
            unk_id=UNKNOWN_ID,
            bos_id=BEGIN_ID,
            eos_id=END_ID,
            user_defined_symbols=list(symbols),
            input_sentence_size=MAX_SENTENCES,
            shuffle_input_sentence=True,
            max_sentence_length=65_536,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise InputError(_explain(error, config)) from error
    return model.getvalue()


def _explain(error: RuntimeError, config: VocabularyConfig) -> str:
    limit = re.search(r"value <= (\d+)", str(error))
    if limit:
        return (
            f"the corpus is too small for a vocabulary of {config.size} {config.kind} pieces: "
            f"it fills at most {limit[1]}; set --vocab-size {limit[1]} or less"
        )
    characters = re.search(r"required_chars. \d+ vs (\d+)", str(error))
    if characters:
        return (
            f"a vocabulary of {config.size} pieces is too small for the corpus's characters"
            f"{' and the 256 bytes' if config.byte_fallback else ''}: set --vocab-size "
            f"{characters[1]} or more"
        )
    if "all_chars_count" in str(error):
        return "the corpus contains only white space"
    reason = str(error).rpartition("] ")[2] or str(error)
    return f"no vocabulary of {config.size} {config.kind} pieces can be trained: {reason.strip()}"
