# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # From RNN to attention
#
# Before 2017, translation models were **recurrent**: they read a sentence word by word and kept
# what they had read in one vector, the **state**. This notebook builds three models in the order of
# history and gives them the same task, so that you see what each step solved.
#
# You need Python and NumPy, and a few words: a **model** is a function with numbers in it, its
# **weights**; training changes these a little at each **step**, so that the **loss**, a number that
# says how wrong the model is, falls. An **encoder** reads the input, a **decoder** writes the
# output. The models:
#
# 1. an encoder and a decoder that are recurrent (Sutskever et al., 2014; Cho et al., 2014);
# 2. the same with attention (Bahdanau et al., 2015);
# 3. the Transformer, attention without recurrence (Vaswani et al., 2017).

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
import keras
import matplotlib.pyplot as plt
import numpy as np

keras.utils.set_random_seed(1)

# %% [markdown]
# ## The task
#
# Write a row of 2 to 16 digits in reverse order. It is no language, but it has what makes
# translation hard: the words stand in another order, and a long sentence has to be remembered
# exactly.
#
# The ids: 0 is padding, 2 begins the output, 3 ends a row; the digits are 4 to 13. The decoder's
# input is the right output, shifted by one place (**teacher forcing**), and its **labels**, what it
# has to predict, are the right output not shifted: at each place the next digit.

# %%
BEGIN, END, VOCAB_SIZE, LONGEST = 2, 3, 14, 16


def make_rows(count, seed, lengths=range(2, LONGEST + 1)):
    """Returns the inputs and the labels of rows with random digits."""
    random = np.random.default_rng(seed)
    source = np.zeros((count, LONGEST + 1), "int32")
    labels = np.zeros_like(source)
    for row, length in enumerate(random.choice(list(lengths), count)):
        digits = random.integers(4, VOCAB_SIZE, length)
        source[row, : length + 1] = [*digits, END]
        labels[row, : length + 1] = [*digits[::-1], END]
    target = np.concatenate([np.full((count, 1), BEGIN), labels[:, :-1]], axis=1).astype("int32")
    return {"source": source, "target": target}, labels


inputs, labels = make_rows(1, seed=1, lengths=[5])
print("source", inputs["source"][0, :8])
print("target", inputs["target"][0, :8])
print("labels", labels[0, :8])

# %% [markdown]
# All models are trained with the same rows, loss and number of steps; their learning rates and
# numbers of weights differ, so this compares ideas and is not a race. The accuracy that is printed
# is the share of digits (and ends) predicted right in the last part of the training, when the right
# digits before are given.

# %%
BATCH_SIZE, STEPS = 64, 1200
training_inputs, training_labels = make_rows(BATCH_SIZE * STEPS, seed=2)


def train(model, rate):
    """Trains a model, prints its accuracy, and returns the loss of 15 parts of the training."""
    model.compile(
        optimizer=keras.optimizers.Adam(rate, beta_2=0.98, clipnorm=1.0),
        loss=tf_transformer.LabelSmoothedCrossEntropy(0.0),
        metrics=[tf_transformer.TokenAccuracy(name="accuracy")],
        jit_compile=False,
    )
    losses = []
    for part in np.array_split(np.arange(BATCH_SIZE * STEPS), 15):
        rows = {name: array[part] for name, array in training_inputs.items()}
        history = model.fit(
            rows, training_labels[part], batch_size=BATCH_SIZE, shuffle=False, verbose=0
        ).history
        losses.append(history["loss"][0])
    print(f"{model.count_params():,} weights, accuracy at the end {history['accuracy'][0]:.1%}")
    return losses


# %% [markdown]
# ## 1. A recurrent encoder and decoder
#
# A recurrent layer takes the words one after the other; the new state is a function of the old
# state and the word. This one is a GRU (Cho et al., 2014). From the old state $h_{t-1}$ and word
# $t$ it computes a proposal $\tilde h_t$ for the new state, and a **gate** $z_t$, numbers between 0
# and 1 that decide for each entry how much of the old state is kept ($\odot$ multiplies entry by
# entry):
#
# $$h_t = (1 - z_t) \odot \tilde h_t + z_t \odot h_{t-1}$$
#
# The encoder reads the source. Its last state, 96 numbers, is all that the decoder gets to know of
# it, as its first state: a **bottleneck**. A vector of fixed size has to hold a sentence of any
# length.

# %%
UNITS = 96


