# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Forty interview questions, answered by running code
#
# Each question has a short answer and a few lines that show it. Where there is an `assert`, the
# answer is checked: change a number and see whether it still holds. If a word is new, read [the
# Transformer, equation by equation](transformer-equation-by-equation.ipynb) first.
#
# Nothing here is trained: `model` is a small Transformer with random weights, and `logits` are its
# outputs for `batch`, two short sentences. What is shown holds for any weights, unless the text
# says otherwise; its translations are nonsense. $d$ is short for $d_{model}$.

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
import itertools
import warnings

import keras
import numpy as np
import tensorflow as tf

from tf_transformer.decoding.incremental_decoder import IncrementalDecoder
from tf_transformer.decoding.search_interface import length_penalty
from tf_transformer.layers.positions import sinusoidal_positions

warnings.filterwarnings("ignore", "You are using a softmax")  # of a single score: it is 1
keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)


def normal(*shape):
    """Returns random numbers with mean 0 and variance 1."""
    return rng.normal(size=shape).astype("float32")


def are_close(a, b, tolerance=1e-4):
    """Returns whether two arrays are equal up to rounding."""
    return np.allclose(a, b, rtol=tolerance, atol=tolerance)


def make_model(**settings):
    """Returns a small untrained Transformer, and a batch of two sentences for it."""
    sizes = dict(d_model=32, d_ff=128, num_heads=4, num_encoder_layers=2, num_decoder_layers=2)
    vocabularies = dict(source_vocab_size=20, target_vocab_size=20)
    config = tf_transformer.TransformerConfig(
        **(vocabularies | sizes | dict(dropout_rate=0.0) | settings)
    )
    batch = {
        "source": np.array([[5, 9, 7, 12, 3], [8, 6, 3, 0, 0]]),  # 0 is padding, 3 the end
        "target": np.array([[2, 11, 4, 15], [2, 10, 13, 0]]),  # 2 is the beginning
    }
    model = tf_transformer.Transformer(config)
    model(batch)  # creates the weights
    return model, batch


attention = tf_transformer.scaled_dot_product_attention
model, batch = make_model()
logits = np.asarray(model(batch))

# %% [markdown]
# ## Attention
#
# **1. What does attention compute?** For each query a weighted mean of the values. The weights are
# the softmax of the dot products of the query with all keys, divided by $\sqrt{d_k}$: positive, and
# 1 in all.

# %%
q, k, v = normal(3, 8), normal(5, 8), normal(5, 8)
attended, weights = attention(q, k, v)
assert are_close(np.sum(weights, axis=-1), 1) and are_close(attended, np.asarray(weights) @ v)

# %% [markdown]
# **2. Why are the scores divided by $\sqrt{d_k}$?** The dot product of two vectors of $d_k$
# independent entries with mean 0 and variance 1 has variance $d_k$. The division makes it 1 at any
# width.

# %%
for d_k in (16, 64, 256):
    products = np.sum(normal(20_000, d_k) * normal(20_000, d_k), axis=-1)
    print(f"d_k {d_k}: {products.var():7.1f}, divided: {(products / np.sqrt(d_k)).var():.2f}")
    assert abs(products.var() / d_k - 1) < 0.1

# %% [markdown]
# **3. And what harm would large scores do?** The softmax saturates: one weight is almost 1, the
# others almost 0, and the gradient vanishes, so that the layer hardly learns. Below, the gradient
# is that of the largest weight by the scores.

# %%
scores = normal(8)
for factor in (1, 10, 100):
    x = tf.Variable(scores * factor)
    with tf.GradientTape() as tape:
        largest = tf.reduce_max(tf.nn.softmax(x))
    gradient = float(tf.norm(tape.gradient(largest, x)))
    print(f"scores times {factor:3}: largest weight {largest:.4f}, gradient {gradient:.1e}")
assert gradient < 1e-4

