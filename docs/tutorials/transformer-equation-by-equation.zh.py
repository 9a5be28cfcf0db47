# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Transformer：逐个公式讲解
#
# 本文逐个公式讲解《Attention Is All You Need》（Vaswani 等，2017）中的模型。每一节都由四部分组成：
#
# 1. 公式，以及其中每个字母的含义；
# 2. 本项目中计算这个公式的层或函数；
# 3. 一个“孪生”实现：只根据公式写成的十行左右的 NumPy 代码，其结果必须与前者相等；
# 4. 一幅随参数变化的图。在 Jupyter 和 Colab 里，图的下方有滑块；在只展示笔记本的网页上，则是并排的几幅图。
#
# 读者需要会 Python 和 NumPy。至于什么是神经网络，两句话就够了：它是数组的函数，其中一部分数组（**权重**）在训练的每一步都被稍作调整，使某个数（**损失**）变小。**梯度**说明每个权重朝哪个方向、以多大的程度影响损失。**层**是这个函数的一部分，有自己的权重。与论文一样，本文有些字母用了不止一次，每一节都会说明其中字母的含义。下文提到的 *Annotated Transformer* 是[哈佛大学为这篇论文写的带讲解的程序](https://nlp.seas.harvard.edu/annotated-transformer/)。English: [transformer-equation-by-equation](transformer-equation-by-equation.ipynb).

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
# ## 输入什么，输出什么
#
# 翻译模型把句子读作一串**词元**（词或词的一部分），每个词元对应一个整数，即它的**编号**（id）。模型把每个编号映射为一个**向量**，即一行 `d_model` 个数（论文中是 512 个）。后面的所有计算都是对这些向量的变换：输入形状为 `(batch, length, d_model)` 的数组，输出同样形状的数组，而每个位置上的数都会随它的上下文而改变。一起计算的若干个句子称为一个**批次**（batch）。
#
# 模型由两半组成。**编码器**读取源句，为其中每个词元产生一个向量，这些向量合称 **memory**。**解码器**读取 memory 和已有的目标词元，预测下一个目标词元：
#
# ```
# 源句编号   -> 词嵌入 + 位置编码 -> N 层编码器 -> memory
#                                                    |
# 目标句编号 -> 词嵌入 + 位置编码 -> N 层解码器 <----+  -> logits -> 下一个词元
# ```
#
# **logits** 是词表中每个词元对应的一个数；`softmax` 把它们变成概率：
#
# $$\mathrm{softmax}(x)_i = \frac{e^{x_i}}{\sum_j e^{x_j}}$$


