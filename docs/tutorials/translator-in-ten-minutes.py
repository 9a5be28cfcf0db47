# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # A translator in ten minutes
#
# From a corpus to a program that answers with translations, without a GPU: data, training, a look
# inside, evaluation, export. You need Python, and no knowledge of neural networks.
#
# To run it yourself: in a clone of the repository, `pip install -e ".[notebooks]" jupyterlab`, then
# `jupyter lab` in an empty folder with a copy of this notebook. It writes the folders `data`,
# `model` and `served` there; other tutorials do the same, so give each a folder of its own.
#
# A **translation model** is a function from a sentence to a sentence. Nobody writes its rules: it
# has numbers, here about 620,000 of them, the **weights**, and **training** changes them a little
# at a time, so that the translations of example sentences become more probable.

# %%
# Installs the package where it is missing, as in Colab.
REPOSITORY_URL = ""
import importlib.util
import subprocess
import sys

if REPOSITORY_URL and importlib.util.find_spec("tf_transformer") is None:
    package = f"tf-transformer @ git+{REPOSITORY_URL}"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", package], check=True)

import tf_transformer  # before TensorFlow, so that it hides the messages of its start

# %%
import pathlib

import keras
import matplotlib.pyplot as plt
import sacrebleu
import tensorflow as tf

import training

tf.get_logger().setLevel("ERROR")  # without its notes on checkpoints and folders

# %% [markdown]
# ## 1. Data
#
# A **parallel corpus**: two files, in which line $n$ of one translates line $n$ of the other. This
# one comes with the package: dates, times, amounts and short sentences, made from templates. For
# text of your own, all that follows is the same.
#
# There are three parts. The model learns from `train`; `validation` shows during training how well
# it does on sentences it does not learn from; `test` is for the end: no decision about the training
# is made with it.

# %%
from training.demo.corpus import write_demonstration

data = pathlib.Path("data")
write_demonstration(data)


def read_lines(name):
    """Returns the lines of a file of the corpus."""
    return (data / name).read_text(encoding="utf-8").splitlines()


for english, german in list(zip(read_lines("train.en"), read_lines("train.de"), strict=True))[:6]:
    print(f"{english:45} {german}")
print(len(read_lines("train.en")), "pairs to learn from")

# %% [markdown]
# ## 2. Training
#
# The model does not know words, it knows **pieces**: frequent words, and parts of rare ones. The
# **vocabulary** is the list of all pieces; it is made from the corpus before training begins.
#
# The settings below say how large the model is and how long it learns; what is not named has a
# default. `preset` is a set of sizes that has a name, here those of a small model, of which the
# next lines change some. A **step** is one small change of the weights, after looking at a batch of
# sentences, at most 640 pieces (`batch_tokens`) on each side. There are 700 steps; how far each
# goes grows for 150 of them (`warmup_steps`) and then falls, and `learning_rate_factor` multiplies
# it. After every 100 steps the weights are saved, a **checkpoint**, and `validation` is looked at.
#
# Two settings are for this corpus, which is full of numbers: `split_digits` makes each digit a
# piece of its own, and `relative_positions` lets the model see which pieces are neighbours.
# `dropout_rate` 0 and `translate_every` 0 switch off what so short a training does not need.
#
# The **loss** is the number that training makes smaller: how surprised the model is by the right
# next piece. **Perplexity** says the same as a number of pieces: with 3, the model is as unsure as
# if it had to guess between three equally probable ones. 1 is the least that is possible.

# %%
config = training.make_config(
    {
        "preset": "tiny",
        "vocabulary": {"size": 1200, "split_digits": True},
        "model": {
            "num_encoder_layers": 2,
            "num_decoder_layers": 1,
            "relative_positions": "keys",
            "dropout_rate": 0.0,
        },
        "data": {"batch_tokens": 640},
        "optimization": {
            "steps": 700,
            "warmup_steps": 150,
            "learning_rate_factor": 0.5,
            "checkpoint_every": 100,
        },
        "validation": {"translate_every": 0},
    }
)


perplexities = []


class Progress(keras.callbacks.Callback):
    """Prints and keeps the perplexity of each checkpoint."""

    def on_epoch_end(self, epoch, logs=None):
        """Is called by Keras after each checkpoint."""
        perplexities.append(logs["val_perplexity"])
        print(f"step {100 * (epoch + 1):4}: validation perplexity {logs['val_perplexity']:6.2f}")


result = training.train(
    config,
    corpus=training.TextPair(str(data / "train.en"), str(data / "train.de")),
    validation=training.TextPair(str(data / "validation.en"), str(data / "validation.de")),
    model_dir="model",
    callbacks=[Progress()],
)

# %% [markdown]
# `model` is a folder: the weights (`model.weights.h5`), the settings (`config.json`,
# `training.json`), the vocabularies (`*.spm`), and what is needed to continue (`checkpoints`) or to
# look back (`logs`). If training is interrupted, run the cell again: it goes on where it stopped.
# On the command line the same is `tf-transformer train`, with the files and settings as options;
# [quick start](../quick-start.md) has whole commands.

# %%
sorted(path.name for path in pathlib.Path("model").iterdir())

# %% [markdown]
# ## 3. Translation
#
# The first sentences of `test`, which training has not seen (`beam_size` is explained below):

# %%
translator = tf_transformer.Translator.load("model", beam_size=4)
sentences = read_lines("test.en")[:5]
for english, german in zip(sentences, translator(sentences), strict=True):
    print(f"{english:45} {german}")

