# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # The Transformer, equation by equation
#
# The model of "Attention Is All You Need" (Vaswani et al., 2017), one equation at a time. Each
# section has the same four parts:
#
# 1. the equation, and what its letters mean;
# 2. our layer or function that computes it;
# 3. a *twin*: about ten lines of NumPy, written from the equation alone, whose result must be
#    equal;
# 4. a picture that moves with its parameters. In Jupyter and Colab there are sliders below it; on a
#    page that only shows the notebook there is a row of pictures.
#
# You need Python and NumPy; what a neural network is, in two sentences: a function of arrays, some
# of which (the **weights**) are changed a little at each step of training, so that a number (the
# **loss**) falls. The **gradient** says for each weight in which direction, and how strongly, it
# changes the loss. A **layer** is a part of the function, with weights of its own. Like the paper,
# this page uses some letters twice; each section says what its letters mean. The *Annotated
# Transformer*, which is named below, is [Harvard's commented
# program](https://nlp.seas.harvard.edu/annotated-transformer/) of the paper. 中文版:
# [transformer-equation-by-equation.zh](transformer-equation-by-equation.zh.ipynb).

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
import tensorflow as tf

from training.plots.controls import show_with_controls

keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)


def assert_equal(ours, twin):
    """Raises an error unless two arrays are equal up to rounding."""
    np.testing.assert_allclose(np.asarray(ours), twin, rtol=1e-4, atol=1e-5)
    print("equal:", np.shape(twin))


# %% [markdown]
# ## What goes in and what comes out
#
# A translator reads a sentence as a row of **tokens** (words or parts of words), each a whole
# number, its **id**. The model maps every id to a **vector**, a row of `d_model` numbers (512 in
# the paper). Everything below transforms such vectors: an array of shape `(batch, length, d_model)`
# goes in, one of the same shape comes out, and the numbers of each position change with what stands
# around it. A **batch** is several sentences that are computed together.
#
# The model has two halves. The **encoder** reads the source sentence and produces one vector for
# each of its tokens, the **memory**. The **decoder** reads the memory and the target tokens so far,
# and predicts the next target token:
#
# ```
# source ids -> embedding + positions -> N encoder layers -> memory
#                                                              |
# target ids -> embedding + positions -> N decoder layers <----+  -> logits -> next token
# ```
#
# **Logits** are one number for each token of the vocabulary; `softmax` turns them into
# probabilities:
#
# $$\mathrm{softmax}(x)_i = \frac{e^{x_i}}{\sum_j e^{x_j}}$$


