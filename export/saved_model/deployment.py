"""Files that accompany a SavedModel for serving: server settings, a guide and a model card."""

import dataclasses
import pathlib
import re
import shlex
import string

import numpy as np
import tensorflow as tf

from export.saved_model.signature_examples import (
    describe_sentences,
    first_requests,
    signature_examples,
)
from export.saved_model.suggestions import MARK, describe_kept, is_unedited, write_suggestion
from tf_transformer.decoding.search_options import SEARCH_OPTIONS
from tf_transformer.inference.continuer import Continuer
from tf_transformer.inference.translator import Translator
from tf_transformer.models.ensemble import Ensemble
from tf_transformer.quantization.int8 import is_quantized
from tf_transformer.storage.files import replacing
from tf_transformer.storage.json_files import write_json
from tf_transformer.storage.saved_model import CARD_NAME

MODEL_NAME = "translator"
MAX_BATCH_SIZE = 32
SESSION_NAME = "session_config.txt"


def write_model_card(
    version: pathlib.Path, engine: Translator | Continuer, signatures: list[str], facts: dict
) -> None:
    """Writes the model card `model.json`: the model's configuration and its search options.

    Args:
        version: folder of the SavedModel.
        engine: the translator, or the continuer of a language model, that was saved.
        signatures: names of the exported signatures.
        facts: further entries, such as languages, training steps, scores and the weights' digest.
    """
    model = engine.model
    card = {
        "model": dataclasses.asdict(model.config),
        "dtype": "int8" if is_quantized(model) else model.dtype_policy.name,
        "weights": sum(int(np.prod(weight.shape)) for weight in _weights(model)),
        **_search_facts(engine),
        "tensorflow": tf.__version__,
        "signatures": signatures,
        **facts,
    }
    with replacing(version / CARD_NAME) as path:
        write_json(path, card)


def _search_facts(engine):
    if isinstance(engine, Continuer):
        return {
            "beam_size": engine.beam_size,
            "length_penalty": engine.length_penalty,
            "max_tokens": engine.max_new_tokens,
        }
    search = engine.search
    shortlist = search.shortlist and {"shortlist_digest_blake2b": search.shortlist.digest}
    return {
        "beam_size": search.beam_size,
        "length_penalty": search.length_penalty,
        "max_length_factor": search.max_length_factor,
        "max_length_constant": search.max_length_constant,
        **({"compiled_shapes": search.compiled_shapes} if search.compiled_shapes else {}),
        **(shortlist or {}),
    }


def _weights(model):
    """Returns the model's weights without the second copy of the embeddings used for logits."""
    members = model.members if isinstance(model, Ensemble) else [model]
    products = [member.target_embedding.product for member in members]
    repeated = {id(weight) for product in products for weight in getattr(product, "weights", ())}
    return [weight for weight in model.weights if id(weight) not in repeated]