# %% [markdown]
# **4. Why have queries and keys matrices of their own?** With the same matrix the scores would be
# symmetric: "it" would look at "dog" exactly as much as "dog" at "it", before the softmax. And each
# word would mostly look at itself, since nothing is more similar to it.

# %%
x, w_q, w_k = normal(6, 16), normal(16, 16), normal(16, 16)
same = (x @ w_q) @ (x @ w_q).T
different = (x @ w_q) @ (x @ w_k).T
assert are_close(same, same.T) and not are_close(different, different.T)
print("largest score at itself:", np.mean(same.argmax(axis=1) == np.arange(6)), "of the words")

# %% [markdown]
# **5. Why several heads?** One set of weights is one mean, which can follow one relation between
# words. $h$ heads of width $d_{model} / h$ follow $h$ relations, with as many weights in all as one
# head of the whole width has.

# %%
sizes = set()
for num_heads in (1, 4, 8):
    layer = tf_transformer.SelfAttention(num_heads=num_heads)
    layer.build((None, None, 64))
    sizes.add(layer.count_params())
assert sizes == {4 * 64 * 64 + 4 * 64}  # W^Q, W^K, W^V, W^O and their biases

# %% [markdown]
# **6. What are the sizes of the paper's base model?** $N = 6$ layers on each side, $h = 8$ heads,
# $d_{model} = 512$, $d_{ff} = 2048$, so $d_k = d_v = 64$.

# %%
base = tf_transformer.TransformerConfig.preset(
    "base", source_vocab_size=37_000, target_vocab_size=37_000
)
assert (base.num_encoder_layers, base.num_heads, base.d_model, base.d_ff) == (6, 8, 512, 2048)
assert base.d_model // base.num_heads == 64

# %% [markdown]
# **7. How does the cost grow with the length $n$?** In a self-attention layer, the scores of all
# pairs take $n^2 d$ multiplications, and the weighted means as many; the four products with $W^Q$,
# $W^K$, $W^V$ and $W^O$ (projections) take $4 n d^2$. So the square is the larger part only for
# $n > 2 d$: 1,024 tokens in the base model.

# %%
d = 512
for n in (64, 1024, 4096):
    print(f"n {n:4}: pairs {2 * n * n * d:.1e}, projections {4 * n * d * d:.1e}")
assert 2 * 1024**2 * d == 4 * 1024 * d**2

# %% [markdown]
# **8. How do self-attention and cross-attention differ?** In where keys and values come from: in
# cross-attention from the encoder's output, the memory. So each head has a weight for each pair of
# a target and a source position, and only padding is masked: all of the source may be seen.

# %%
maps = model.states(batch).attention
print("encoder", maps.encoder[0].shape, "decoder", maps.decoder[0].shape)
assert maps.cross[0].shape == (2, 4, 4, 5)  # batch, heads, target, source

# %% [markdown]
# **9. Does self-attention know the order of the words?** No. If its input is shuffled, its output
# is the same, shuffled.

# %%
layer, x, order = tf_transformer.SelfAttention(num_heads=4), normal(1, 6, 32), rng.permutation(6)
assert are_close(layer(x[:, order]), np.asarray(layer(x))[:, order])

# %% [markdown]
# **10. Do all heads matter?** In trained models often not: many can be removed with little loss
# (Michel et al., 2019; Voita et al., 2019). One switches off each in turn, sees how much the output
# changes, and removes for good those that change it little (`prune_heads`). The heads below are
# random, so all of them change it.

# %%
for head in range(4):
    mask = np.ones((2, 4))
    mask[1, head] = 0  # this head of the second decoder layer
    with tf_transformer.masked_heads(model, tf_transformer.HeadMasks(cross=mask)):
        print(f"without head {head}: logits change by {np.abs(model(batch) - logits).mean():.4f}")

# %% [markdown]
# ## Masks
#
# **11. What is the padding mask for?** Sentences of a batch are filled up to the same length. With
# the mask, the result does not depend on how much padding there is.