# %%
def softmax(x):
    """Returns probabilities along the last axis. Subtracting the maximum avoids overflow."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


softmax(np.array([1.0, 2.0, 3.0])).round(3)

# %% [markdown]
# ## 1. 注意力（论文 3.2.1 节）
#
# 一个词元的向量怎样才能吸收其他词元的信息？注意力的做法像查字典，只不过是“软”的。每个词元提出一个问题，即它的**查询** $q$；每个词元又提供一个**键** $k$ 和一个**值** $v$。点积 $q \cdot k$ 表示这个键与查询有多匹配；softmax 把这些得分变成总和为 1 的权重；结果就是各个值的加权平均。把查询、键、值分别作为 $Q$、$K$、$V$ 的行，就得到：
#
# $$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\left(\frac{Q K^T}{\sqrt{d_k}}\right) V$$
#
# 设有 $n$ 个查询、$m$ 个键，则 $Q$ 的形状是 $(n, d_k)$，$K$ 是 $(m, d_k)$，$V$ 是 $(m, d_v)$：$d_k$ 是查询和键的维数，$d_v$ 是值的维数。$Q K^T$ 是全部得分组成的表，形状为 $(n, m)$；softmax 对每一行分别计算；结果中每个查询占一行，形状为 $(n, d_v)$。为什么除以 $\sqrt{d_k}$，下面会讲。本项目中对应的函数是 [`scaled_dot_product_attention`](../../tf_transformer/layers/attention.py)，所有注意力层都调用它。它返回结果和权重。这里的数组是随机的；在模型中它们从何而来，见第 3 节。（孪生实现中的 `mask` 留到第 2 节使用。）

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
# **为什么要除以 $\sqrt{d_k}$？** 如果 $q$ 和 $k$ 的各分量相互独立、均值为 0、方差为 1，那么点积是 $d_k$ 个这样的项之和，方差就是 $d_k$；除以它的平方根，方差又变成 1。不除的话，得分会随维数增大，softmax 几乎把全部权重都给了一两个键；在那里梯度接近 0，训练几乎停滞。下图是一个查询对 8 个键的权重：维数为 4 时比较分散；维数为 256 时集中在两个键上；除以平方根之后又分散开来。


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
# ## 2. 掩码（论文 3.2.3 节）
#
# 掩码规定一个查询可以关注哪些键。本项目的掩码都是布尔值，True 表示“可以关注”。不允许关注某个键，有两种原因：
#
# - **填充。** 同一批次中的句子长度不同，短句用编号 0 补齐。任何词元都不应关注这些补上的位置。
# - **未来。** 训练时，解码器要根据第 $i$ 个及以前的词元预测第 $i + 1$ 个。如果它能看到第 $i + 1$ 个，照抄就行了。所以只有当 $j \le i$ 时，查询 $i$ 才可以关注键 $j$：这就是**因果**掩码。
#
# $$M_{ij} = [\mathrm{id}_j \ne 0] \wedge [j \le i]$$
#
# （方括号里的命题为真时取 1，为假时取 0；$\wedge$ 表示“并且”。除了 0，还有两个编号有特殊含义：2 表示目标句的开头，3 表示句子的结尾。）
#
# 在 $M_{ij}$ 为 0 的地方，得分在 softmax 之前换成一个极大的负数（这里是 $-10^9$，论文中是 $-\infty$）。$e$ 的这么多次方等于 0，所以这个键的权重为 0，而其余的权重之和仍是 1。
#
# 各层接受四个轴的掩码 `(batch, heads, queries, keys)`；某个轴的长度为 1，表示在这个轴上全都相同。所以下面的掩码形状为 `(2, 1, 5, 5)`，而查询、键和值的形状是 `(batch, heads, length, d_k)`，这里为 `(2, 1, 5, 8)`。（[masks.py](../../tf_transformer/layers/masks.py)）

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
# 蓝色表示“可以关注”；8 个位置中有 `tokens` 个是真正的词元，其余是填充。左图只有填充掩码，中图只有因果掩码，右图两者都有。填充位置作为查询的那几行也会被计算，但从不使用：后面的层不会关注它们，损失也不包括它们。
#
# ## 3. 多头注意力（论文 3.2.2 节）
#
# 一次加权平均只能体现词与词之间的一种关系。因此注意力同时计算 $h$ 次，由 $h$ 个**头**完成，每个头有自己的查询、键和值。第 $i$ 个头用三个权重矩阵 $W^Q_i$、$W^K_i$、$W^V_i$ 从同样的向量得到它们，每个矩阵的形状是 $(d_{model}, d_k)$，其中 $d_k = d_v = d_{model} / h$（论文中是 64）。各个头的结果拼接起来，又是 `d_model` 个数，再由第四个矩阵 $W^O$（形状为 $(d_{model}, d_{model})$）混合：
#
# $$\mathrm{MultiHead}(Q, K, V) = \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)\, W^O$$
#
# $$\mathrm{head}_i = \mathrm{Attention}(Q W^Q_i, K W^K_i, V W^V_i)$$
#
# 在**自注意力**中，$Q$、$K$、$V$ 来自同一组向量：句子看自己。在**交叉注意力**中，$Q$ 来自解码器的向量，$K$ 和 $V$ 来自 memory：目标句看源句。实际的程序（包括本项目）把所有头的矩阵并排放进一个大矩阵，再把乘积拆成各个头。与 Annotated Transformer 一样，本项目的层在每个矩阵之后还加上**偏置**，即 $x W + b$ 中可学习的向量 $b$。

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
# 未经训练的层权重是随机的，所以各个头关注的位置已经不同。图中每一行是一个查询，每一列是一个键，颜色越深，权重越大。改变头的数目：每个头变窄，而总计算量大致不变。


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
# ## 4. 前馈网络（论文 3.3 节）
#
# 注意力在各位置之间传递信息，但只会求平均。每个位置如何利用得到的平均值，由两次矩阵乘法和夹在中间的一个简单非线性函数来计算：$\max(0, \cdot)$ 把负数都换成 0。（没有它，两次乘法只相当于与另一个矩阵相乘一次。）它们在每个位置上都相同。$W_1$ 的形状是 $(d_{model}, d_{ff})$，$W_2$ 是 $(d_{ff}, d_{model})$；中间的维数 `d_ff` 一般是 `d_model` 的四倍：
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
# 图的横轴是函数的输入，纵轴是函数值。`relu` 就是论文中的 $\max(0, \cdot)$；后来的模型常用其他更平滑的函数。
#
# ## 5. 残差连接与层归一化（论文 3.1 节）
#
# 注意力和前馈网络是编码器或解码器每一层中的**子层**。子层的输出与它的输入相加（**残差连接**），因此一层只需要学习修正量，梯度穿过许多层时也有一条捷径。**层归一化**让数值保持在合适的范围：它单独处理每个位置，把其 `d_model` 个分量平移、缩放到均值为 0、方差为 1，再乘以可学习的 $\gamma$、加上可学习的 $\beta$；$\epsilon$ 是一个很小的数，避免除以 0：
#
# $$\mathrm{norm}(x) = \gamma \, \frac{x - \mathrm{mean}(x)}{\sqrt{\mathrm{var}(x) + \epsilon}} + \beta$$
#
# 论文在相加之后归一化（“post”）；如今大多数程序在子层之前归一化（“pre”）：
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
# 下图让一个随机的句子通过多层未经训练的编码器，画出每一层之后各分量的标准差。（`sublayer_inputs` 在 pre 时就是归一化，在 post 时什么也不做。）采用 pre 时，相加的结果随层数增大，整叠层的末尾还有一次归一化（图中没有画出）把它拉回来；采用 post 时，每一层都做归一化，而梯度必须逐一穿过它们，所以层数多时较难训练。


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
# ## 6. 词嵌入与 logits（论文 3.4 节）
#
# **词嵌入**是一个矩阵 $E$，词表中每个词元占一行，每行 `d_model` 个权重。查编号 $i$，就是取出对应的一行 $E_i$。取出的行要乘以 $\sqrt{d_{model}}$，使它与将要加上的位置向量大小相当。在模型的另一端，同一个矩阵把解码器的向量 $x$ 变成 logits：$x$ 与每个词元对应的行做点积。
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
# ## 7. 位置编码（论文 3.5 节）
#
# 到目前为止，模型并不知道词的顺序：把源句打乱，注意力给出的还是同样的向量，只是顺序随之打乱。因此每个位置都有一个向量，加到词嵌入上：
#
# $$PE_{(pos, 2i)} = \sin\left(\frac{pos}{10000^{2i/d_{model}}}\right) \qquad
#   PE_{(pos, 2i+1)} = \cos\left(\frac{pos}{10000^{2i/d_{model}}}\right)$$
#
# $pos$ 是位置，从 0 数起；位置向量的第 $2i$ 和 $2i + 1$ 个分量组成第 $i$ 对，$i$ 从 0 到 $d_{model} / 2 - 1$。可以想象一排指针：每一对正弦和余弦是一根指针，各以自己的速度转动，前面的转得快，后面的转得很慢。看一眼所有的指针，就知道“时间”，也就是位置。（`kind="interleaved"` 表示正弦和余弦交替排列，与公式相同；有的程序把所有正弦放在前面。）（[positions.py](../../tf_transformer/layers/positions.py)）

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
# 把所有指针拨动 $k$ 步，在任何位置都是同一个动作：$PE(pos + k) = M_k\,PE(pos)$，其中 $M_k$ 把每一对旋转一个固定的角度。所以一层可以用一个矩阵学会“左边第三个词”这样的关系。下面第一段代码构造 $M_3$ 并作比较。由此还可知，两个位置 $p$ 和 $q$ 的向量的内积只取决于它们的距离：每一对贡献的是它的两根指针夹角的余弦。
#
# 在标有 vectors 的图中，一行是一个位置：左边的分量逐行变化很快，右边的几乎不变。在标有 products 的图中，每条对角线颜色相同，因为距离处处相同；最亮的一条是距离 0。

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
# ## 8. 整个模型
#
# 各部分都齐全了。编码器的一层由自注意力和前馈网络组成；解码器的一层在两者之间还有交叉注意力。每个子层都按第 5 节的方式包起来。论文在两侧各叠 $N = 6$ 层。论文在训练时还把随机选出的分量置为 0（**dropout**，论文 5.4 节），使模型不能只依赖某一个分量；这里 `dropout_rate` 为 0。整个模型的孪生实现由前面的各个孪生函数组成，权重取自本项目的一个小模型；两者的 logits 必须相等。

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
# 这里源语言和目标语言共用一个词嵌入矩阵（`tied_embeddings="all"`，与论文相同）；两种语言共用一个词表时才可以这样做。
#
# ## 9. 训练数据的形式：teacher forcing（论文 3.1 节）
#
# 解码器的输入是正确的译文，但向右移了一位：在每个位置上，它看到的是前面正确的词元，要预测的是下一个。这叫作 **teacher forcing**。这样所有位置可以同时训练，而因果掩码保证任何位置都看不到它要预测的词元。`<s>` 是表示开头的编号 2，`</s>` 是表示结尾的编号 3：
#
# ```
# source   我     爱     机器      学习       </s>
# target   <s>    i      love      machine    learning
# labels   i      love   machine   learning   </s>
# ```
#
# **标签**（labels）就是要预测的词元。后面的词元绝不能影响前面的预测。我们改动目标句的最后一个词元，再比较：

# %%
changed = target.copy()
changed[:, -1] = 6
assert_equal(model({"source": source, "target": changed})[:, :-1], np.asarray(logits)[:, :-1])

# %% [markdown]
# ## 10. 损失与标签平滑（论文 5.4 节）
#
# 一个位置上的损失是**交叉熵**，比较的是我们想要的概率 $q$ 与模型给出的 $p = \mathrm{softmax}(\mathrm{logits})$；$k$ 取遍词表中的全部词元。在 $q$ 大的地方 $p$ 也大，损失就小：
#
# $$L = -\sum_k q(k) \log p(k)$$
#
# 最简单的 $q$ 在标签处为 1，其余为 0。但这样一来，模型只要更加自信，损失就总能再小一点，没有止境。采用**标签平滑**时，标签 $y$ 分到 $1 - \epsilon$，而 $\epsilon$（论文中是 0.1）平均分给词表中的全部 $V$ 个词元（包括标签），于是过分自信就要付出代价：
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
# 虚线是标签的 $q$ 值，损失在那里最小。再往右，模型就过分自信了，损失反而上升。
#
# ## 11. 学习率（论文 5.3 节）
#
# 在每一步，**优化器**对权重的改动与**学习率**成正比。这里的优化器是 Adam，它对每个梯度和梯度的平方各保留一个滑动平均，用前者除以后者的平方根来决定改动多少：$\beta_1 = 0.9$ 和 $\beta_2 = 0.98$ 规定这两个平均变化得多慢，$\epsilon = 10^{-9}$ 避免除以 0。最初的 $warmup$ 步（论文中是 4,000 步）中学习率逐渐上升，因为从随机权重出发，步子太大有害；此后逐渐下降（$step$ 从 1 数起；取最小值的两项在 $step = warmup$ 时相等，那里是最高点）：
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
# ## 12. 束搜索（论文 6.1 节）
#
# 训练好的模型给出每个候选词元作为下一个词元的概率。整个句子的概率是各词元概率的乘积，所以它的对数是各个对数之和。哪个句子概率最大？句子太多，无法一一尝试。**贪心搜索**每一步取最好的词元，有可能走进死胡同，即后面无论接什么，概率都很小。**束搜索**保留最好的 `beam_size` 个开头，用每个可能的词元去延长它们，再保留其中最好的。句子越长，乘的因子越多，所以比较已完成的句子时要除以长度惩罚 $lp$（Wu 等，2016）。$y$ 是整个句子，$n$ 是它的词元数，包括结束符；对数是负数，除以 $lp$ 就更接近 0，所以 $\alpha$ 越大，长句越占便宜。论文的束宽为 4，$\alpha = 0.6$：
#
# $$score = \frac{\log p(y)}{lp(n)} \qquad lp(n) = \left(\frac{5 + n}{6}\right)^\alpha$$
#
# 为了只看搜索本身，这里的“模型”是一张表：一个词元的概率只取决于它前面的那个词元。编号 0、2、3 分别是填充、起始符和结束符，其余六个是词。`TableModel` 有 `beam_search` 要调用的两个方法，其中 `decode_step` 返回最新词元之后的 logits。只需要读懂孪生实现。

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
# 在这个例子里，束每加宽一次，找到的句子概率就更大，也更短：这正是需要长度惩罚的原因。$\alpha = 0$ 时，每多一个词元，得分都会降低。
#
# 束宽等于所有可能的句子数时，就是穷举搜索：由这六个词中的一到三个组成的句子共有 $6 + 6^2 + 6^3 = 258$ 个。在 40 张随机的表中，较窄的束有多大比例能找到其中最好的那一个？图中每根柱子就是这一比例。贪心搜索（束宽为 1）在不到一半的表中找到它；束越宽，找到的比例越高。


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
# ## 13. 它真的能学会吗？
#
# Annotated Transformer 的第一个练习：复制一串十个符号。它要用到上面的一切；两侧各两层的模型，不到一分钟就能学会。符号就是编号 1 到 10；每一串都以 1 开头，而 2 和 3 在这里没有特殊含义。模型训练 15 轮（epoch），每轮 20 个批次，然后 `greedy_copy` 用贪心搜索写出一串符号。
#
# 左图是每一轮之后的损失。右图是解码器最后一层对这一串的注意力权重：行是目标位置，列是源位置，都从 0 数起。

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
# 为了预测下一个符号，每个目标位置关注的主要是源句中接下来的那个位置，即自己右边的一个：模型自己发现了，复制就是一条对角线。
#
# ## 动手试一试
#
# - 第 1 节：取 `scaled=False`，维数多大时，一个键会得到 0.99 以上的权重？
# - 第 7 节：取 `products` 和 `d_model=8`，哪个位置与位置 0 最相似？为什么不是位置 1？
# - 第 8 节：去掉位置编码（在 `TransformerConfig` 中加上 `positions="none"`），为什么会报错？
#
# 答案：1024（每种维数都重新抽取查询和键，所以 64 时反而比 16 时平坦）。位置 6：最快的指针几乎转了一整圈（$2 \pi \approx 6.3$ 个位置），其余的转得少一些。没有位置编码，模型就无法知道词的顺序（见第 7 节），所以这样的设置不被接受。
#
# 接下来：[从 RNN 到注意力](from-rnn-to-attention.ipynb)与此前的方法作比较；[四十道面试题](forty-interview-questions.ipynb)检验是否真的理解了；[指南](../guide.zh.md)按论文的顺序介绍本项目的源文件。
