# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # A published model, served
#
# From a model that others have trained with another toolkit to a server that answers requests over
# HTTP, on a CPU. The example is OPUS-MT for English to German (`Helsinki-NLP/opus-mt-en-de`), one
# of more than a thousand translation models on the Hugging Face Hub; [models of other
# toolkits](../other-toolkits.md) lists the other kinds that can be imported. What a translation
# model is, and words such as beam search, are explained in [a translator in ten
# minutes](translator-in-ten-minutes.ipynb).
#
# To run it yourself: in a clone of the repository, `pip install -e ".[notebooks]" jupyterlab`, then
# `jupyter lab` in an empty folder with a copy of this notebook. It writes `data`, `trained`,
# `stand-in-for-opus-mt-en-de`, `model` and `served` there, and refuses a folder `model` that is
# there already, as one of another tutorial or of a former run.

# %%
# Installs the package where it is missing, as in Colab: with the extras `hf`, which downloads
# models, and `web`, the server.
REPOSITORY_URL = ""
import importlib.util
import subprocess
import sys

if REPOSITORY_URL and importlib.util.find_spec("tf_transformer") is None:
    package = f"tf-transformer[hf,web] @ git+{REPOSITORY_URL}"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", package], check=True)

import tf_transformer  # before TensorFlow, so that it hides the messages of its start

# %%
import json
import pathlib
import socket
import time
import urllib.error
import urllib.request

import tensorflow as tf

tf.get_logger().setLevel("ERROR")  # without its notes on checkpoints and folders

# %% [markdown]
# ## 1. The model
#
# With `DOWNLOAD = True` in the next cell, the notebook takes the published model (300 MB). With
# `False`, a stand-in is made here, so that the notebook runs without a network: a model of the same
# kind, in the files of the same names, but small and trained for half a minute on the sentences of
# the [demonstration](translator-in-ten-minutes.ipynb). It knows little more than dates and prices.
# All outputs shown here are the stand-in's. (`swish`, `post` and `marian` are what the models of
# OPUS-MT have in their layers.)

# %%
DOWNLOAD = False
NAME = "hf:Helsinki-NLP/opus-mt-en-de"


def make_stand_in(folder):
    """Trains a small model of the same kind as OPUS-MT, and writes it as such."""
    import training
    from tf_transformer.formats.convert_model import convert_model
    from training.demo.corpus import write_demonstration

    write_demonstration(pathlib.Path("data"), num_train=20_000)
    marian = {"norm_position": "post", "positions": "marian", "activation": "swish"}
    sizes = {"num_encoder_layers": 2, "num_decoder_layers": 1, "dropout_rate": 0.0}
    config = training.make_config(
        {
            "preset": "tiny",
            "model": marian | sizes,
            "vocabulary": {"size": 800},
            "data": {"batch_tokens": 640},
            "optimization": {
                "steps": 400,
                "warmup_steps": 150,
                "learning_rate_factor": 0.5,
                "checkpoint_every": 400,
            },
            "validation": {"translate_every": 0},
        }
    )
    training.train(
        config,
        corpus=training.TextPair("data/train.en", "data/train.de"),
        validation=training.TextPair("data/validation.en", "data/validation.de"),
        model_dir="trained",
    )
    convert_model("trained", "hf", folder)
    return folder


original = NAME if DOWNLOAD else make_stand_in("stand-in-for-opus-mt-en-de")
if not DOWNLOAD:
    for path in sorted(pathlib.Path(original).iterdir()):
        print(f"{path.name:28} {path.stat().st_size:>10,} bytes")

# %% [markdown]
# These are the files of a Marian model (the toolkit that OPUS-MT is trained with) in the form of
# Hugging Face's Transformers: settings (`config.json`), weights (`model.safetensors`), the pieces
# that text of both languages is cut into (`*.spm`, of the program SentencePiece), and their ids
# (`vocab.json`). Neither PyTorch nor Transformers is installed or needed: files of other people are
# read as data, and no code in them is run.
#
# ## 2. Import
#
# Every weight is checked: each that the settings promise must be there, with the right shape, and
# none may be left over. The result is a model directory like one of your own training.
# `import_model` returns notes on what you must know to use the model, such as the codes of its
# languages; this one has none, so none is printed. On the command line:
# `tf-transformer import --input hf:Helsinki-NLP/opus-mt-en-de --model-dir model`.

# %%
from tf_transformer.formats.import_model import import_model