# %%
longer = {"source": np.pad(batch["source"], [(0, 0), (0, 7)]), "target": batch["target"]}
assert are_close(model(longer), logits)

# %% [markdown]
# **12. What is the causal mask for?** In training the decoder gets the whole translation at once.
# Position $i$ must not see what it has to predict, so later tokens must have no influence on it.

# %%
changed = batch["target"].copy()
changed[:, 2:] = 7
assert are_close(model(batch | {"target": changed})[:, :2], logits[:, :2])

# %% [markdown]
# **13. Why is the mask applied before the softmax?** So that the remaining weights still sum to 1.
# If weights were set to 0 after it, a sum below 1 would remain, a different one for each query.

# %%
causal = np.asarray(tf_transformer.causal_mask(5))
x = normal(5, 8)
before = np.asarray(attention(x, x, x, causal)[1])
after = np.asarray(attention(x, x, x)[1]) * causal
print("before:", before.sum(axis=-1), "\nafter: ", after.sum(axis=-1).round(2))
assert are_close(before.sum(axis=-1), 1) and after.sum(axis=-1)[0] < 1

# %% [markdown]
# **14. Why is -1e9 added to forbidden scores, and not minus infinity?** For a query that may look
# at nothing, such as one in a batch row of padding alone, minus infinity gives 0/0, and one NaN
# spreads through the whole model. With -1e9 a forbidden key still has the weight 0 exactly, as long
# as the query may look at any key.

# %%
nothing = np.zeros((5, 5), bool)
assert np.isfinite(attention(x, x, x, nothing)[0]).all()
assert np.isnan(tf.nn.softmax(np.full((1, 5), -np.inf))).all()
assert (before[~causal] == 0).all()

# %% [markdown]
# ## Positions
#
# **15. Why sines and cosines?** They are bounded however long the sentence is, every position has a
# vector of its own, and nothing has to be learned. The paper hoped that sentences longer than those
# of training would work, too.

# %%
table = np.asarray(sinusoidal_positions(np.arange(5000), 64))
assert np.abs(table).max() <= 1 and len(np.unique(table.round(4), axis=0)) == 5000

# %% [markdown]
# **16. What does "PE(pos + k) is a linear function of PE(pos)" mean?** For each $k$ there is one
# matrix that moves every position by $k$. Here it is found by least squares, and there is no error
# left.

# %%
small = np.asarray(sinusoidal_positions(np.arange(200), 16), "float64")
moved = np.linalg.lstsq(small[:-3], small[3:], rcond=None)[0]
assert are_close(small[:-3] @ moved, small[3:])

# %% [markdown]
# **17. What is that good for?** The dot product of two position vectors depends on their distance
# alone and is largest at 0; with a matrix as in question 16, but for $k = -1$, in $W^Q$, it is
# largest at "the word before".

# %%
products = small @ small.T
for distance in (1, 5, 20):
    assert np.ptp(np.diagonal(products, distance)) < 1e-4  # the same at every position
print("products at the distances 0 to 4:", products[0, :5].round(2))

# %% [markdown]
# **18. What speaks against learned positions?** There are none beyond the longest sentence of
# training. Otherwise the paper found them nearly as good (table 3, row E).

# %%
learned = tf_transformer.PositionalEncoding(kind="learned", d_model=16, max_length=10)
try:
    learned(np.arange(11))
except ValueError:
    print("there is no vector for the 11th position")
else:
    raise AssertionError

# %% [markdown]
# **19. And relative positions?** To each score, attention adds the dot product of the query with a
# learned vector of the distance between key and query (Shaw et al., 2018). The order then matters
# without any position vectors in the input.

# %%
relative = tf_transformer.SelfAttention(num_heads=4, relative_positions="keys")
x, order = normal(1, 6, 32), np.array([5, 4, 3, 2, 1, 0])
assert not are_close(relative(x[:, order]), np.asarray(relative(x))[:, order])