def recurrent_model(has_attention):
    """Returns the model of part 1 or of part 2, and for that one a model of its weights."""
    source = keras.Input((None,), dtype="int32", name="source")
    target = keras.Input((None,), dtype="int32", name="target")
    encoder = keras.layers.GRU(UNITS, return_sequences=True, return_state=True)
    decoder = keras.layers.GRU(UNITS, return_sequences=True)
    # `mask_zero` lets the encoder and the attention leave out the padding of the source.
    memory, state = encoder(keras.layers.Embedding(VOCAB_SIZE, 32, mask_zero=True)(source))
    hidden = decoder(keras.layers.Embedding(VOCAB_SIZE, 32)(target), initial_state=state)
    weights = None
    if has_attention:
        query = keras.layers.Dense(UNITS)(hidden)
        key = keras.layers.Dense(UNITS)(memory)
        context, weights = keras.layers.AdditiveAttention()(
            [query, memory, key], return_attention_scores=True
        )
        hidden = keras.layers.Concatenate()([hidden, context])
    logits = keras.layers.Dense(VOCAB_SIZE)(hidden)
    inputs = {"source": source, "target": target}
    look = keras.Model(inputs, weights) if has_attention else None
    return keras.Model(inputs, logits), look


recurrent, _ = recurrent_model(has_attention=False)
recurrent_losses = train(recurrent, 3e-3)

# %% [markdown]
# ## 2. Attention
#
# The decoder may now look back at *all* states of the encoder, $m_1, \dots, m_n$, one for each word
# of the source. For each output position $t$ it computes how well every one of them fits its own
# state $h_t$, turns these scores into weights that sum to 1, and takes the weighted mean, the
# **context**:
#
# $$e_{ti} = v \cdot \tanh(W h_t + U m_i) \qquad a_t = \mathrm{softmax}(e_t) \qquad
#   c_t = \sum_i a_{ti} m_i$$
#
# $e_{ti}$ is the score of source word $i$, $a_{ti}$ its weight, $c_t$ the context; the matrices $W$
# and $U$ and the vector $v$ are weights that are learned. This score is called *additive*. (In the
# paper of Bahdanau et al. the context also goes into the next state. Here it is only used for the
# output, as in Luong et al., 2015, which is simpler.) The bottleneck is gone: a longer sentence has
# more states to look at. In the code, `query` is $W h_t$, `key` is $U m_i$, and `AdditiveAttention`
# does the rest.

# %%
attending, look = recurrent_model(has_attention=True)
attending_losses = train(attending, 3e-3)

# %% [markdown]
# ## 3. The Transformer
#
# If the decoder can look anywhere, what is the recurrence still good for? It is slow, since step 16
# has to wait for step 15, and what was read long ago has gone through many steps. The Transformer
# leaves it out. The words of a sentence look at each other by attention as well
# (**self-attention**), all at once, and the order of the words is in vectors that are added to
# them. Each vector is turned by matrices into a **query** $q$, which asks, and a **key** $k$, which
# is compared with it. The score of a pair is their dot product, divided by the root of their number
# of entries, $d_k$. It needs no $\tanh$, and one product of matrices computes it for all pairs:
#
# $$e_{ti} = \frac{q_t \cdot k_i}{\sqrt{d_k}}$$
#
# `num_heads=4` does this four times side by side; `NoamSchedule` is the paper's learning rate,
# which rises for 300 steps and then falls.

# %%
config = tf_transformer.TransformerConfig(
    source_vocab_size=VOCAB_SIZE, target_vocab_size=VOCAB_SIZE, d_model=64, d_ff=128, num_heads=4,
    num_encoder_layers=2, num_decoder_layers=2, dropout_rate=0.0, norm_position="pre",
)  # fmt: skip
transformer = tf_transformer.Transformer(config)
transformer_losses = train(transformer, tf_transformer.NoamSchedule(64, 300, 0.5))

# %% [markdown]
# ## Who reverses long rows?
#
# In use there is no right output to look at: each digit is predicted from the model's own digits
# before. A row counts as right only if all of it is.


# %%
def write(model, source):
    """Returns the rows that a model writes, digit by digit (greedy search)."""
    target = np.zeros((len(source), LONGEST + 2), "int32")
    target[:, 0] = BEGIN
    for step in range(LONGEST + 1):
        logits = model.predict_on_batch({"source": source, "target": target[:, :-1]})
        target[:, step + 1] = logits[:, step].argmax(axis=-1)
        target[:, step + 1] *= (target[:, : step + 1] != END).all(axis=1)  # 0 after the end
    return target[:, 1:]