for note in import_model(original, "model"):
    print("-", note)
sorted(path.name for path in pathlib.Path("model").iterdir())

# %% [markdown]
# ## 3. Translate
#
# From here on, nothing depends on where the model came from. `beam_size=4` is the number of
# beginnings that beam search follows.

# %%
SENTENCES = ["The museum opens at 3 p.m.", "Today is Monday, May 3.", "The lamp costs $20."]
translator = tf_transformer.Translator.load("model", beam_size=4)
for sentence, translation in zip(SENTENCES, translator(SENTENCES), strict=True):
    print(f"{sentence:30} {translation}")

# %% [markdown]
# (The stand-in makes errors: 3 p.m. is "15 Uhr". Half a minute of training is short.)
#
# More than one answer: `n_best` also returns the other translations that beam search ended with,
# here three in all, with their scores. A score is the logarithm of the model's probability,
# corrected for the length: the nearer to 0, the better.

# %%
several = tf_transformer.Translator.load("model", beam_size=4, num_best=3)
for translation in several.n_best(SENTENCES[:1])[0]:
    print(f"{translation.score:7.2f}  {translation.text}")

# %% [markdown]
# ## 4. Smaller and faster
#
# Weights are stored in 32 bits each (float32). With `dtype="int8"` of `load`, or `--dtype int8` of
# the commands, they take 8 bits, a quarter of the memory, and the products with large matrices are
# computed in 8 bits, too, which is faster ([fast serving](../fast-serving.md) has figures). This
# notebook remains in float32.
#
# ## 5. Export
#
# A **SavedModel** is a folder with the weights, the cutting into pieces and the search; TensorFlow
# runs it without this package. A **signature** is a function in it, with named inputs and outputs;
# `serving_default` is the one that translates. The export compares its answers with the model's, in
# a fresh process.
#
# The outputs have an entry for each of the three sentences: the translation, its score, and whether
# the source was longer than the model's limit (`truncated`).

# %%
import export

version = export.export_translator(translator, pathlib.Path("served"), ["serving_default"])
translate = tf.saved_model.load(str(version)).signatures["serving_default"]
answer = translate(text=tf.constant(SENTENCES))
assert [text.decode() for text in answer["translation"].numpy()] == translator(SENTENCES)
print({name: answer[name].shape.as_list() for name in sorted(answer)})

# %% [markdown]
# ## 6. Serve
#
# In production, TF Serving takes the folder `served` as it is. With Docker, in a terminal in the
# folder of this notebook; the command keeps running until you stop it:
#
# ```sh
# docker run --rm -p 127.0.0.1:8501:8501 -v "$PWD/served:/models/translator" \
#     -e MODEL_NAME=translator tensorflow/serving
# ```
#
# And in a second terminal:
#
# ```sh
# curl -d '{"instances": ["The lamp costs $20."]}' \
#     http://127.0.0.1:8501/v1/models/translator:predict
# ```
#
# Without Docker, the command `tf-transformer web --saved-model served` is a server, too: a page to
# try translations on, and an API in JSON. The next cell starts it in another process, on a free
# port, asks it by two addresses (`/health`: is it ready? `/api/translate`: lines of text), and ends
# it. In its answer, `best` has the translations of a line, the best first, and `seconds` is the
# time that it took.

# %%
with socket.socket() as found:
    found.bind(("127.0.0.1", 0))
    port = found.getsockname()[1]
command = ["web", "--saved-model", "served", "--port", str(port)]
server = subprocess.Popen(
    [sys.executable, "-m", "tf_transformer", *command],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)


def ask(path, body=None):
    """Returns what the server answers; waits until it has started."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers)
    while server.poll() is None:
        try:
            with urllib.request.urlopen(request) as response:
                return response.read().decode()
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
        time.sleep(0.5)
    raise RuntimeError("the server has ended; is the extra `web` installed?")


try:
    print(ask("/health").strip())
    answer = json.loads(ask("/api/translate", json.dumps({"lines": SENTENCES}).encode()))
    print(json.dumps(answer, indent=1, ensure_ascii=False))
finally:
    server.terminate()
    server.wait()

# %% [markdown]
# Before you offer it to others, read about [access](../serving.md#operating-tf-serving), and the
# licence of the model: `import` does not read it.
#
# The same with commands only: [a published model, served](../published-model-served.md). What can
# be done with an imported model besides: [fine-tuning](../fine-tuning.md), [HTML](../markup.md),
# [documents](../documents.md).