# %% [markdown]
# **20. Why are embeddings multiplied by $\sqrt{d_{model}}$?** The matrix also computes the logits,
# so its entries are small, of variance $1 / d_{model}$. The factor makes the vectors about as large
# as those of the positions, which are added.

# %%
embedding = tf_transformer.TokenEmbedding(vocab_size=1000, d_model=64)
vectors = np.asarray(embedding(np.arange(1000)[None]))
print(f"matrix {np.std(embedding.embeddings):.3f}, vectors {vectors.std():.3f}, "
      f"positions {table.std():.3f}")  # fmt: skip
assert are_close(vectors[0], 8 * np.asarray(embedding.embeddings))

# %% [markdown]
# **21. Why are positions added, and not put beside the words?** After the first matrix it is nearly
# the same: $[w, p]$ side by side, times a matrix whose upper half is for words and whose lower half
# is for positions, is a sum of two products. If both halves are equal, it is $(w + p)$ times one of
# them. And adding costs no width.

# %%
words, places, matrix = normal(6, 16), normal(6, 16), normal(16, 16)
beside = np.concatenate([words, places], axis=-1) @ np.concatenate([matrix, matrix], axis=0)
assert are_close((words + places) @ matrix, beside)

# %% [markdown]
# ## Layers
#
# **22. What are residual connections for?** Without them, the gradient passes through every layer,
# and each may make it smaller, as the 20 feed-forward networks below do. With them there is a path
# on which it is not changed.


# %%
def input_gradient(has_residual, depth=20):
    """Returns the size of the gradient at the input of a stack of layers."""
    keras.utils.set_random_seed(4)
    x = tf.Variable(np.random.default_rng(4).normal(size=(1, 8, 32)).astype("float32"))
    with tf.GradientTape() as tape:
        y = x
        for _ in range(depth):
            z = tf_transformer.FeedForward(d_ff=64)(y)
            y = y + z if has_residual else z
        loss = tf.reduce_mean(y[0, 0])
    return float(tf.norm(tape.gradient(loss, x)))


print(f"without: {input_gradient(False):.1e}, with: {input_gradient(True):.1e}")
assert input_gradient(False) < 0.01 * input_gradient(True)

# %% [markdown]
# **23. Why layer norm and not batch norm?** Batch norm takes mean and variance over the sentences
# of the batch, so a sentence's result depends on its neighbours and on padding. Layer norm takes
# them over the entries of one position.

# %%
norm, batch_norm = (
    tf_transformer.Residual(norm_position="pre").norm,
    keras.layers.BatchNormalization(),
)
x = normal(4, 6, 32)
assert are_close(norm(x)[:1], norm(x[:1]))
assert not are_close(batch_norm(x, training=True)[:1], batch_norm(x[:1], training=True))

# %% [markdown]
# **24. Pre-norm or post-norm?** The paper normalizes after each sum (post). Before each sublayer
# (pre), the sum itself is never normalized, the gradient passes unchanged, and deep models train
# more easily; each stack then needs one more norm at its end.

# %%
post, pre = (make_model(norm_position=position)[0] for position in ("post", "pre"))
assert pre.count_params() - post.count_params() == 2 * 2 * 32  # gamma and beta, in two stacks

# %% [markdown]
# **25. What does the feed-forward network do that attention does not?** Attention takes weighted
# means, which are linear in the values. The network computes a non-linear function of each
# position, by itself: it never looks at another one. (The first check: a position alone gives the
# same. The second: a linear function of $-x$ would be minus that of $x$.)

# %%
layer, x = tf_transformer.FeedForward(d_ff=128), normal(1, 6, 32)
assert are_close(layer(x)[:, 2:3], layer(x[:, 2:3]))
assert not are_close(layer(-x), -np.asarray(layer(x)))