def write_deployment(
    directory: pathlib.Path, signatures: list[str], *, is_compiled: bool = False
) -> None:
    """Writes the server's settings and `README.md` into the directory of the versions.

    Edited files are kept, see `write_suggestion`.

    Args:
        directory: contains the numbered versions.
        signatures: names of the newest version's signatures.
        is_compiled: whether the newest version needs a server that compiles with XLA.
    """
    folder = directory.resolve()
    volume = f"{folder}:/models/{MODEL_NAME}"
    flags = _MORE_FLAGS + (_XLA_FLAG if is_compiled else "")
    wait = _SHORT_WAIT if is_compiled else _WAIT
    names = dict(
        model=MODEL_NAME,
        batch=MAX_BATCH_SIZE,
        wait=wait,
        volume=shlex.quote(volume),
        signatures=", ".join(f"`{name}`" for name in signatures),
        requests=first_requests(signatures, MODEL_NAME, MAX_BATCH_SIZE),
        examples=signature_examples(signatures, MODEL_NAME),
        sentences=describe_sentences(signatures),
        title="A language model" if "continuation" in signatures else "A translator",
        options=_OPTIONS if any(name.endswith("_options") for name in signatures) else "",
        tensorflow=tf.__version__,
        mark=MARK,
        host="127.0.0.1:",
        network=_NETWORK,
        flags=_with_folder(flags, f"/models/{MODEL_NAME}"),
        without_docker=_with_folder(_WITHOUT_DOCKER + flags, str(folder)),
        settings=_SETTINGS.format(milliseconds=wait // 1000),
        xla_comment=_XLA_COMMENT if is_compiled else "",
        image=_IMAGE,
        versions=_VERSIONS,
    )
    former_names = names | _FORMER_NAMES
    former_names |= {
        "requests": first_requests(signatures, MODEL_NAME, MAX_BATCH_SIZE, former=True),
        "volume": f'"{volume}"',
    }
    for name, template in _TEMPLATES.items():
        text, former = (string.Template(template).substitute(n) for n in (names, former_names))
        write_suggestion(directory / name, text, former)


def _with_folder(command, folder):
    """Returns a command with the names of files in a folder, as a shell reads them."""
    return re.sub(
        r"\$folder\S*", lambda name: shlex.quote(name[0].replace("$folder", folder)), command
    )


def describe_deployment(directory: pathlib.Path) -> list[str]:
    """Returns messages about the files of `write_deployment`: the guide, and each kept file."""
    guide = directory / _GUIDE
    lines = [f"{guide}: how to serve the model and send it requests"] if is_unedited(guide) else []
    paths = [directory / name for name in _TEMPLATES]
    return lines + [describe_kept(path) for path in paths if not is_unedited(path)]


_MODELS = """# $mark
${xla_comment}model_config_list {
  config {
    name: "$model"
    base_path: "/models/$model"
    model_platform: "tensorflow"
  }
}
"""

# Microseconds that a request waits to be merged with others: usually, and if the search is
# compiled, which is for low latency and gains little from batches.
_WAIT, _SHORT_WAIT = 5000, 1000

# Larger batches decode no faster on a CPU.
_BATCHING = """# $mark
max_batch_size { value: $batch }
batch_timeout_micros { value: $wait }
max_enqueued_batches { value: 1000 }
num_batch_threads { value: 2 }
"""

# Optimizing the whole graph of each signature takes longer than optimizing its functions
# separately, and decoding gets no faster.
_SESSION = """# $mark
graph_options {
  rewrite_options {
    disable_meta_optimizer: true
  }
}
"""

# gRPC refuses calls beyond TF Serving's default, 4 per processor.
_MORE_FLAGS = """ \\
        --grpc_max_threads=64 \\
        --tensorflow_session_config_file=$folder/session_config.txt"""

_XLA_FLAG = """ \\
        --xla_cpu_compilation_enabled=true"""

# The server refuses to load the version without it, when it replays the warm-up requests.
_XLA_COMMENT = "# Start the server with --xla_cpu_compilation_enabled=true.\n"

_README = """# $title for TF Serving

Serve it (TF Serving of TensorFlow $tensorflow or newer; $image):

    docker run --rm -p ${host}8500:8500 -p ${host}8501:8501 -v $volume \\
        tensorflow/serving --model_config_file=/models/$model/models.config \\
        --enable_batching --batching_parameters_file=/models/$model/batching_parameters.txt$flags

$network$without_docker$settings$requests$examples$sentences
Signatures: $signatures.$options

$versions

<!-- $mark -->
"""

_IMAGE = "the official image is sufficient"

_NETWORK = """Only programs on this machine can then connect. The server has no authentication, and
anyone who can connect to port 8500 can also have it serve other folders: for other callers, put a
proxy in front of it.

"""

# The path in `models.config` is that of the container.
_WITHOUT_DOCKER = """Without Docker:

    tensorflow_model_server --port=8500 --rest_api_port=8501 \\
        --model_name=translator --model_base_path=$folder \\
        --enable_batching --batching_parameters_file=$folder/batching_parameters.txt"""

_SETTINGS = """

This opens the two ports to every network of the machine, unless a firewall blocks them. It needs
no `models.config`, whose `base_path` is for Docker: with `--model_config_file`, change it to this
folder.

`--grpc_max_threads` is how many calls over gRPC the server accepts at once. More are refused with
RESOURCE_EXHAUSTED, "Server Threadpool Exhausted". On more than 16 processors leave it out: the
default is 4 per processor.

A request waits up to {milliseconds} ms for others, to be computed with them. To change this, set
`batch_timeout_micros` in `batching_parameters.txt`, or turn batching off by leaving out the two
flags with `batching` in their names. Milliseconds for one sentence over gRPC (p50; a small model,
two busy cores), and requests per second:

| `batch_timeout_micros` | one caller | one caller, export with `--xla` | 16 callers, with `--xla` |
|---|---|---|---|
| 5000, as written without `--xla` | 22 | 11 to 13 | 311 requests/s |
| 1000, as written with `--xla` | not measured | 6.7 | 279 requests/s |
| no batching | 12 | 4.6 | not measured |

"""

_VERSIONS = """A new export appears here, complete, under the next number; the server switches to it
automatically. `model.json` in the folder of a version describes its model."""

# What these parts were in files without a digest, which are recognized by their text.
_FORMER_NAMES = {
    "examples": "",
    "sentences": "",
    "host": "",
    "network": "",
    "flags": "",
    "without_docker": "",
    "settings": "",
    "wait": 5000,
    "image": "its stock image has all that is needed",
    "versions": "A new export appears here under the next number, whole; the server changes over "
    "to it by itself.\nWhat each version is: `model.json` in its folder.",
}

_OPTIONS = " Those that end in `_options` take, for every\nrow, " + ", ".join(
    f"`{option.name}` ({option.documented_default})" for option in SEARCH_OPTIONS
)

_GUIDE = "README.md"
_TEMPLATES = {
    "models.config": _MODELS,
    "batching_parameters.txt": _BATCHING,
    SESSION_NAME: _SESSION,
    _GUIDE: _README,
}
