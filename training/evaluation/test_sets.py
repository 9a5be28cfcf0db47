"""Named test sets, which sacreBLEU downloads, checks and keeps in its cache."""

import contextlib
import dataclasses
import http.client
import itertools
import logging
import pathlib
import re
import socket
import tarfile
import urllib.error
import zipfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import sacrebleu.utils
from sacrebleu.dataset import DATASETS, SUBSETS
from sacrebleu.dataset.base import Dataset

from tf_transformer.errors import InputError
from tf_transformer.known_names import check_names
from tf_transformer.printable import printable
from tf_transformer.storage.files import locked
from tf_transformer.text.text_file import TextFile

if TYPE_CHECKING:  # reading without `dataset` must not import TensorFlow
    import tensorflow as tf

_log = logging.getLogger(__name__)
# Seconds without an answer after which a download fails.
_TIMEOUT = 60.0
# What sacreBLEU raises on files that it did not write whole.
_DAMAGE = (
    *(AssertionError, EOFError, IndexError, KeyError, SyntaxError, TypeError, ValueError),
    *(tarfile.TarError, zipfile.BadZipFile, FileNotFoundError),
)
_NETWORK = (urllib.error.URLError, ConnectionError, TimeoutError, http.client.HTTPException)


@dataclasses.dataclass(frozen=True)
class SelectedText(TextFile):
    """Some sentences of a text file.

    Args:
        rows: the indices of the sentences.
        selection: which they are, in words.
    """

    rows: frozenset[int] = frozenset()
    selection: str = ""

    def __str__(self) -> str:
        return f"{super().__str__()} ({self.selection})"

    def lines(self) -> Iterator[str]:
        """Yields the selected sentences, see `TextFile.lines`."""
        return (line for row, line in enumerate(super().lines()) if row in self.rows)

    def dataset(self) -> "tf.data.Dataset":
        """Returns the sentences of `lines` as a dataset of string scalars."""
        import tensorflow as tf

        spec = tf.TensorSpec((), tf.string)
        return tf.data.Dataset.from_generator(self.lines, output_signature=spec)


@dataclasses.dataclass(frozen=True)
class NamedTestSet:
    """The files of a test set of sacreBLEU.

    Args:
        facts: name, language pair, and subset if there is one.
        source: the source text.
        references: the reference translations.
        documents: the document of each sentence; empty if the test set does not tell.
    """

    facts: dict[str, str]
    source: TextFile
    references: list[TextFile]
    documents: list[str]


def check_test_set(name: str, language_pair: str) -> None:
    """Checks the names of a test set and of a language pair, without a download.

    Raises:
        InputError: sacreBLEU has no such test set, or not in these languages.
    """
    check_names([name], sorted(DATASETS), "test set")
    check_names([language_pair], DATASETS[name].langpairs, f"language pair of {name}")


def open_test_set(name: str, language_pair: str, subset: str | None = None) -> NamedTestSet:
    """Opens a test set, which is downloaded if sacreBLEU's cache does not have it.

    Args:
        name: sacreBLEU's name of the test set.
        language_pair: source and target language, such as "en-de".
        subset: a regular expression; only the sentences are taken in whose annotation it is found:
            their domain, or the country and domain of their document, or else the document's id.

    Raises:
        InputError: a name is unknown; the test set cannot be downloaded, or the download is not the
            published file; the expression is invalid, or is found nowhere.
        OSError: the cache cannot be written.
    """
    check_test_set(name, language_pair)
    pattern = _pattern(subset or "")  # before a download
    dataset = DATASETS[name]
    files = _cached_files(dataset, language_pair)
    source = TextFile(files["src"])
    references = [TextFile(file) for file in files["references"]]
    documents = _lines(files, "docid")
    facts = {"name": name, "language_pair": language_pair}
    if not references:
        raise InputError(f"test set {name} has no reference for {language_pair}")
    if subset is None:
        return NamedTestSet(facts, source, references, documents)
    rows = _rows(_annotations(name, files, documents), pattern, name)

    def select(text):
        return SelectedText(text.path, rows=rows, selection=f"subset {printable(subset, 100)}")

    return NamedTestSet(
        facts | {"subset": subset},
        select(source),
        [select(reference) for reference in references],
        [document for row, document in enumerate(documents) if row in rows],
    )


def _lines(files, field):
    return list(TextFile(files[field]).lines()) if field in files else []


