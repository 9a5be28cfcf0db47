"""Examples of requests to the signatures, for the guide of an export."""

import json
import string
from collections.abc import Iterable

from export.saved_model.signature_names import DOCUMENTS
from tf_transformer.decoding.search_options import CONTINUATION_OPTIONS, SEARCH_OPTIONS
from tf_transformer.terms.limits import SPAN_BITS

_TRANSLATE = "    tf-transformer translate --server localhost:8501"
_SENTENCE = "A sentence to translate."
_DOCUMENTS = (
    "lines of several sentences:\n\n"
    f"{_TRANSLATE} --split-sentences --input F --output G\n\n"
    "or whole documents (a span is the position of a sentence's first character, and the one\n"
    "after its last"
)


_TEXT_REQUESTS = """$send over REST:

    curl -d '{"inputs": {"text": ["A sentence to translate."]}}' \\
        http://localhost:8501/v1/models/$model:predict

or from Python, over gRPC, without TensorFlow:

    from $client import Client

    with Client("localhost:8500", model="$model", protocol="grpc", max_batch_size=$batch) as client:
        print(client.predict({"text": ["A sentence to translate."]}))

or a whole file:

    tf-transformer translate --server localhost:8501 --input F --output G
"""

_OTHER_REQUESTS = """$send with `$client.Client`, over REST or gRPC, without TensorFlow.
$inputs http://localhost:8501/v1/models/$model/metadata
"""

_SENTENCES = """
A text is one sentence, except in the signatures for documents. Of a text of several, the end may be
missing from the translation, and `truncated`, which is about the model's limit, does not tell. For
"""


def first_requests(names: Iterable[str], model: str, batch_size: int, *, former=False) -> str:
    """Returns Markdown with the simplest requests.

    Args:
        names: names of the exported signatures.
        model: the name by which the model is served.
        batch_size: the server's `max_batch_size`.
        former: whether to return what was in files without a digest, see `write_suggestion`.
    """
    shown = set(names)
    template = _TEXT_REQUESTS if "serving_default" in shown else _OTHER_REQUESTS
    return string.Template(template).substitute(
        model=model,
        batch=batch_size,
        send="Ask it" if former else "Send requests",
        client="export.client" if former else "export",
        inputs="What its signatures take:"
        if former
        else "The inputs of its signatures are listed at",
    )


def describe_sentences(names: Iterable[str]) -> str:
    """Returns Markdown that says what to do with a text of several sentences, "" without texts."""
    if all(name.startswith(("tokens", "continuation")) for name in names):
        return ""
    documents = [f"`{name}`" for name in DOCUMENTS if name in set(names)]
    if documents:
        return f"{_SENTENCES}such texts use `--split-sentences` or {' or '.join(documents)}.\n"
    return (
        f"{_SENTENCES}such texts export with `--signatures all document` and use "
        "`--split-sentences`.\n"
    )


def signature_examples(names: Iterable[str], model: str) -> str:
    """Returns Markdown with an example for each of the signatures that has one.

    Args:
        names: names of the exported signatures.
        model: the name by which the model is served.
    """
    unset = {option.name: option.unset for option in SEARCH_OPTIONS}
    unset_continuation = {option.name: option.unset for option in CONTINUATION_OPTIONS}
    shown = set(names)
    if "document" in shown:  # one example for the two
        shown -= {"document_options"}
    row = {"text": "A sentence.\nAnother one."}
    terms = {"terms": "sentence\tSatz", "protect": 1}
    examples = {
        "markup": "a web page, with its tags put back (or `--markup xml`):\n\n"
        f"{_TRANSLATE} --markup html --input page.html --output F",
        "document": _DOCUMENTS + "):\n\n" + _curl("document", row, model),
        "document_options": f"{_DOCUMENTS}; `keep_capitals`\nleaves capitals):\n\n"
        + _curl("document_options", row | {"keep_capitals": False} | unset, model),
        "document_terms": "lines of several sentences, with terms:\n\n"
        f"{_TRANSLATE} --split-sentences --terms glossary.tsv --input F --output G\n\n"
        "or documents, with a glossary for each:\n\n"
        + _curl("document_terms", row | {**terms, "keep_capitals": False} | unset, model),
        "terms": "with terms that must appear (a line of `glossary.tsv`: phrase, tab, its "
        "translation),\nand web addresses copied:\n\n"
        f"{_TRANSLATE} --terms glossary.tsv --protect urls --input F --output G\n\n"
        "or as a request, whose `protect` is the sum of "
        + ", ".join(f"{bit} ({kind})" for kind, bit in SPAN_BITS.items())
        + ":\n\n"
        + _curl("terms", {"text": _SENTENCE} | terms | unset, model),
        "word_links": "the word alignments of given translations:\n\n"
        "    tf-transformer align --server localhost:8501 --source F --target G --output H",
        "adapted": "with the adapter of a row (`model.json` has the names; any other means the "
        "model itself):\n\n"
        + _curl("adapted", {"text": _SENTENCE, "adapter": "NAME"} | unset, model),
        "confidence": "with a confidence for each word:\n\n"
        + _curl("confidence", {"text": _SENTENCE} | unset, model),
        "continuation": "a file whose lines are to be continued:\n\n"
        "    tf-transformer complete --server localhost:8501 --input F\n\n"
        "or a request:\n\n"
        + _curl("continuation", {"text": "The beginning of"} | unset_continuation, model),
        "language": "the language of a text:\n\n" + _curl("language", {"text": _SENTENCE}, model),
    }
    return "".join(f"\nor {text}\n" for name, text in examples.items() if name in shown)


def _curl(signature, row, model):
    inputs = {name: [value] for name, value in row.items()}
    body = json.dumps({"signature_name": signature, "inputs": inputs})
    return f"    curl -d '{body}' \\\n        http://localhost:8501/v1/models/{model}:predict"