# %% [markdown]
# **26. How many weights has the base model, and where?** An attention has $4 d^2$, a feed-forward
# network $2 \cdot d \cdot 4d = 8 d^2$, twice as many. There are six encoder layers with one
# attention each, and six decoder layers with two. With one embedding of 37,000 pieces, the biases
# and the norms that is 63 million; the paper's table says 65 million.

# %%
d, d_ff, vocab_size = 512, 2048, 37_000
attention_size, feed_forward_size = 4 * d * d + 4 * d, 2 * d * d_ff + d + d_ff
layers = 6 * (attention_size + feed_forward_size) + 6 * (2 * attention_size + feed_forward_size)
norms = 6 * (2 + 3) * 2 * d
print(f"{(vocab_size * d + layers + norms) / 1e6:.1f} million")

d, d_ff = 32, 128  # the same formula for the small model
attention_size, feed_forward_size = 4 * d * d + 4 * d, 2 * d * d_ff + d + d_ff
layers = 2 * (attention_size + feed_forward_size) + 2 * (2 * attention_size + feed_forward_size)
assert model.count_params() == 20 * d + layers + 2 * (2 + 3) * 2 * d

# %% [markdown]
# **27. What is tied?** Source embedding, target embedding and the matrix of the logits can be one
# ("all", the paper). It saves two matrices of $V \times d$, with a vocabulary of $V$ tokens, which
# the two languages then share. Here that is $2 \cdot 20 \cdot 32 = 1280$ weights; the other 20 are
# a bias of the logits, which our untied model has.

# %%
untied, _ = make_model(tied_embeddings="none")
difference = untied.count_params() - model.count_params()
print(difference)
assert difference in (2 * 20 * 32, 2 * 20 * 32 + 20)  # the untied logits may have a bias

# %% [markdown]
# **28. What does dropout do, and when?** In training, each entry becomes 0 with some probability,
# and the others are scaled up. So no entry can be relied on. In use it does nothing.

# %%
dropping, _ = make_model(dropout_rate=0.3)
assert are_close(dropping(batch), dropping(batch))
assert not are_close(dropping(batch, training=True), dropping(batch, training=True))

# %% [markdown]
# **29. How are deep models initialized?** One way (Zhang et al., 2019) scales the initial weights
# of layer $l$ by $1 / \sqrt{l}$, so that later layers add less to the residual sum, and the
# gradient of a deep post-norm model does not vanish.

# %%
deep, _ = make_model(num_encoder_layers=4, depth_scaled_initialization=True)
spreads = [np.std(layer.feed_forward.inner.kernel) for layer in deep.encoder.stacked_layers]
print(np.round(spreads / spreads[0], 2), "expected", np.round(1 / np.sqrt(np.arange(1, 5)), 2))
assert are_close(spreads / spreads[0], 1 / np.sqrt(np.arange(1, 5)), tolerance=0.05)

# %% [markdown]
# **30. Why subwords?** A vocabulary of whole words leaves rare ones unknown; one of characters
# makes sentences long. Pieces (BPE, SentencePiece) are frequent parts of words; any text can be
# written with them and read back.

# %%
import io

import sentencepiece

from training.demo.corpus import generate_pairs

lines = [english for english, _ in generate_pairs(2000, seed=1)]
written = io.BytesIO()
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(lines), model_writer=written, vocab_size=300, model_type="bpe",
    byte_fallback=False, minloglevel=2,
)  # fmt: skip
pieces = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
print(pieces.encode("The horse costs $45.", out_type=str))
assert pieces.decode(pieces.encode("The horse costs $45.")) == "The horse costs $45."

# %% [markdown]
# ## Training
#
# **31. What is teacher forcing?** The decoder's input is the right translation, shifted by one
# place; its labels are the same, not shifted. If the input were the model's own outputs, a sentence
# would have to be computed one token after the other.

# %%
translation = [11, 4, 15, 3]  # ends with 3
decoder_input, labels = [2, *translation[:-1]], translation
print("input ", decoder_input, "\nlabels", labels)
assert decoder_input[1:] == labels[:-1]