def _annotations(name: str, files: dict[str, Any], documents: list[str]) -> list[str]:
    """Returns what `subset` selects by: what sacreBLEU takes if it has it, or the document's id."""
    if domains := _lines(files, "domain"):
        return domains
    if name in SUBSETS:
        return [SUBSETS[name].get(document, "") for document in documents]
    return documents


def _pattern(subset: str) -> re.Pattern[str]:
    try:
        return re.compile(subset.removeprefix("country:"))
    except re.error as error:
        raise InputError(f"--subset {printable(subset)}: not a regular expression: {error}") from (
            error
        )


def _rows(annotations: Sequence[str], pattern: re.Pattern[str], name: str) -> frozenset[int]:
    rows = frozenset(row for row, text in enumerate(annotations) if pattern.search(text))
    if not rows:
        some = ", ".join(map(printable, itertools.islice(dict.fromkeys(annotations), 10)))
        known = f"it has, among others, {some}" if some else "its sentences have no documents"
        raise InputError(
            f"--subset {printable(pattern.pattern)}: no sentence of test set {name} matches; "
            f"{known}"
        )
    return rows


def _cached_files(dataset: Dataset, language_pair: str) -> dict[str, Any]:
    """Returns sacreBLEU's files: those of each field by its name, and the `references`."""
    folder = pathlib.Path(sacrebleu.utils.SACREBLEU_DIR, dataset.name)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, "downloading this test set", _log.info), _one_line(dataset, folder):
        for path, checksum in _archives(dataset):
            if path.exists() and sacrebleu.utils.get_md5sum(path) != checksum:
                path.unlink()  # a download that was interrupted
        paths = list(map(pathlib.Path, dataset.get_files(language_pair)))
        fields = dataset.fieldnames(language_pair)
        # SacreBLEU's order of translators is that of a set of strings: another in each process.
        references = sorted(map(pathlib.Path, dataset.get_reference_files(language_pair)))
    return {**dict(zip(fields, paths, strict=True)), "references": references}


def _archives(dataset):
    """Yields the path of each file that the test set is downloaded as, and its MD5 checksum."""
    for url, checksum in zip(dataset.data, dataset.md5, strict=True):
        yield pathlib.Path(dataset._rawdir, dataset._get_tarball_filename(url)), checksum


@contextlib.contextmanager
def _one_line(dataset: Dataset, folder: pathlib.Path) -> Iterator[None]:
    """Raises errors of sacreBLEU, which ends the process on some, as one line."""
    logger, timeout = logging.getLogger("sacrebleu"), socket.getdefaulttimeout()
    was_disabled, logger.disabled = logger.disabled, True
    socket.setdefaulttimeout(_TIMEOUT)
    try:
        yield
    except SystemExit as error:
        raise InputError(_fault(dataset, folder)) from error
    except _DAMAGE as error:
        raise InputError(
            f"{folder}: incomplete or damaged ({printable(str(error), 200)}). Delete this folder "
            "of sacreBLEU's cache; the test set is then downloaded again"
        ) from error
    except _NETWORK as error:
        reason = printable(str(getattr(error, "reason", error)), 200)
        raise InputError(_offline(dataset, folder, reason)) from error
    finally:
        logger.disabled = was_disabled
        socket.setdefaulttimeout(timeout)


def _fault(dataset, folder):
    """Names what made sacreBLEU end the process: a checksum, or else an encrypted connection."""
    for path, checksum in _archives(dataset):
        if path.exists() and (found := sacrebleu.utils.get_md5sum(path)) != checksum:
            path.unlink()
            return (
                f"test set {dataset.name}: the download has another MD5 checksum than the "
                f"published file: expected {checksum}, received {found}. It has been deleted; try "
                "again, or look for a proxy or log-in page between this machine and the server"
            )
    return _offline(dataset, folder, "the encrypted connection failed")


def _offline(dataset, folder, reason):
    archives = [path for path, _ in _archives(dataset)]
    urls = zip(dataset.data, archives, strict=True)
    missing = [url for url, path in urls if not path.exists() or not path.stat().st_size]
    return (
        f"test set {dataset.name} is not in sacreBLEU's cache {folder} and cannot be downloaded: "
        f"{reason}. Missing is {', '.join(missing)}; with a network, `sacrebleu --download "
        f"{dataset.name}` puts it there. The environment variable SACREBLEU names the cache"
    )