# %%
def softmax(x):
    """Returns probabilities along the last axis. Subtracting the maximum avoids overflow."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


softmax(np.array([1.0, 2.0, 3.0])).round(3)

# %% [markdown]
# ## 1. Attention (section 3.2.1)
#
# How can the vector of one token take up information from the other tokens? Attention answers as a
# dictionary would, but softly. Every token asks a question, its **query** $q$. Every token offers a
# **key** $k$ and a **value** $v$. The dot product $q \cdot k$ says how well a key answers a query,
# the softmax turns these scores into weights that sum to 1, and the result is the weighted mean of
# the values. With the queries, keys and values as the rows of $Q$, $K$ and $V$:
#
# $$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\left(\frac{Q K^T}{\sqrt{d_k}}\right) V$$
#
# With $n$ queries and $m$ keys, $Q$ has the shape $(n, d_k)$, $K$ $(m, d_k)$ and $V$ $(m, d_v)$:
# $d_k$ is the number of entries of a query and of a key, $d_v$ that of a value. $Q K^T$ is the
# table of all scores, $(n, m)$; the softmax is taken along each row; and the result has a row for
# each query, $(n, d_v)$. The root of $d_k$ is explained below. Our function is
# [`scaled_dot_product_attention`](../../tf_transformer/layers/attention.py); every attention layer
# calls it. It returns the result and the weights. The arrays here are random; section 3 says where
# they come from in a model. (The `mask` of the twin is for section 2.)

# %%
queries, keys, values = (rng.normal(size=(5, 8)).astype("float32") for _ in range(3))
attended, weights = tf_transformer.scaled_dot_product_attention(queries, keys, values)


def twin_attention(q, k, v, mask=True):
    """Attention(Q, K, V); where `mask` is False, a weight is 0."""
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    scores = np.where(mask, scores, -1e9)
    return softmax(scores) @ v


assert_equal(attended, twin_attention(queries, keys, values))
print("each row of the weights sums to 1:", np.sum(weights, axis=-1).round(3))

# %% [markdown]
# **Why divide by $\sqrt{d_k}$?** If the entries of $q$ and $k$ are independent with mean 0 and
# variance 1, their dot product is a sum of $d_k$ such terms, so it has variance $d_k$, and dividing
# by the root makes the variance 1. Without the division, scores grow with the width, and the
# softmax gives nearly all weight to one key or two. There its gradient is almost 0, and training
# would hardly move. The picture shows the weights of one query over 8 keys: spread out at a width
# of 4; on two keys at a width of 256; and spread out again with the division.


# %%
def draw_weights(axes, d_k, scaled):
    """Draws the attention weights of a random query."""
    random = np.random.default_rng(3)
    scores = random.normal(size=(8, d_k)) @ random.normal(size=d_k)
    axes.bar(range(8), softmax(scores / np.sqrt(d_k) if scaled else scores))
    axes.set(ylim=(0, 1), xlabel="key", ylabel="weight")


show_with_controls(
    draw_weights,
    [dict(d_k=4, scaled=False), dict(d_k=256, scaled=False), dict(d_k=256, scaled=True)],
    d_k=[4, 16, 64, 256, 1024],
    scaled=[True, False],
)

# %% [markdown]
# ## 2. Masks (section 3.2.3)
#
# A mask says which keys a query may attend to. All our masks are boolean, and True means "may
# attend". There are two reasons to forbid a key:
#
# - **Padding.** Sentences of a batch have different lengths; the shorter ones are filled up with
#   the id 0. No token may attend to that.
# - **The future.** The decoder is trained to predict token $i + 1$ from the tokens up to $i$. If it
#   could look at token $i + 1$, it would only copy it. So query $i$ may attend to key $j$ only if
#   $j \le i$: the **causal** mask.
#
# $$M_{ij} = [\mathrm{id}_j \ne 0] \wedge [j \le i]$$
#
# (Square brackets around a statement mean 1 if it is true, and 0 if not; $\wedge$ is "and". Besides
# 0, two more ids have a meaning of their own: 2 begins a target sentence, 3 ends every sentence.)
#
# Where $M_{ij}$ is 0, a huge negative number takes the place of the score before the softmax
# ($-10^9$ here, $-\infty$ in the paper). $e$ to that power is 0, so the key has the weight 0, and
# the other weights still sum to 1.
#
# A layer takes a mask of four axes, `(batch, heads, queries, keys)`; an axis of length 1 means "the
# same for all". So the mask below has the shape `(2, 1, 5, 5)`, and queries, keys and values have
# `(batch, heads, length, d_k)`, here `(2, 1, 5, 8)`.
# ([masks.py](../../tf_transformer/layers/masks.py))

# %%
ids = np.array([[5, 8, 6, 9, 3], [5, 8, 3, 0, 0]])  # the second sentence has two places of padding
padding = tf_transformer.padding_mask(ids)
causal = tf_transformer.causal_attention_mask(padding)


def twin_causal_mask(ids):
    """May attend: to real tokens (not 0) that do not come later."""
    length = ids.shape[1]
    earlier = np.arange(length)[:, None] >= np.arange(length)[None, :]
    return (ids != 0)[:, None, None, :] & earlier


assert_equal(causal, twin_causal_mask(ids))
x = rng.normal(size=(2, 1, 5, 8)).astype("float32")
assert_equal(
    tf_transformer.scaled_dot_product_attention(x, x, x, causal)[0],
    twin_attention(x, x, x, twin_causal_mask(ids)),
)


# %%
def draw_mask(axes, tokens, causal):
    """Draws the mask of a sentence of some tokens in a batch of length 8."""
    mask = tf_transformer.padding_mask((np.arange(8)[None] < tokens).astype(int))
    if causal:
        allowed = tf_transformer.causal_attention_mask(mask)
    else:
        allowed = tf_transformer.padding_attention_mask(mask)
    axes.imshow(np.broadcast_to(allowed, (1, 1, 8, 8))[0, 0], cmap="Blues", vmin=0, vmax=1.4)
    axes.set(xlabel="key", ylabel="query")


show_with_controls(
    draw_mask,
    [dict(tokens=5, causal=False), dict(tokens=8, causal=True), dict(tokens=5, causal=True)],
    tokens=[1, 2, 3, 4, 5, 6, 7, 8],
    causal=[True, False],
)

# %% [markdown]
# Blue means "may attend"; `tokens` of the 8 places are real, the rest is padding. Left the padding
# mask alone, in the middle the causal mask alone, right both. The rows of padding queries are
# computed, too, and never used: no later layer attends to them, and the loss leaves them out.
#
# ## 3. Multi-head attention (section 3.2.2)
#
# One weighted mean can follow one relation between words. So attention is computed $h$ times at
# once, by $h$ **heads**, each with queries, keys and values of its own. Head $i$ makes them of the
# same vectors by three matrices of weights, $W^Q_i$, $W^K_i$ and $W^V_i$, each of the shape
# $(d_{model}, d_k)$ with $d_k = d_v = d_{model} / h$ (64 in the paper). The results of the heads
# are written side by side, which is `d_model` numbers again, and mixed by a fourth matrix, $W^O$ of
# the shape $(d_{model}, d_{model})$:
#
# $$\mathrm{MultiHead}(Q, K, V) = \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)\, W^O$$
#
# $$\mathrm{head}_i = \mathrm{Attention}(Q W^Q_i, K W^K_i, V W^V_i)$$
#
# In **self-attention**, $Q$, $K$ and $V$ are the same vectors: a sentence looks at itself. In
# **cross-attention**, $Q$ are the decoder's vectors and $K$, $V$ the memory: the target looks at
# the source. Programs, ours too, put the matrices of all heads side by side into one, and split its
# result into heads. Our layers add a **bias** after each matrix, a learned vector $b$ in $x W + b$,
# as the Annotated Transformer does.

# %%
layer = tf_transformer.SelfAttention(num_heads=2)
x = rng.normal(size=(2, 5, 8)).astype("float32")
ours = layer(x, attention_mask=causal)


def split_heads(x, num_heads):
    """Turns (batch, length, d_model) into (batch, heads, length, d_k)."""
    batch, length, width = x.shape
    return x.reshape(batch, length, num_heads, width // num_heads).swapaxes(1, 2)


def twin_self_attention(layer, x, mask=True):
    """MultiHead(x, x, x) with the weights of a layer; W^Q, W^K and W^V are one matrix."""
    return twin_multi_head(layer, *np.split(affine(layer.query_key_value, x), 3, axis=-1), mask)


def twin_multi_head(layer, q, k, v, mask):
    """Splits into heads, attends, and mixes the heads."""
    heads = twin_attention(*(split_heads(part, layer.num_heads) for part in (q, k, v)), mask)
    joined = heads.swapaxes(1, 2).reshape(q.shape)
    return affine(layer.output_projection, joined)


def affine(dense, x):
    """Returns x W + b."""
    return x @ np.asarray(dense.kernel) + np.asarray(dense.bias)


assert_equal(ours, twin_self_attention(layer, x, twin_causal_mask(ids)))

# %% [markdown]
# The weights of an untrained layer are random, so the heads already look at different places. A row
# of the picture is a query, a column a key; the darker, the more weight. Change the number of
# heads: the width of each shrinks, and the work remains about the same.


# %%
def draw_head(axes, num_heads, head):
    """Draws the weights of one head of a random layer, for a sentence of 8 tokens."""
    keras.utils.set_random_seed(5)
    layer = tf_transformer.SelfAttention(num_heads=num_heads)
    x = np.random.default_rng(5).normal(size=(1, 8, 64)).astype("float32") * 2
    layer.build(x.shape)
    weights = np.asarray(layer.attend(x)[1])
    head = min(head, num_heads)
    axes.imshow(weights[0, head - 1], cmap="Blues", vmin=0, vmax=1)
    axes.set(title=f"head {head} of {num_heads}", xlabel="key", ylabel="query")


show_with_controls(
    draw_head,
    [dict(num_heads=1, head=1), dict(num_heads=4, head=1), dict(num_heads=4, head=2)],
    num_heads=[1, 2, 4, 8],
    head=[1, 2, 3, 4, 5, 6, 7, 8],
)

# %% [markdown]
# ## 4. Feed-forward networks (section 3.3)
#
# Attention mixes positions but only takes means. What a position does with the mean is computed by
# two matrix products with a simple non-linear function between them: $\max(0, \cdot)$ replaces each
# negative number by 0. (Without it, two products would be no more than one product with another
# matrix.) They are the same at every position. $W_1$ has the shape $(d_{model}, d_{ff})$ and $W_2$
# $(d_{ff}, d_{model})$; the inner width `d_ff` is usually four times `d_model`:
#
# $$\mathrm{FFN}(x) = \max(0, x W_1 + b_1) W_2 + b_2$$

# %%
layer = tf_transformer.FeedForward(d_ff=32)
ours = layer(x)


def twin_feed_forward(layer, x):
    """FFN(x)."""
    return affine(layer.outer, np.maximum(0, affine(layer.inner, x)))


assert_equal(ours, twin_feed_forward(layer, x))


# %%
def draw_activation(axes, activation):
    """Draws the function between the two products."""
    from tf_transformer.layers.feed_forward import ACTIVATIONS

    points = np.linspace(-4, 4, 200).astype("float32")
    axes.plot(points, np.asarray(ACTIVATIONS[activation](points)))
    axes.grid(alpha=0.3)


show_with_controls(
    draw_activation,
    [dict(activation="relu"), dict(activation="gelu"), dict(activation="swish")],
    activation=["relu", "gelu", "gelu_tanh", "swish"],
)

# %% [markdown]
# The picture has the input of the function on the horizontal axis, its value on the vertical one.
# `relu` is the paper's $\max(0, \cdot)$; later models often take one of the smooth ones.
#
# ## 5. Residual connections and layer norm (section 3.1)
#
# Attention and the feed-forward network are **sublayers** of a layer of the encoder or decoder. The
# output of each is added to its input (a **residual connection**), so that a layer only has to
# learn a correction, and the gradient has a short way through many layers. **Layer norm** keeps the
# numbers in range: it shifts and scales the `d_model` entries of each position by themselves to
# mean 0 and variance 1, then multiplies by $\gamma$ and adds $\beta$, which are learned; $\epsilon$
# is a tiny number against a division by 0:
#
# $$\mathrm{norm}(x) = \gamma \, \frac{x - \mathrm{mean}(x)}{\sqrt{\mathrm{var}(x) + \epsilon}}
#   + \beta$$
#
# The paper normalizes after the sum ("post"), most programs today before the sublayer ("pre"):
#
# $$\mathrm{post:}\ y = \mathrm{norm}(x + \mathrm{sublayer}(x)) \qquad
#   \mathrm{pre:}\ y = x + \mathrm{sublayer}(\mathrm{norm}(x))$$

# %%
residual = tf_transformer.Residual(norm_position="post")
f = rng.normal(size=x.shape).astype("float32")  # stands for sublayer(x)
ours = residual(x, f)


def twin_norm(norm, x, epsilon=1e-6):
    """Layer norm over the last axis."""
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return np.asarray(norm.gamma) * (x - mean) / np.sqrt(variance + epsilon) + np.asarray(norm.beta)


assert_equal(ours, twin_norm(residual.norm, x + f))

# %% [markdown]
# The picture sends a random sentence through a stack of untrained encoder layers and shows the
# standard deviation of the entries after each. (`sublayer_inputs` is the norm with "pre", and
# nothing with "post".) With "pre" the sum grows with the depth; a last norm at the end of the
# stack, which is not drawn, brings it back. With "post" each layer normalizes, and the gradient has
# to pass each norm, which makes deep stacks harder to train.


# %%
def draw_spread(axes, norm_position, layers):
    """Draws the standard deviation after each layer of a random stack."""
    keras.utils.set_random_seed(2)
    y = np.random.default_rng(2).normal(size=(1, 10, 64)).astype("float32")
    spread = [y.std()]
    for _ in range(layers):
        attention = tf_transformer.SelfAttention(num_heads=4)
        feed_forward = tf_transformer.FeedForward(d_ff=256)
        for sublayer in (attention, feed_forward):
            residual = tf_transformer.Residual(norm_position=norm_position)
            y = residual(y, sublayer(residual.sublayer_inputs(y)))
        spread.append(np.asarray(y).std())
    axes.plot(spread, marker=".")
    axes.set(ylim=(0, 4), xlabel="layer", ylabel="standard deviation")


show_with_controls(
    draw_spread,
    [dict(norm_position="post", layers=12), dict(norm_position="pre", layers=12)],
    norm_position=["post", "pre"],
    layers=[2, 6, 12],
)

# %% [markdown]
# ## 6. Embeddings and logits (section 3.4)
#
# The **embedding** is a matrix $E$ with a row of `d_model` weights for each token of the
# vocabulary. Looking up the id $i$ is taking its row, $E_i$. The rows are multiplied by
# $\sqrt{d_{model}}$, so that they are about as large as the position vectors that are added to
# them. At the other end, the same matrix turns a vector $x$ of the decoder into logits: the dot
# product of $x$ with the row of each token.
#
# $$\mathrm{embed}(i) = \sqrt{d_{model}}\, E_i \qquad \mathrm{logits}(x) = x E^T$$

# %%
embedding = tf_transformer.TokenEmbedding(vocab_size=12, d_model=8)
ours = embedding(ids)


def twin_embed(embedding, ids):
    """Looks up the rows of the matrix, and scales them."""
    matrix = np.asarray(embedding.embeddings)
    return np.sqrt(matrix.shape[1]) * matrix[ids]


assert_equal(ours, twin_embed(embedding, ids))
assert_equal(embedding.logits(x), x @ np.asarray(embedding.embeddings).T)

# %% [markdown]
# ## 7. Positions (section 3.5)
#
# Nothing so far knows the order of the words: if the source is shuffled, attention gives the same
# vectors, shuffled. So each position gets a vector, which is added to the embedding:
#
# $$PE_{(pos, 2i)} = \sin\left(\frac{pos}{10000^{2i/d_{model}}}\right) \qquad
#   PE_{(pos, 2i+1)} = \cos\left(\frac{pos}{10000^{2i/d_{model}}}\right)$$
#
# $pos$ is the position, counted from 0; the entries $2i$ and $2i + 1$ of its vector are the pair
# $i$, from 0 to $d_{model} / 2 - 1$. Think of a row of clock hands: each pair of sine and cosine is
# a hand that turns at its own speed, the first ones fast, the last ones very slowly. A look at all
# hands tells the time, which is the position. (`kind="interleaved"`: sines and cosines alternate,
# as in the formula; some programs put all sines first.)
# ([positions.py](../../tf_transformer/layers/positions.py))

# %%
positions = tf_transformer.PositionalEncoding(kind="interleaved", d_model=8, max_length=100)
ours = positions(np.arange(20))


def twin_positions(length, d_model):
    """PE, from the formula."""
    table = np.zeros((length, d_model))
    for i in range(d_model // 2):
        angle = np.arange(length) / 10000 ** (2 * i / d_model)
        table[:, 2 * i], table[:, 2 * i + 1] = np.sin(angle), np.cos(angle)
    return table


assert_equal(ours, twin_positions(20, 8))

# %% [markdown]
# Turning all hands by $k$ steps is the same movement at every position:
# $PE(pos + k) = M_k\,PE(pos)$, where $M_k$ rotates each pair by a fixed angle. So a layer can learn
# "three words to the left" as one matrix. The first cell below makes $M_3$ and compares. It also
# follows that the dot product of the vectors of two positions $p$ and $q$ depends on their distance
# alone: each pair adds the cosine of the angle between its two hands.
#
# In the pictures of "vectors", a row is a position: the entries on the left change fast from row to
# row, those on the right hardly. In that of "products", each diagonal has one colour, the same
# distance everywhere, and the brightest is the distance 0.

# %%
k, table = 3, twin_positions(50, 8)
rotation = np.zeros((8, 8))
for i in range(4):
    angle = k / 10000 ** (2 * i / 8)
    cos, sin = np.cos(angle), np.sin(angle)
    rotation[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[cos, sin], [-sin, cos]]
assert_equal(table[:-k] @ rotation.T, table[k:])


# %%
def draw_positions(axes, d_model, picture):
    """Draws the vectors of 60 positions, or their products."""
    table = twin_positions(60, d_model)
    if picture == "vectors":
        axes.imshow(table, aspect="auto", cmap="RdBu")
        axes.set(xlabel="entry", ylabel="position")
    else:
        axes.imshow(table @ table.T)
        axes.set(xlabel="q", ylabel="p")
    axes.set_title(f"{picture}, d_model={d_model}")


show_with_controls(
    draw_positions,
    [
        dict(d_model=16, picture="vectors"),
        dict(d_model=128, picture="vectors"),
        dict(d_model=128, picture="products"),
    ],
    d_model=[8, 16, 64, 128, 512],
    picture=["vectors", "products"],
)

# %% [markdown]
# ## 8. The whole model
#
# All parts are there. An encoder layer is self-attention and a feed-forward network; a decoder
# layer has cross-attention between the two. Every sublayer is wrapped as in section 5. The paper
# stacks $N = 6$ of each. In training it also sets random entries to 0 (**dropout**, section 5.4),
# so that no entry can be relied on; here `dropout_rate` is 0. The twin of the whole model uses the
# twins above and takes the weights of a small one of ours; the logits must be equal.

# %%
config = tf_transformer.TransformerConfig(
    source_vocab_size=12, target_vocab_size=12, num_encoder_layers=2, num_decoder_layers=2,
    d_model=16, d_ff=64, num_heads=4, dropout_rate=0.0,
)  # fmt: skip
model = tf_transformer.Transformer(config)
source = np.array([[5, 8, 6, 9, 3], [5, 8, 3, 0, 0]])
target = np.array([[2, 7, 4, 10], [2, 11, 4, 0]])  # begins with 2, the begin id
logits = model({"source": source, "target": target})


def twin_transformer(model, source, target):
    """Logits of the next token at every target position."""
    source_mask = (source != 0)[:, None, None, :]
    x = twin_input(model, source)
    for layer in model.encoder.stacked_layers:
        x = add(
            layer.self_attention,
            x,
            twin_self_attention(layer.self_attention, x, source_mask),
            layer,
        )
        x = add(layer.feed_forward, x, twin_feed_forward(layer.feed_forward, x), layer)
    memory, x = x, twin_input(model, target)
    for layer in model.decoder.stacked_layers:
        mask = twin_causal_mask(target)
        x = add(layer.self_attention, x, twin_self_attention(layer.self_attention, x, mask), layer)
        cross = layer.cross_attention
        k, v = np.split(affine(cross.key_value, memory), 2, axis=-1)
        x = add(cross, x, twin_multi_head(cross, affine(cross.query, x), k, v, source_mask), layer)
        x = add(layer.feed_forward, x, twin_feed_forward(layer.feed_forward, x), layer)
    return x @ np.asarray(model.target_embedding.embeddings).T


def twin_input(model, ids):
    """Embeddings plus positions."""
    return twin_embed(model.target_embedding, ids) + twin_positions(
        ids.shape[1], model.config.d_model
    )


def add(sublayer, x, output, layer):
    """norm(x + sublayer(x)), "post" as in the paper; each sublayer has a norm of its own."""
    return twin_norm(getattr(layer, f"{sublayer.name}_residual").norm, x + output)


assert_equal(logits, twin_transformer(model, source, target))

# %% [markdown]
# Source and target share one embedding matrix here (`tied_embeddings="all"`, as in the paper),
# which is possible when both languages share one vocabulary.
#
# ## 9. What it learns from: teacher forcing (section 3.1)
#
# The decoder's input is the correct translation, shifted by one place: at each position it sees the
# correct tokens so far and must predict the next. This is called **teacher forcing**. So all
# positions are trained at once, and the causal mask prevents that a position sees what it has to
# predict. `<s>` is the id 2, which begins, and `</s>` the id 3, which ends:
#
# ```
# source   i      love    machine        learning       </s>
# target   <s>    ich     liebe          maschinelles   Lernen
# labels   ich    liebe   maschinelles   Lernen         </s>
# ```
#
# **Labels** are what has to be predicted. Later tokens must have no influence on earlier
# predictions. Let us change the last token of the target and compare:

# %%
changed = target.copy()
changed[:, -1] = 6
assert_equal(model({"source": source, "target": changed})[:, :-1], np.asarray(logits)[:, :-1])

# %% [markdown]
# ## 10. The loss, with label smoothing (section 5.4)
#
# The loss of a position is the **cross-entropy** between the probabilities $q$ that we want and the
# model's $p = \mathrm{softmax}(\mathrm{logits})$; $k$ runs over all tokens of the vocabulary. It is
# small if $p$ is large where $q$ is large:
#
# $$L = -\sum_k q(k) \log p(k)$$
#
# The simplest $q$ is 1 at the label and 0 elsewhere. Then the model can always gain by being more
# certain, for ever. With **label smoothing** the label $y$ gets $1 - \epsilon$, and $\epsilon$ (0.1
# in the paper) is spread evenly over the vocabulary of $V$ tokens, the label among them, so that
# certainty beyond that costs something:
#
# $$q(k) = (1 - \epsilon)\,[k = y] + \frac{\epsilon}{V}$$

# %%
labels = np.array([[7, 4, 10, 3], [11, 4, 3, 0]])
ours = tf_transformer.LabelSmoothedCrossEntropy(0.1)(labels, logits)


def twin_loss(labels, logits, epsilon=0.1):
    """Mean loss of the real tokens; those with the label 0 are padding."""
    vocab_size = logits.shape[-1]
    q = (1 - epsilon) * np.eye(vocab_size)[labels] + epsilon / vocab_size
    losses = -(q * np.log(softmax(logits))).sum(axis=-1)
    return losses[labels != 0].mean()


assert_equal(ours, twin_loss(labels, np.asarray(logits)))


# %%
def draw_loss(axes, smoothing):
    """Draws the loss by the probability of the label; 9 other tokens share the rest."""
    p = np.linspace(0.05, 0.9999, 400)
    logits = np.log(np.stack([p, *[(1 - p) / 9] * 9], axis=-1)).astype("float32")[None]
    labels = np.zeros((1, 400), "int32")
    axes.plot(p, tf_transformer.smoothed_cross_entropy(labels, logits, smoothing)[0])
    axes.axvline(1 - smoothing + smoothing / 10, color="grey", linestyle=":")
    axes.set(ylim=(0, 3), xlabel="probability of the label", ylabel="loss")


show_with_controls(
    draw_loss,
    [dict(smoothing=0.0), dict(smoothing=0.1), dict(smoothing=0.3)],
    smoothing=[0.0, 0.05, 0.1, 0.2, 0.3, 0.5],
)

# %% [markdown]
# The dotted line is $q$ of the label: there the loss is least. Right of it the model is
# over-confident, and the loss rises again.
#
# ## 11. The learning rate (section 5.3)
#
# At each step the **optimizer** moves the weights by an amount proportional to the **learning
# rate**. It is Adam, which keeps running means of each gradient and of its square, and moves by the
# first divided by the root of the second: $\beta_1 = 0.9$ and $\beta_2 = 0.98$ say how slowly these
# means change, and $\epsilon = 10^{-9}$ prevents a division by 0. The rate rises during the first
# $warmup$ steps (4,000 in the paper), since large steps from random weights do harm, and then falls
# ($step$ counts from 1; the two arguments of the minimum are equal at $step = warmup$, the peak):
#
# $$rate = d_{model}^{-0.5} \cdot \min(step^{-0.5},\ step \cdot warmup^{-1.5})$$

# %%
ours = tf_transformer.NoamSchedule(512, warmup_steps=4000)(np.arange(10_000))


def twin_schedule(step, d_model, warmup):
    """The formula; steps are counted from 1."""
    return d_model**-0.5 * np.minimum(step**-0.5, step * warmup**-1.5)


np.testing.assert_allclose(ours, twin_schedule(np.arange(1, 10_001), 512, 4000), rtol=1e-5)


# %%
def draw_schedule(axes, d_model, warmup):
    """Draws the rate of 20,000 steps."""
    axes.plot(tf_transformer.NoamSchedule(d_model, warmup)(np.arange(20_000)))
    axes.set(ylim=(0, 0.0022), xlabel="step")


show_with_controls(
    draw_schedule,
    [
        dict(d_model=512, warmup=4000),
        dict(d_model=512, warmup=8000),
        dict(d_model=256, warmup=4000),
    ],
    d_model=[128, 256, 512, 1024],
    warmup=[1000, 2000, 4000, 8000],
)

# %% [markdown]
# ## 12. Beam search (section 6.1)
#
# A trained model gives the probability of every next token. The probability of a whole sentence is
# the product of those of its tokens, so its logarithm is their sum. Which sentence is the most
# probable? There are too many to try them all. **Greedy search** takes the best token at each step,
# and may run into a dead end, where all that can follow is improbable. **Beam search** keeps the
# `beam_size` best beginnings, extends each by every token, and keeps the best again. Longer
# sentences have more factors, so the finished ones are compared after a division by a length
# penalty $lp$ (Wu et al., 2016). $y$ is the sentence, $n$ counts its tokens, with the end; the
# larger $\alpha$, the more long sentences are favoured, since a logarithm is negative and dividing
# it brings it nearer to 0. The paper has a beam of 4 and $\alpha = 0.6$:
#
# $$score = \frac{\log p(y)}{lp(n)} \qquad lp(n) = \left(\frac{5 + n}{6}\right)^\alpha$$
#
# To see the search alone, the "model" here is a table: the probability of a token depends only on
# the one before it. The ids 0, 2 and 3 are padding, begin and end; the other six are words.
# `TableModel` has the two methods that `beam_search` calls: `decode_step` returns the logits after
# the newest tokens. Only the twin needs to be read.

# %%
BEGIN, END, VOCAB = 2, 3, 9


class TableModel:
    """A model for `beam_search` whose logits are the rows of a table."""

    compaction_interval = 8

    def __init__(self, table):
        self.table = tf.constant(table, tf.float32)

    def decode_step(self, newest, parents, position, state, return_attention=False):
        return tf.gather(self.table, newest), None, state

    def select_rows(self, rows, alive, parents, position, state):
        return state


def random_table(seed):
    """Returns log p(token | token before); padding and begin never follow, nor the end at once."""
    logits = np.random.default_rng(seed).normal(size=(VOCAB, VOCAB)) * 1.5
    logits[:, [0, BEGIN]] = logits[BEGIN, END] = -1e9
    return np.log(np.maximum(softmax(logits), 1e-30))


def our_search(table, beam_size, alpha=0.0, max_length=5):
    """The best sentence that `beam_search` finds, and its score."""
    options = tf_transformer.SearchOptions(
        max_length=tf.constant([max_length]), length_penalty=tf.constant([alpha])
    )
    found = tf_transformer.beam_search(
        TableModel(table), tf.zeros((1, beam_size)), beam_size=beam_size,
        begin_id=BEGIN, end_ids=[END], options=options,
    )  # fmt: skip
    length = int(found.lengths[0, 0])
    return found.ids[0, 0, :length].numpy().tolist(), float(found.scores[0, 0])


def twin_search(table, beam_size, alpha=0.0, max_length=5):
    """The same in plain Python; hypotheses are pairs of log p and ids."""
    live, finished = [(0.0, [BEGIN])], []
    for step in range(max_length + 1):
        tokens = range(VOCAB) if step < max_length else [END]
        longer = [(p + table[ids[-1], k], [*ids, k]) for p, ids in live for k in tokens]
        best = sorted(longer, reverse=True)[: beam_size - len(finished)]
        finished += [
            (p / ((5 + len(ids) - 1) / 6) ** alpha, ids) for p, ids in best if ids[-1] == END
        ]
        live = [(p, ids) for p, ids in best if ids[-1] != END]
    score, ids = max(finished)
    return ids[1:-1], score


for beam_size in (1, 2, 4, 8):
    ids, score = our_search(random_table(12), beam_size)
    twin_ids, twin_score = twin_search(random_table(12), beam_size)
    assert ids == twin_ids
    np.testing.assert_allclose(score, twin_score, rtol=1e-5)
    print(f"beam {beam_size}: {ids}, log p = {score:.3f}")

# %% [markdown]
# Each wider beam finds a more probable sentence here, and a shorter one: this is why there is a
# length penalty. With $\alpha = 0$ every further token lowers the score.
#
# A beam as wide as the number of possible sentences is exhaustive search: there are
# $6 + 6^2 + 6^3 = 258$ sentences of one to three of the six words. How often does a narrow beam
# find the best of them all, in 40 random tables? In the picture, a bar is the share of the tables
# in which that beam did. Greedy search, the beam of 1, finds it in less than half of them; the
# wider the beam, the more often.


# %%
def draw_search(axes, alpha, max_length):
    """Draws how often each beam finds what a beam of 300 finds."""
    found = {beam: [] for beam in (1, 2, 3, 4, 6, 8)}
    for seed in range(40):
        best = twin_search(random_table(seed), 300, alpha, max_length)[0]
        for beam, right in found.items():
            right.append(twin_search(random_table(seed), beam, alpha, max_length)[0] == best)
    axes.bar([str(beam) for beam in found], [np.mean(right) for right in found.values()])
    axes.set(ylim=(0, 1), xlabel="beam size", ylabel="share found")


show_with_controls(
    draw_search,
    [dict(alpha=0.0, max_length=3), dict(alpha=1.0, max_length=3), dict(alpha=2.0, max_length=3)],
    alpha=[0.0, 0.6, 1.0, 2.0],
    max_length=[1, 2, 3],
)

# %% [markdown]
# ## 13. Does it learn?
#
# The first exercise of the Annotated Transformer: copy a row of ten symbols. It needs everything
# above; two layers on each side learn it in less than a minute. The symbols are the ids 1 to 10;
# every row begins with 1, and here 2 and 3 have no meaning of their own. The model trains for 15
# epochs of 20 batches, then `greedy_copy` writes a row with greedy search.
#
# On the left, the loss after each epoch. On the right, the attention weights of the last decoder
# layer for this row: a row is a target position, a column a source position, both from 0.

# %%
from training.demo.copy_task import copy_batches, copy_model, greedy_copy

keras.utils.set_random_seed(1)
model = copy_model()
losses = []
for _ in range(15):
    history = model.fit(copy_batches(rng, 20), verbose=0, shuffle=False)
    losses.append(history.history["loss"][0])
source = np.array([[1, 9, 3, 7, 5, 2, 8, 4, 6, 10]], "int32")
print("source:", source[0])
print("output:", greedy_copy(model, source)[0])

# %%
attention = model.states({"source": source, "target": source[:, :-1]}).attention
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), dpi=80, layout="constrained")
left.plot(losses)
left.set(xlabel="epoch", ylabel="loss")
right.imshow(np.mean(attention.cross[1][0], axis=0), cmap="Blues")
right.set(title="cross-attention, layer 2, mean of the heads", xlabel="source", ylabel="target")
plt.show()

# %% [markdown]
# To predict the next symbol, each target position looks mostly at the source position that comes
# next, one right of its own: the model has found by itself that copying is a diagonal.
#
# ## Try it
#
# - Section 1: with `scaled=False`, at what width does one key get more than 0.99 of the weight?
# - Section 7: with `products` and `d_model=8`, which position is most like position 0, and why is
#   it not position 1?
# - Section 8: leave the positions out (add `positions="none"` to `TransformerConfig`). Why is there
#   an error?
#
# Answers: at 1,024. (Query and keys are drawn anew at each width, so 64 is flatter than 16.)
# Position 6: the fastest hand has made nearly a full turn, $2 \pi \approx 6.3$ positions, and the
# others have turned less. Without positions the model could not tell the order of its words
# (section 7), so the settings are refused.
#
# Next: [from RNN to attention](from-rnn-to-attention.ipynb) compares with what came before, [forty
# interview questions](forty-interview-questions.ipynb) asks whether it has been understood, and the
# [guide](../guide.md) leads to the files of this project in the order of the paper.