# %% [markdown]
# **32. Training is parallel, decoding goes step by step. Are the results the same?** Yes: because
# of the causal mask, the logits of a prefix are those of the same positions in the whole.

# %%
for length in range(1, 5):
    prefix = model(batch | {"target": batch["target"][:, :length]})
    assert are_close(prefix[0, -1], logits[0, length - 1])

# %% [markdown]
# **33. What is label smoothing?** The label's target probability is not 1 but $1 - \epsilon$ plus
# its share of $\epsilon$, which is spread over the vocabulary. The loss is least at that
# distribution, so the model does not become over-confident. In the paper, perplexity (the next
# question) gets worse, and BLEU, which compares translations with those of people, better.

# %%
epsilon, vocab_size = 0.1, 10
wanted = np.full(vocab_size, epsilon / vocab_size)
wanted[4] += 1 - epsilon


def loss_of(p):
    """Returns the smoothed loss of a distribution, whose label is 4."""
    label, log_p = np.array([[4]]), np.log(p)[None, None].astype("float32")
    return float(tf_transformer.smoothed_cross_entropy(label, log_p, epsilon)[0, 0])


surer = np.full(vocab_size, 0.0001 / 9)
surer[4] = 0.9999
print(f"at the smoothed labels {loss_of(wanted):.3f}, when almost certain {loss_of(surer):.3f}")
assert loss_of(wanted) < loss_of(surer)

# %% [markdown]
# **34. What is perplexity?** $e$ to the cross-entropy per token: the number of equally probable
# tokens among which the model would be as unsure. A model that knows nothing has the size of its
# vocabulary.

# %%
perplexity = tf_transformer.Perplexity()
perplexity.update_state(np.array([[4, 7, 3]]), np.zeros((1, 3, 20), "float32"))
assert are_close(perplexity.result(), 20)

# %% [markdown]
# **35. Why does the learning rate rise first?** At the beginning the gradients of random weights
# point anywhere, and Adam's estimates of their size rest on few steps. The rate is highest at the
# end of warm-up, then falls with $1 / \sqrt{step}$: at step 16,000, four times the warm-up, it is
# half of the highest.

# %%
rates = np.asarray(tf_transformer.NoamSchedule(512, warmup_steps=4000)(np.arange(16_000)))
assert rates.argmax() == 3999 and are_close(rates[15_999], rates[3999] / 2)

# %% [markdown]
# **36. What is gradient accumulation?** The sum of the gradients of several small batches, for one
# update: the same as one large batch, in less memory. The loss must be a sum over tokens, divided
# by the number of all of them. With a mean for each small batch, tokens of short batches would
# weigh more.

# %%
labels = np.array([[11, 4, 15, 3], [10, 13, 3, 0]])


def gradient_of(rows):
    """Returns the gradient of the mean loss over all 7 tokens, from some of the rows."""
    with tf.GradientTape() as tape:
        outputs = model({name: ids[rows] for name, ids in batch.items()})
        losses = tf_transformer.smoothed_cross_entropy(labels[rows], outputs, 0.1)
        loss = tf.reduce_sum(losses * (labels[rows] != 0)) / 7
    return tape.gradient(loss, model.trainable_weights[0].value)


both = gradient_of(slice(0, 2))
assert are_close(both, gradient_of(slice(0, 1)) + gradient_of(slice(1, 2)), tolerance=1e-5)

# %% [markdown]
# ## Decoding
#
# **37. What is greedy search, and is a beam of 1 the same?** It takes the most probable token in
# each step. Beam search keeps several unfinished translations (hypotheses) and their sums of
# log-probabilities; with a beam of 1 it keeps one, which is that of greedy search. (So that the
# next question can try all sentences, only three words and the end are allowed here. The model is
# not trained: it repeats one.)