# %% [markdown]
# All are right except the first: £ has become €, and a digit of 9,557 is lost. To see what the
# model has to work with, here are the pieces of that sentence, and the number of each in the
# vocabulary, its **id**. The vocabulary has 1,200 pieces; `▁` marks the beginning of a word.
# Letters and digits are pieces, too, so names and numbers that are not in the corpus can be
# written.

# %%
tokenizer = translator.source_tokenizer
ids = tokenizer.tokenize(tf.constant(sentences[:1]))[0].numpy()
print([tokenizer.pieces[index] for index in ids])
print(ids)

# %% [markdown]
# The input was complete: every digit of 9,557 is there. The model copies a number one digit at a
# time, and left one out; section 5 counts how often such things happen.
#
# From these ids the model computes the probability of each first piece of the translation; given
# the first one, of each second piece, and so on. **Beam search** follows the 4 most probable
# beginnings at a time (`beam_size=4`).
#
# The picture shows, for another sentence, all beginnings that it kept, to be read from left to
# right: each column is a step, with at most 4 pieces that may come next. `<s>` is the beginning and
# `</s>` the end. The number after an end is the score: the logarithm of the probability, corrected
# for the length, so the one nearest to 0 is the best. Its path is blue.

# %%
from training.plots.controls import show_figure
from training.plots.recorded_search import record_search
from training.plots.search_tree import draw_search

show_figure(draw_search(record_search(translator, "Anna has two photos.")))

# %% [markdown]
# ## 4. A look inside
#
# While it writes a piece, the model looks back at the source: **attention**. Each column is a piece
# of the source, and the darker a square, the more weight its column has; the weights of a row sum
# to 1. A row is the moment *after* its piece was written, when the next one is chosen: the row of
# `<s>` belongs to the first piece of the translation. The model has four such looks, its **heads**,
# a picture each; nobody told them what to look for.

# %%
from tf_transformer.inference.inspection import inspect_attention
from training.plots.attention_maps import draw_attention

inspected = inspect_attention(translator, "The museum opens at 3 a.m.")
print(inspected.translation)
show_figure(draw_attention(inspected, "cross"))

# %% [markdown]
# In the picture stored here (yours may differ a little): before `3` is written, in the row of the
# lone `▁`, three of the four heads look at the `3` of the source. Before `Uhr`, in the row of `3`,
# they look at the `m` of "a.m.". And before `Das`, in the first row, three look at `museum`, not
# only at `The`: in German the article depends on the noun.
#
# ## 5. How good is it?
#
# Translations of the 500 test sentences, compared with their **references**, the right translations
# in `test.de`. **BLEU** counts sequences of up to four words that both have, **chrF** sequences of
# characters; 100 would be identical. Of the line for BLEU, the first number is the score; the next
# four are the shares of sequences of one, two, three and four words that were found in the
# references, and BP is below 1 if the translations are too short. Since each of these sentences has
# one right translation, we can also count how many are exactly right.

# %%
source, references = read_lines("test.en"), read_lines("test.de")
translations = translator(source)
pairs = list(zip(source, translations, references, strict=True))
wrong = [pair for pair in pairs if pair[1] != pair[2]]
print(sacrebleu.corpus_bleu(translations, [references]))
print(sacrebleu.corpus_chrf(translations, [references]))
print(f"exactly right: {1 - len(wrong) / len(pairs):.1%}")

# %% [markdown]
# And how did it come about? The perplexity on `validation` at each checkpoint (the axis is
# logarithmic). Most is learned in the first 400 steps; after 700 it still falls a little, so more
# steps would help.

# %%
plt.figure(figsize=(5, 3), dpi=80)
plt.plot(range(100, 100 * len(perplexities) + 1, 100), perplexities, marker="o")
plt.yscale("log")
plt.xlabel("step")
plt.ylabel("validation perplexity")
plt.show()

# %% [markdown]
# A number alone says little: look at sentences that are wrong. Here it is mostly numbers; one is an
# ending (`einer` for `eine`).

# %%
for english, german, reference in wrong[:5]:
    print(f"source:    {english}\nours:      {german}\nreference: {reference}\n")

# %% [markdown]
# `tf-transformer demo` trains for 1,100 steps instead of 700, and takes the mean of the weights of
# the last three checkpoints.
#
# ## 6. A program to serve
#
# `export_translator` writes a **SavedModel**: a folder that TensorFlow runs without this package
# and without its Python code, for example in TF Serving behind a web site. Text goes in, text comes
# out; the cutting into pieces and the beam search are inside. A **signature** is a function in it,
# with named inputs and outputs; `serving_default` is the one that translates. The export starts a
# fresh process that loads the folder, and compares its answers with those of the model. The result
# is `served/1`: servers expect a numbered folder for each version.

# %%
import export

version = export.export_translator(translator, pathlib.Path("served"), ["serving_default"])
translate = tf.saved_model.load(str(version)).signatures["serving_default"]
answer = translate(text=tf.constant(["The museum opens at 3 a.m.", "Jan paid $548 for the horse."]))
print([text.decode() for text in answer["translation"].numpy()])

# %% [markdown]
# ## What next
#
# - Your own text: [quick start](../quick-start.md), and [training](../training.md) for all
#   settings.
# - A model that others have trained: [published model, served](published-model-served.ipynb).
# - How it works: [the Transformer, equation by equation](transformer-equation-by-equation.ipynb).
