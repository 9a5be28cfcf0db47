"""Translation of strings: tokenizer, model and search in one graph."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tqdm

from tf_transformer.argument_types import as_path, is_number, is_whole
from tf_transformer.decoding.compiled.search_shapes import SearchShape, default_shapes
from tf_transformer.decoding.length_chunks import map_chunks, rows_of_chunk
from tf_transformer.decoding.search_interface import check_search_arguments
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.decoding.translation_search import TranslationSearch
from tf_transformer.errors import InputError
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.known_names import check_names, keywords, name_options_of_load
from tf_transformer.model_names import resolve_name
from tf_transformer.models.base import DecoderModel
from tf_transformer.models.ensemble import Ensemble
from tf_transformer.printable import shown
from tf_transformer.quantization.int8 import is_quantized
from tf_transformer.shortlists.table import read_shortlist
from tf_transformer.storage.trained_models import TrainedModels
from tf_transformer.text.language_tags import check_tags
from tf_transformer.text.texts import list_of_texts
from tf_transformer.text.tokenizer import Tokenizer


class Translations(NamedTuple):
    """Translations of a batch of sentences, best first.

    Attributes:
        text: `(batch, num_best)` UTF-8 strings.
        scores: `(batch, num_best)` float32, log-probability divided by the length penalty.
        lengths: `(batch, num_best)` int32, number of tokens of each, without the end id.
        truncated: `(batch,)` bool, whether the source was truncated to the model's limit.
    """

    text: tf.Tensor
    scores: tf.Tensor
    lengths: tf.Tensor
    truncated: tf.Tensor


class Translation(NamedTuple):
    """One translation of one sentence, as Python values.

    Attributes:
        text: the translation.
        score: log-probability divided by the length penalty.
        truncated: whether the source was truncated to the model's limit.
    """

    text: str
    score: float
    truncated: bool


class Translator(tf.Module):
    """Translates strings with a `Transformer` or an `Ensemble`.

        translator = Translator.load("model", beam_size=4)
        translator(["A man sleeps."])            # the best translation of each sentence
        translator.n_best(["A man sleeps."])     # the `num_best` translations, with their scores

    Sentences are sorted by length, translated in chunks, and returned in the original order. Up to
    rounding, the scores of a sentence do not depend on the others, so they change its translation
    only if two hypotheses have almost equal scores (see docs/serving.md). An empty or blank
    sentence gives an empty translation with score 0. Pad, begin and unknown ids are never produced.

    Args:
        model: the model.
        source_tokenizer: tokenizer of the source language.
        target_tokenizer: tokenizer of the target language.
        num_best: number of translations per sentence, at most the beam size.
        chunk_size: number of sentences that are decoded together; None means `rows_of_chunk`.
        end_pieces: pieces that end an output as the end id does; the output does not contain them.
        **search_arguments: the other arguments of `TranslationSearch`.

    Raises:
        InputError: an argument is out of range.
    """

    # A compiled search takes about half the time for a sentence, but longer for a chunk, which
    # finished sentences leave in the ordinary search (`python -m benchmarks.compiled_answers`).
    rows_before_compiling = 1000

    def __init__(
        self,
        model: DecoderModel | Ensemble,
        source_tokenizer: Tokenizer | None,
        target_tokenizer: Tokenizer,
        *,
        num_best: int = 1,
        chunk_size: int | None = None,
        end_pieces: Sequence[str] = (),
        **search_arguments: Any,
    ):
        super().__init__(name="translator")
        check_names(search_arguments, self._option_names())
        self.search = TranslationSearch(
            model, end_ids=target_tokenizer.end_ids(end_pieces), **search_arguments
        )
        check_search_arguments(self.search.beam_size, num_best, 0.0)
        if self.search.compiled_shapes and is_quantized(model):
            raise InputError("`compiled_shapes`: XLA cannot compile a model in int8")
        if source_tokenizer is None:
            raise InputError("`source_tokenizer` must be a `Tokenizer`. Received: None")
        self.model = self.search.model
        if chunk_size is None:
            chunk_size = rows_of_chunk(self.model.config.side("decoder").d_model)
        _check_positive("chunk_size", chunk_size)
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.num_best = num_best
        self.chunk_size = chunk_size
        self._translate_function = tf.function(
            lambda text: self.translate_in_graph(text, num_best=num_best),
            input_signature=[tf.TensorSpec([None], tf.string)],
            autograph=False,
        )

    @classmethod
    def _option_names(cls) -> list[str]:
        """Returns the names of all options of the class and its search."""
        classes = [each for each in cls.__mro__ if issubclass(each, Translator)]
        names = keywords(*classes, TranslationSearch)
        return [name for name in names if name != "end_ids"]  # they come from `end_pieces`

    @classmethod
    def load_options(cls) -> list[str]:
        """Returns the names of the options of `load`."""
        return [*cls._option_names(), *keywords(cls.load)]

    @classmethod
    def load(
        cls,
        model_dir: str | os.PathLike | Sequence[str | os.PathLike],
        *,
        ensemble_weights: Sequence[float] | None = None,
        adapter: str | os.PathLike | None = None,
        dtype: str = "float32",
        shortlist: str | os.PathLike | None = None,
        **options: Any,
    ) -> "Translator":
        """Loads a translator from a model directory, or from those of an ensemble.

        Args:
            model_dir: the model directory, or the name of a model of the Hugging Face Hub,
                `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION`, which is imported into a cache, see
                `formats.import_cache`; several are the members of an `Ensemble`.
            ensemble_weights: the weight of each member; None weights all equally.
            adapter: an `adapter.h5` that `train --lora` has written for the model.
            dtype: "float32", "bfloat16" or "int8", see `load_for_decoding`.
            shortlist: a file that `train-shortlist` wrote; None considers all target pieces.
            **options: the other arguments of `Translator`, such as `beam_size` and `num_best`.

        Raises:
            InputError: not a valid model directory, that of a language model, the models of an
                ensemble do not fit together, the shortlist belongs to another model, or an argument
                is out of range; a model cannot be downloaded or imported.
        """
        check_names(options, cls.load_options())
        given = [model_dir] if isinstance(model_dir, str | os.PathLike) else model_dir
        if not isinstance(given, list | tuple) or not given:
            raise InputError(
                "`model_dir` must be the path of a model directory, or a list of several. "
                f"Received: {shown(model_dir)}"
            )
        directories = tuple(
            as_path(resolve_name(path), "model_dir", "a model directory") for path in given
        )
        weights = None if ensemble_weights is None else _weights(ensemble_weights)
        if adapter is not None:
            adapter = as_path(adapter, "adapter", "the file of an adapter")
        if shortlist is not None:
            shortlist = as_path(shortlist, "shortlist", "the file of a shortlist")
        models = TrainedModels(directories, weights, adapter)
        model, source, target = models.load(dtype)
        table = None
        if shortlist is not None and source is not None:
            table = read_shortlist(shortlist, source, target)
        return cls(model, source, target, shortlist=table, **options)

    @name_options_of_load
    def __call__(self, sentences: Iterable[str | bytes]) -> list[str]:
        """Returns the best translation of each sentence, see `n_best`."""
        return [translations[0].text for translations in self.n_best(sentences)]

    @name_options_of_load
    def n_best(self, sentences: Iterable[str | bytes]) -> list[list[Translation]]:
        """Returns the `num_best` translations of each sentence, best first.

        Args:
            sentences: strings, or their UTF-8 bytes, in a list, an array or a tensor. For many
                sentences, use `translate_lines`, which returns translations earlier.

        Raises:
            InputError: `sentences` is no list of strings, a sentence lacks the language tag that
                the model needs, or a score is not finite.
        """
        sentences = list_of_texts(sentences, "sentences")
        self.check_tags(sentences, "sentences")
        translations = self.translate_batch(sentences)
        check_scores([best[0].score for best in translations])
        return translations

    def check_tags(self, sentences: Iterable[str | bytes], name: str) -> None:
        """Checks that sentences start with the language tags that the model needs, if any.

        Args:
            sentences: the sentences.
            name: what they are, for the error message.

        Raises:
            InputError: a sentence lacks a tag; the message contains its number.
        """
        num_tags = self.model.config.num_tags
        check_tags(sentences, self.source_tokenizer.languages, name, num_tags)

    @property
    def tokenizers(self) -> list[Tokenizer]:
        """The tokenizers; the first is that of the text that is given."""
        return [self.source_tokenizer, self.target_tokenizer]

    def default_shapes(self, rows: int) -> list[SearchShape]:
        """Returns the shapes to compile the search of a number of rows for."""
        return default_shapes(self.model.config.max_length, rows)

    @property
    def source_limit(self) -> int:
        """Maximum number of source tokens, without the end id; longer sources are truncated."""
        return self.search.limit

    def translate(self, text: tf.Tensor) -> Translations:
        """Translates sentences, `(batch,)` strings, in one call of a `tf.function`."""
        return self._translate_function(text)

    def translate_in_graph(
        self,
        text: tf.Tensor,
        options: TranslationOptions | None = None,
        prefix: tf.Tensor | None = None,
        num_best: int = 1,
        adapters: tf.Tensor | None = None,
    ) -> Translations:
        """Translates sentences, as part of a graph.

        Args:
            text: `(batch,)` strings.
            options: per-sentence options; None means those of the translator.
            prefix: `(batch,)` strings, forced at the start of the translations; scores and length
                penalties leave them out.
            num_best: number of translations per sentence.
            adapters: `(batch,)` int32, the adapter of each sentence, see `RowChoice`; None means
                none.
        """
        source, lengths = self.tokenize_source(text)
        rows: dict[str, Any] = {"source": source, "options": options or (), "prefix": ()}
        rows["adapters"] = () if adapters is None else adapters
        truncated = lengths > self.source_limit
        if prefix is not None:
            prefix_ids = self.target_tokenizer.tokenize(prefix)
            truncated |= tf.cast(prefix_ids.row_lengths(), tf.int32) > self.source_limit
            rows["prefix"] = prefix_ids[:, : self.source_limit]

        def translate_chunk(rows):
            prefix = None if isinstance(rows["prefix"], tuple) else rows["prefix"]
            adapters = None if isinstance(rows["adapters"], tuple) else rows["adapters"]
            found = self.search.run(
                rows["source"], rows["options"] or None, prefix, num_best, adapters
            )
            ids, scores, _, counts = (part[:, :num_best] for part in found)
            texts = self.target_tokenizer.detokenize(tf.reshape(ids, (-1, tf.shape(ids)[2])))
            is_empty = (rows["source"].row_lengths() == 0)[:, tf.newaxis]
            return tf.where(is_empty, "", tf.reshape(texts, (-1, num_best))), scores, counts

        specs = [tf.TensorSpec([num_best], x) for x in (tf.string, tf.float32, tf.int32)]
        text, scores, counts = map_chunks(
            translate_chunk,
            rows,
            lengths,
            self.chunk_size,
            tuple(specs),
            is_compiled=bool(self.search.compiled_shapes),
            is_apart=None if options is None else self.search.is_greedy(options),
        )
        return Translations(text, scores, counts, truncated)

    def tokenize_source(self, text: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Tokenizes sentences.

        Args:
            text: `(batch,)` strings.

        Returns:
            Ragged ids `(batch, (length))`, truncated to `source_limit`, and the lengths before
            truncation, `(batch,)` int32.
        """
        source = self.source_tokenizer.tokenize(text)
        return source[:, : self.source_limit], tf.cast(source.row_lengths(), tf.int32)

    def translate_lines(
        self, lines: Sequence[str | bytes], batch_size: int = 256, description: str | None = None
    ) -> Iterator[list[Translation]]:
        """Translates any number of sentences, with a progress bar on standard error.

        Args:
            lines: the sentences.
            batch_size: number of sentences that are translated at once and then yielded.
            description: text before the progress bar.

        Yields:
            The `num_best` translations of each sentence, in the order of `lines`.

        Raises:
            InputError: `lines` is no list of strings, or `batch_size` is not positive.
        """
        lines = list_of_texts(lines, "lines")
        _check_positive("batch_size", batch_size)
        with tqdm.tqdm(
            desc=description, total=len(lines), unit=" sentences", disable=None
        ) as progress:
            for start in range(0, len(lines), batch_size):
                batch = lines[start : start + batch_size]
                yield from self.translate_batch(batch)
                progress.update(len(batch))

    def translate_batch(self, lines: Sequence[str | bytes]) -> list[list[Translation]]:
        """Translates sentences in one batch.

        Unlike `n_best`, accepts scores that are not finite, so that training can be monitored.

        Args:
            lines: the sentences.

        Returns:
            The `num_best` translations of each sentence.
        """
        lines = list_of_texts(lines, "lines")
        found = self.translate(tf.constant(lines, tf.string, shape=[len(lines)]))
        columns = (x.numpy().tolist() for x in (found.text, found.scores, found.truncated))
        return [
            [
                Translation(text.decode(), score, truncated)
                for text, score in zip(texts, scores, strict=True)
            ]
            for texts, scores, truncated in zip(*columns, strict=True)
        ]


def _check_positive(name, value):
    if not is_whole(value) or value < 1:
        raise InputError(f"`{name}` must be a positive integer. Received: {name}={shown(value)}")


def _weights(weights: Any) -> tuple[float, ...]:
    if (
        not isinstance(weights, Iterable)
        or isinstance(weights, Mapping)
        or not all(map(is_number, weights := list(weights)))
    ):
        raise InputError(
            "`ensemble_weights` must be a list of numbers, one for each model. "
            f"Received: {shown(weights)}"
        )
    return tuple(weights)