# %%
def search(beam_size, max_length):
    """Returns all hypotheses for the first sentence; only the ids 3 (end) to 6 are allowed."""
    decoder = IncrementalDecoder(model, beam_size)
    source = batch["source"][:1]
    return tf_transformer.beam_search(
        decoder,
        decoder.start(1, model.encode(source), model.source_mask(source)),
        beam_size=beam_size,
        num_best=beam_size,
        begin_id=2,
        end_ids=[3],
        suppressed_ids=[0, 1, 2, *range(7, 20)],
        options=tf_transformer.SearchOptions(max_length=tf.constant([max_length])),
    )


def log_probs_after(ids):
    """Returns the log-probabilities of the token after some ids."""
    target = np.array([[2, *ids]])
    outputs = model({"source": batch["source"][:1], "target": target})
    return np.asarray(tf.nn.log_softmax(outputs[0, -1]))


ids = []
while len(ids) < 6:
    best = 3 + int(np.argmax(log_probs_after(ids)[3:7]))
    if best == 3:
        break
    ids.append(best)
found = search(1, 6)
assert found.ids[0, 0, : int(found.lengths[0, 0])].numpy().tolist() == ids
print(ids)

# %% [markdown]
# **38. Does beam search find the best sentence?** Only a beam that is wide enough is sure to. With
# three words and at most two of them in a sentence there are $1 + 3 + 9 = 13$ sentences, so a beam
# of 13 is exhaustive search. The best is the empty one here, since each token makes a sentence less
# probable: see question 40.

# %%
sentences = [ids for n in range(3) for ids in itertools.product([4, 5, 6], repeat=n)]
scores = {}
for ids in sentences:
    tokens = [*ids, 3]
    scores[ids] = sum(log_probs_after(tokens[:i])[token] for i, token in enumerate(tokens))
best = max(scores, key=scores.get)
found = search(13, 2)
assert tuple(found.ids[0, 0, : int(found.lengths[0, 0])].numpy()) == best
assert are_close(np.sort(found.scores[0]), np.sort(list(scores.values())))
print("the best of", len(sentences), "is", best)

# %% [markdown]
# **39. What is the KV cache?** In step $t$ of decoding, the keys (K) and values (V) of the tokens
# before $t$ are those of the steps before. They are kept, and each step computes those of one token
# only. The keys and values of the memory, for cross-attention, are computed once. It costs memory:
# two vectors of $d$ numbers per layer and token, of 4 bytes each.

# %%
decoder = IncrementalDecoder(model)
state = decoder.start(2, model.encode(batch["source"]), model.source_mask(batch["source"]))
for position in range(3):
    newest = tf.constant(batch["target"][:, position : position + 1], tf.int32)
    parents = tf.zeros((2, 1), tf.int32)
    step_logits, _, state = decoder.decode_step(newest, parents, tf.constant(position), state)
    assert are_close(step_logits[:, 0], logits[:, position])
print(f"base model, 100 tokens: {2 * 6 * 100 * 512 * 4 / 1e6:.1f} MB in float32 per hypothesis")

# %% [markdown]
# **40. What is the length penalty?** Each further token makes a log-probability smaller, so that
# short sentences win. The log-probability, which is negative, is divided by $((5 + n) / 6)^\alpha$,
# where $n$ counts the tokens with the end: with $\alpha = 0$ nothing changes, with $\alpha = 1$
# almost the mean per token counts. The paper has 0.6.

# %%
assert are_close(length_penalty(10, 0.6), (15 / 6) ** 0.6)
short, long = (-4.0, 4), (-5.0, 9)  # log-probability and length
for alpha in (0.0, 0.6, 1.0):
    a, b = (log_p / float(length_penalty(n, alpha)) for log_p, n in (short, long))
    print(
        f"alpha {alpha}: short {a:.2f}, long {b:.2f}, the better is {'short' if a > b else 'long'}"
    )

# %% [markdown]
# ## More
#
# The [guide](../guide.md) goes through the paper with the files of this project; its tests ask the
# same questions more strictly: [tests](../../tests/tf_transformer/models/test_variants.py).