models = {"RNN": recurrent, "RNN with attention": attending, "Transformer": transformer}
lengths = list(range(2, LONGEST + 1, 2))
accuracy = {name: [] for name in models}
for length in lengths:
    inputs, labels = make_rows(100, seed=length, lengths=[length])
    for name, model in models.items():
        right = (write(model, inputs["source"]) == labels).all(axis=1)
        accuracy[name].append(right.mean())
print("length", lengths)
for name, values in accuracy.items():
    print(f"{name:20}", [f"{value:.0%}" for value in values])
assert accuracy["RNN"][-1] < 0.2
assert accuracy["RNN with attention"][-1] > 0.6 and accuracy["Transformer"][-1] > 0.6

# %%
losses = {
    "RNN": recurrent_losses,
    "RNN with attention": attending_losses,
    "Transformer": transformer_losses,
}
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), dpi=80, layout="constrained")
for name in models:
    left.plot(np.arange(1, 16) * STEPS // 15, losses[name], label=name)
    right.plot(lengths, accuracy[name], marker="o", label=name)
left.set(xlabel="step", ylabel="loss")
right.set(xlabel="digits", ylabel="rows that are right", ylim=(-0.05, 1.05))
left.legend()
plt.show()

# %% [markdown]
# The RNN alone writes short rows, and of long ones almost none: after this training, its 96 numbers
# do not hold them. (Its loss, on the left, still falls: more steps may help, but the vector remains
# as small.) With attention the length hardly matters. The Transformer, in which nothing is
# recurrent, also writes most of the long rows, 72% of those with 16 digits where the RNN writes 1%;
# after as many steps it is behind the RNN with attention. On a task as small as this one, what it
# gains does not show: see the table at the end.
#
# (How can 99% of the digits be right, and only 72% of the longest rows? One wrong digit spoils a
# row, and every digit after it is predicted from it.)
#
# ## What do they look at?
#
# The attention weights for one row of ten digits. A row of the picture is an input of the decoder,
# at which it predicts the *next* digit; a column is a digit of the source; dark is a large weight.
# To write the first digit (at `<s>`), one has to look at the last one of the source: the line runs
# from the top right to the bottom left. Nobody has told the models so; it is what makes the right
# digits probable. The Transformer has eight heads for this, of which the sharpest is shown.

# %%
inputs, _ = make_rows(1, seed=7, lengths=[10])
row = {name: ids[:, :11] for name, ids in inputs.items()}
additive = np.asarray(look(row))[0]
heads = np.concatenate([np.asarray(part)[0] for part in transformer.states(row).attention.cross])
sharpest = heads[heads.max(axis=-1).mean(axis=-1).argmax()]  # of the 8 heads of both layers
figure, pictures = plt.subplots(1, 2, figsize=(8, 3.6), dpi=80, layout="constrained")
names = ("additive attention", "the Transformer's sharpest head")
for axes, weights, name in zip(pictures, (additive, sharpest), names, strict=True):
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=1)
    digits = [str(i - 4) if i > END else "</s>" for i in row["source"][0]]
    axes.set_xticks(range(11), digits)
    axes.set_yticks(range(11), ["<s>", *(str(i - 4) for i in row["target"][0, 1:])])
    axes.set(title=name, xlabel="source", ylabel="decoder input")
plt.show()

# %% [markdown]
# ## What has been gained
#
# | | RNN | RNN with attention | Transformer |
# |---|---|---|---|
# | steps that must wait for each other, to read $n$ words | $n$ | $n$ | 1 per layer |
# | way from an output to a source word | up to $2n$ states | 1 look | 1 look |
# | what holds a sentence of $n$ words | 1 state: the bottleneck | $n$ states | $n$ vectors |
# | pairs that are scored, for about $n$ outputs | none | $n^2$ | $n^2$, in each layer |
#
# So the Transformer reads a sentence, and learns from a whole translation, at once, which is what
# makes it fast on a GPU; the price is the pairs, which grow with the square of the length. Writing
# still goes word by word in all three. Table 1 of "Attention Is All You Need" has the same
# comparison for single layers.
#
# Next: [the Transformer, equation by equation](transformer-equation-by-equation.ipynb).
