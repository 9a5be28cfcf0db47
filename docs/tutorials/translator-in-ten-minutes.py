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
# A **translation model** is a function from a sentence to a sentence. Nobody writes its rules: it
# has several hundred thousand numbers, the **weights**, and **training** changes them a little at a
# time, so that the translations of example sentences become more probable.

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
# it does on sentences it does not learn from; `test` is used once, at the end.

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
# The settings say how large the model is and how long it learns; what is not named has a default.
# `d_model` is the number of entries in the vector of a word. A **step** is one small change of the
# weights, after looking at a batch of sentences with about 640 words in all.
#
# Two settings are for this corpus, which is full of numbers: `split_digits` makes each digit a
# piece of its own, and `relative_positions` lets the model see which pieces are neighbours.
#
# The **loss** is the number that training makes smaller: how surprised the model is by the right
# next word. `perplexity` says the same as a number of words: with 3, the model is as unsure as if
# it had to guess between three equally probable ones.

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
# `model` is a folder with the weights, the settings and the vocabularies. If training is
# interrupted, run the cell again: it goes on where it stopped. On the command line the same is
# `tf-transformer train --source data/train.en --target data/train.de ...`.

# %%
sorted(path.name for path in pathlib.Path("model").iterdir())

# %% [markdown]
# ## 3. Translation

# %%
translator = tf_transformer.Translator.load("model", beam_size=4)
sentences = read_lines("test.en")[:5]
for english, german in zip(sentences, translator(sentences), strict=True):
    print(f"{english:45} {german}")

# %% [markdown]
# What happened to the first sentence? The model does not know words, it knows **pieces**: the
# vocabulary has 1,200 of them, frequent words and parts of rare ones. `▁` marks the beginning of a
# word. So any text can be written, names and numbers too.

# %%
tokenizer = translator.source_tokenizer
ids = tokenizer.tokenize(tf.constant(sentences[:1]))[0].numpy()
print([tokenizer.pieces[index] for index in ids])
print(ids)

# %% [markdown]
# From these ids the model computes the probability of each first piece of the translation; given
# the first one, of each second piece, and so on. **Beam search** follows the 4 most probable
# beginnings at a time. The picture shows all that it looked at; the best one is blue.

# %%
from training.plots.controls import show_figure
from training.plots.recorded_search import record_search
from training.plots.search_tree import draw_search

show_figure(draw_search(record_search(translator, "Anna has two photos.")))

# %% [markdown]
# ## 4. A look inside
#
# While it writes a piece, the model looks back at the source: **attention**. Each row is a piece of
# the translation, each column a piece of the source, and the darker a square, the more the row's
# piece depends on that column. The model has four such looks, its **heads**; nobody told them what
# to look for.

# %%
from tf_transformer.inference.inspection import inspect_attention
from training.plots.attention_maps import draw_attention

inspected = inspect_attention(translator, "The museum opens at 3 a.m.")
print(inspected.translation)
show_figure(draw_attention(inspected, "cross"))

# %% [markdown]
# A row shows what the model looks at *before* it writes the next piece, so the row of `<s>` (begin)
# belongs to the first piece of the translation.
#
# ## 5. How good is it?
#
# Translations of the 500 test sentences, compared with their references. **BLEU** counts sequences
# of up to four words that both have, **chrF** sequences of characters; 100 would be identical.
# Since each of these sentences has one right translation, we can also count how many are exactly
# right.

# %%
source, references = read_lines("test.en"), read_lines("test.de")
translations = translator(source)
pairs = list(zip(source, translations, references, strict=True))
wrong = [pair for pair in pairs if pair[1] != pair[2]]
print(sacrebleu.corpus_bleu(translations, [references]))
print(sacrebleu.corpus_chrf(translations, [references]))
print(f"exactly right: {1 - len(wrong) / len(pairs):.1%}")

# %%
plt.figure(figsize=(5, 3), dpi=80)
plt.plot(range(100, 100 * len(perplexities) + 1, 100), perplexities, marker="o")
plt.yscale("log")
plt.xlabel("step")
plt.ylabel("validation perplexity")
plt.show()

# %% [markdown]
# A number alone says little: look at sentences that are wrong.

# %%
for english, german, reference in wrong[:5]:
    print(f"source:    {english}\nours:      {german}\nreference: {reference}\n")

# %% [markdown]
# `tf-transformer demo` trains for 1,100 steps instead of 700, and takes the mean of the last three
# checkpoints, which makes fewer errors.
#
# ## 6. A program to serve
#
# `export_translator` writes a **SavedModel**: a folder that TensorFlow runs without this package
# and without its Python code, for example in TF Serving behind a web site. Text goes in, text comes
# out; tokenizer and beam search are inside. The export starts a fresh process that loads the
# folder, and compares its answers with those of the model.

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
