"""Files that accompany a SavedModel for serving: server settings, a guide and a model card."""

import dataclasses
import pathlib
import shlex
import string

import numpy as np
import tensorflow as tf

from export.saved_model.signature_examples import signature_examples
from export.saved_model.suggestions import MARK, describe_kept, is_unedited, write_suggestion
from tf_transformer.decoding.search_options import SEARCH_OPTIONS
from tf_transformer.inference.translator import Translator
from tf_transformer.models.ensemble import Ensemble
from tf_transformer.quantization.int8 import is_quantized
from tf_transformer.storage.files import replacing
from tf_transformer.storage.json_files import write_json

MODEL_NAME = "translator"
MAX_BATCH_SIZE = 32
CARD_NAME = "model.json"
SESSION_NAME = "session_config.txt"


def write_model_card(
    version: pathlib.Path, translator: Translator, signatures: list[str], facts: dict
) -> None:
    """Writes the model card `model.json`: the model's configuration and its search options.

    Args:
        version: folder of the SavedModel.
        translator: the translator that was saved.
        signatures: names of the exported signatures.
        facts: further entries, such as languages, training steps, scores and the weights' digest.
    """
    model, search = translator.model, translator.search
    shortlist = search.shortlist and {"shortlist_digest_blake2b": search.shortlist.digest}
    card = {
        "model": dataclasses.asdict(model.config),
        "dtype": "int8" if is_quantized(model) else model.dtype_policy.name,
        "weights": sum(int(np.prod(weight.shape)) for weight in _weights(model)),
        "beam_size": search.beam_size,
        "length_penalty": search.length_penalty,
        "max_length_factor": search.max_length_factor,
        "max_length_constant": search.max_length_constant,
        **({"compiled_shapes": search.compiled_shapes} if search.compiled_shapes else {}),
        **(shortlist or {}),
        "tensorflow": tf.__version__,
        "signatures": signatures,
        **facts,
    }
    with replacing(version / CARD_NAME) as path:
        write_json(path, card)


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
    volume = f"{directory.resolve()}:/models/{MODEL_NAME}"
    names = dict(
        model=MODEL_NAME,
        batch=MAX_BATCH_SIZE,
        volume=shlex.quote(volume),
        signatures=", ".join(f"`{name}`" for name in signatures),
        requests=_requests(signatures, former=False),
        examples=signature_examples(signatures, MODEL_NAME),
        options=_OPTIONS if any(name.endswith("_options") for name in signatures) else "",
        tensorflow=tf.__version__,
        mark=MARK,
        host="127.0.0.1:",
        network=_NETWORK,
        flags=_SESSION_FLAG.format(model=MODEL_NAME) + (_XLA_FLAG if is_compiled else ""),
        xla_comment=_XLA_COMMENT if is_compiled else "",
        image=_IMAGE,
        versions=_VERSIONS,
    )
    former_names = names | _FORMER_NAMES
    former_names |= {"requests": _requests(signatures, former=True), "volume": f'"{volume}"'}
    for name, template in _TEMPLATES.items():
        text, former = (string.Template(template).substitute(n) for n in (names, former_names))
        write_suggestion(directory / name, text, former)


def _requests(signatures, former):
    """Returns the part of the guide about requests, or what it was in files without a digest."""
    template = _TEXT_REQUESTS if "serving_default" in signatures else _OTHER_REQUESTS
    return string.Template(template).substitute(
        model=MODEL_NAME,
        batch=MAX_BATCH_SIZE,
        send="Ask it" if former else "Send requests",
        inputs="What its signatures take:"
        if former
        else "The inputs of its signatures are listed at",
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

# Larger batches decode no faster on a CPU. A request waits up to 5 ms to be merged with others.
_BATCHING = """# $mark
max_batch_size { value: $batch }
batch_timeout_micros { value: 5000 }
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

_SESSION_FLAG = """ \\
        --tensorflow_session_config_file=/models/{model}/session_config.txt"""

_XLA_FLAG = """ \\
        --xla_cpu_compilation_enabled=true"""

# The server refuses to load the version without it, when it replays the warm-up requests.
_XLA_COMMENT = "# Start the server with --xla_cpu_compilation_enabled=true.\n"

_README = """# A translator for TF Serving

Serve it (TF Serving of TensorFlow $tensorflow or newer; $image):

    docker run --rm -p ${host}8500:8500 -p ${host}8501:8501 -v $volume \\
        tensorflow/serving --model_config_file=/models/$model/models.config \\
        --enable_batching --batching_parameters_file=/models/$model/batching_parameters.txt$flags

$network$requests$examples
Signatures: $signatures.$options

$versions

<!-- $mark -->
"""

_IMAGE = "the official image is sufficient"

_NETWORK = """Only programs on this machine can then connect. The server has no authentication, and
anyone who can connect to port 8500 can also have it serve other folders: for other callers, put a
proxy in front of it.

"""

_VERSIONS = """A new export appears here, complete, under the next number; the server switches to it
automatically. `model.json` in the folder of a version describes its model."""

# What these parts were in files without a digest, which are recognized by their text.
_FORMER_NAMES = {
    "examples": "",
    "host": "",
    "network": "",
    "flags": "",
    "image": "its stock image has all that is needed",
    "versions": "A new export appears here under the next number, whole; the server changes over "
    "to it by itself.\nWhat each version is: `model.json` in its folder.",
}

_TEXT_REQUESTS = """$send over REST:

    curl -d '{"inputs": {"text": ["A sentence to translate."]}}' \\
        http://localhost:8501/v1/models/$model:predict

or from Python, over gRPC, without TensorFlow:

    from export.client import Client

    with Client("localhost:8500", model="$model", protocol="grpc", max_batch_size=$batch) as client:
        print(client.predict({"text": ["A sentence to translate."]}))

or a whole file:

    tf-transformer translate --server localhost:8501 --input F --output G
"""

_OTHER_REQUESTS = """$send with `export.client.Client`, over REST or gRPC, without TensorFlow.
$inputs http://localhost:8501/v1/models/$model/metadata
"""

_OPTIONS = " Those that end in `_options` take, for every\nrow, " + ", ".join(
    f"`{option.name}` ({option.default})" for option in SEARCH_OPTIONS
)

_GUIDE = "README.md"
_TEMPLATES = {
    "models.config": _MODELS,
    "batching_parameters.txt": _BATCHING,
    SESSION_NAME: _SESSION,
    _GUIDE: _README,
}
