"""The whole model: what it must never see, and that all ways through it compute the same."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.numpy_reference import (
    decoder_layer,
    encoder_layer,
    read_decoder_layer,
    read_encoder_layer,
    read_linear,
    read_norm,
    sinusoids,
)
from tf_transformer import (
    LabelSmoothedCrossEntropy,
    NoamSchedule,
    SmoothedLoss,
    Transformer,
    TransformerConfig,
)
from tf_transformer.decoding.incremental_decoder import IncrementalDecoder
from tf_transformer.layers.masks import padding_mask

VOCAB = 13
INTERVAL = IncrementalDecoder.compaction_interval
SOURCE = np.array([[5, 6, 7, 8, 3], [9, 4, 3, 0, 0]], "int32")
TARGET = np.array([[2, 4, 9, 12, 6, 1], [2, 11, 5, 7, 0, 0]], "int32")
# What no position sees does not depend on which matrices are shared.
TWO_VARIANTS = pytest.mark.representatives("post-none", "pre-all")
VARIANTS = [
    (norm_position, tied) for norm_position in ("post", "pre") for tied in ("none", "target", "all")
]


@pytest.fixture(autouse=True)
def rng():
    keras.utils.set_random_seed(1)
    return np.random.default_rng(1)


def make_model(
    norm_position="post", tied_embeddings="all", dtype=None, num_layers=2, **settings
) -> Transformer:
    """A model whose biases and gains are random too."""
    same = tied_embeddings == "all"
    settings = (
        dict(
            source_vocab_size=VOCAB if same else 10,
            target_vocab_size=VOCAB,
            num_encoder_layers=num_layers,
            num_decoder_layers=num_layers,
            d_model=8,
            d_ff=12,
            num_heads=2,
            norm_position=norm_position,
            tied_embeddings=tied_embeddings,
        )
        | settings
    )
    model = Transformer(TransformerConfig(**settings), dtype=dtype)
    rng = np.random.default_rng(2)
    for weight in model.weights:
        if weight.name == "gamma":
            weight.assign(rng.uniform(0.5, 1.5, size=weight.shape))
        elif weight.name in ("beta", "bias"):
            weight.assign(rng.normal(scale=0.3, size=weight.shape))
        else:
            weight.assign(rng.normal(scale=0.5, size=weight.shape))
    return model


@pytest.fixture(scope="module", params=VARIANTS, ids="-".join)
def model(request):
    """Shared by the tests that leave it as it is."""
    keras.utils.set_random_seed(1)
    return make_model(*request.param)


def run_model(model, source=SOURCE, target=TARGET):
    return np.asarray(model({"source": source, "target": target}))


def pad(ids, count):
    return np.pad(ids, [(0, 0), (0, count)])


def dtype_of(tensor):
    return keras.backend.standardize_dtype(tensor.dtype)


# The equations


@pytest.mark.slow
@pytest.mark.representatives("post-none", "pre-target", "pre-all")
def test_logits_against_numpy(model):
    """Embedding times sqrt(d_model) plus sinusoids, both stacks, and the tied projection."""
    d_model = model.config.d_model

    def embed(embedding, ids):
        matrix = np.asarray(embedding.embeddings, np.float64)
        return matrix[ids] * math.sqrt(d_model) + sinusoids(range(ids.shape[1]), d_model)

    source_mask = (SOURCE != 0)[:, None, :]
    target_mask = (TARGET != 0)[:, None, :] & np.tril(np.ones((6, 6), bool))
    memory = embed(model.source_embedding, SOURCE)
    for layer in model.encoder.stacked_layers:
        memory = encoder_layer(read_encoder_layer(layer), memory, source_mask)
    pre = model.config.norm_position == "pre"
    memory = read_norm(model.encoder.final_norm)(memory) if pre else memory
    hidden = embed(model.target_embedding, TARGET)
    for layer in model.decoder.stacked_layers:
        hidden = decoder_layer(read_decoder_layer(layer), hidden, memory, target_mask, source_mask)
    hidden = read_norm(model.decoder.final_norm)(hidden) if pre else hidden
    if model.config.tied_embeddings == "none":
        expected = read_linear(model.logits_projection)(hidden)
    else:
        expected = hidden @ np.asarray(model.target_embedding.embeddings, np.float64).T
    np.testing.assert_allclose(run_model(model), expected, atol=1e-4)


@pytest.mark.slow
@TWO_VARIANTS
def test_call_is_decode_of_encode(model):
    memory = model.encode(SOURCE)
    assert memory.shape == (2, 5, 8)
    logits = model.decode(TARGET, memory, padding_mask(SOURCE))
    assert logits.shape == (2, 6, VOCAB)
    np.testing.assert_array_equal(run_model(model), logits)


# What no position may see


@pytest.mark.slow
@TWO_VARIANTS
def test_causality(model):
    """A later target token changes no earlier logits, and does change its own."""
    logits = run_model(model)
    for position in range(1, TARGET.shape[1]):
        target = TARGET.copy()
        target[:, position] = 3
        changed = run_model(model, target=target)
        np.testing.assert_array_equal(changed[:, :position], logits[:, :position])
        assert (changed[:, position] != logits[:, position]).any(axis=-1).all()


@pytest.mark.slow
@TWO_VARIANTS
def test_padding_invariance(model):
    """More padding on either side changes no logits of real tokens."""
    logits = run_model(model)
    real = TARGET != 0
    for source_padding, target_padding in [(3, 0), (0, 4), (2, 1)]:
        padded = run_model(model, pad(SOURCE, source_padding), pad(TARGET, target_padding))
        np.testing.assert_allclose(padded[:, : TARGET.shape[1]][real], logits[real], atol=1e-5)


@pytest.mark.slow
@TWO_VARIANTS
def test_a_batch_is_its_sentences_one_by_one(model):
    """Each without its padding."""
    logits = run_model(model)
    for row in range(len(SOURCE)):
        source, target = SOURCE[row, SOURCE[row] != 0], TARGET[row, TARGET[row] != 0]
        alone = run_model(model, source[None], target[None])[0]
        np.testing.assert_allclose(alone, logits[row, : len(target)], atol=1e-5)


@TWO_VARIANTS
def test_decoder_ignores_memory_at_padding(model, rng):
    memory = np.asarray(model.encode(SOURCE))
    mask = padding_mask(SOURCE)
    logits = model.decode(TARGET, memory, mask)
    garbage = np.where(np.asarray(mask)[..., None], memory, 1e3 * rng.normal(size=memory.shape))
    np.testing.assert_array_equal(model.decode(TARGET, garbage.astype("float32"), mask), logits)


@pytest.mark.slow
@TWO_VARIANTS
def test_no_gradient_flows_into_source_padding(model):
    """Neither from the memory of real tokens nor from the logits of real tokens."""
    ids = SOURCE
    hidden = tf.Variable(model._embed_source(ids, training=False))
    mask = padding_mask(ids)
    with tf.GradientTape() as tape:
        memory = model.encoder(hidden, mask[:, None, None, :])
        logits = model.decode(TARGET, memory, mask)
        value = tf.reduce_sum(memory[mask] ** 3) + tf.reduce_sum(logits[TARGET != 0] ** 3)
    gradient = tape.gradient(value, hidden).numpy()
    assert not gradient[ids == 0].any()
    assert gradient[ids != 0].any(axis=-1).all()


# Token by token


def start(model, beam_size=1, source=SOURCE):
    decoder = IncrementalDecoder(model, beam_size)
    return decoder, decoder.start(len(source), model.encode(source), padding_mask(source))


def decode_by_steps(model, hypotheses, source=SOURCE):
    """Logits `(batch, beam, length, vocab)` of hypotheses `(batch, beam, length)`."""
    batch_size, beam_size, length = hypotheses.shape
    decoder, state = start(model, beam_size, source)
    same = tf.tile(tf.range(beam_size)[tf.newaxis], (batch_size, 1))
    alive = tf.fill((batch_size, beam_size), True)
    steps = []
    for number in range(length):
        if number and number % INTERVAL == 0:
            state = decoder.select_rows(tf.range(batch_size), alive, same, number, state)
        logits, _, state = decoder.decode_step(hypotheses[:, :, number], same, number, state)
        steps.append(np.asarray(logits))
    return np.stack(steps, axis=2)


@pytest.mark.representatives("post-target-3", "pre-all-1")
@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 3])
def test_cached_is_uncached(model, rng, beam_size):
    """Every hypothesis of its own, all of them unlike each other."""
    hypotheses = rng.integers(3, VOCAB, size=(2, beam_size, 2 * INTERVAL + 3)).astype("int32")
    hypotheses[:, :, 0] = 2
    logits = decode_by_steps(model, hypotheses)
    expected = run_model(
        model, np.repeat(SOURCE, beam_size, axis=0), hypotheses.reshape(2 * beam_size, -1)
    )
    np.testing.assert_allclose(logits.reshape(expected.shape), expected, atol=1e-5)


@pytest.mark.representatives("self_attention")
@pytest.mark.slow
@pytest.mark.parametrize("autoregression", ["self_attention", "ssru"])
def test_cache_follows_its_hypotheses(rng, autoregression):
    """Random parents, rows that leave, hypotheses that die: logits are those of the whole output.

    What a search does, over three rounds of tidying.
    """
    model = make_model(decoder_autoregression=autoregression)
    source = np.concatenate([SOURCE, SOURCE[::-1], SOURCE])
    beam_size, rows = 3, np.arange(len(source))
    decoder, state = start(model, beam_size, source)
    parents = np.zeros((len(source), beam_size), "int32")
    targets = np.zeros((len(source), beam_size, 0), "int32")
    alive = np.ones((len(source), beam_size), bool)
    found, sources, prefixes = [], [], []
    for number in range(3 * INTERVAL + 2):
        if number and number % INTERVAL == 0:
            kept = np.flatnonzero(rng.random(len(rows)) < 0.8).astype("int32")
            kept = kept if len(kept) else np.array([0], "int32")
            state = decoder.select_rows(kept, alive, parents, number, state)
            rows, parents, targets, alive = (x[kept] for x in (rows, parents, targets, alive))
        newest = rng.integers(3, VOCAB, parents.shape).astype("int32")
        targets = np.concatenate(
            [np.take_along_axis(targets, parents[:, :, None], axis=1), newest[:, :, None]], axis=2
        )
        logits, _, state = decoder.decode_step(newest, parents, number, state)
        found.append(np.asarray(logits)[alive])
        sources.append(source[rows[np.nonzero(alive)[0]]])
        prefixes.append(pad(targets[alive], 3 * INTERVAL + 1 - number))
        parents = np.array([rng.choice(np.flatnonzero(row), beam_size) for row in alive], "int32")
        alive = rng.random(alive.shape) < 0.8
        alive[:, 0] = True
    assert len(rows) < len(source)
    prefixes = np.concatenate(prefixes)
    whole = run_model(model, np.concatenate(sources), prefixes)
    expected = whole[np.arange(len(whole)), np.count_nonzero(prefixes, axis=1) - 1]
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-5)


@pytest.mark.slow
def test_entries_that_nobody_sees_are_dropped():
    """A beam whose hypotheses share their past keeps it once."""
    decoder, state = start(make_model(), beam_size=4)
    first = np.zeros((2, 4), "int32")
    for number in range(INTERVAL):
        _, _, state = decoder.decode_step(np.full((2, 4), 5, "int32"), first, number, state)
    room = 4 * INTERVAL
    assert state.cache.visible.shape == (2, 4, room)
    alive = np.ones((2, 4), bool)
    state = decoder.select_rows([0, 1], alive, first, INTERVAL, state)
    # The first hypothesis's entry of every step, for all that continue it.
    assert state.cache.visible.shape == (2, 4, INTERVAL + room)
    assert all(layer.shape[3] == INTERVAL + room for layer in state.cache.layers)


@pytest.mark.slow
def test_graph_and_eager_mode_decode_alike():
    """In a graph entries are written in place, in eager mode they are not."""
    model = make_model(num_layers=1)
    target_ids = TARGET[:, :4]

    @tf.function(
        input_signature=[tf.TensorSpec((None, None), tf.int32), tf.TensorSpec((None, 4), tf.int32)]
    )
    def decode(source, target):
        decoder = IncrementalDecoder(model)
        state = decoder.start(tf.shape(source)[0], model.encode(source), padding_mask(source))
        logits = []
        for number in range(4):
            newest, parents = target[:, number : number + 1], tf.zeros_like(target[:, :1])
            step_logits, _, state = decoder.decode_step(newest, parents, number, state)
            logits.append(step_logits[:, 0])
        return tf.stack(logits, axis=1)

    expected = decode_by_steps(model, target_ids[:, None])[:, 0]
    for _ in range(2):  # the first call leaves nothing behind for the second
        np.testing.assert_allclose(decode(SOURCE, target_ids), expected, atol=1e-5)


@pytest.mark.slow
def test_attention_on_request():
    model = make_model()
    decoder, state = start(model, beam_size=1)
    newest, parents = TARGET[:, :1], np.zeros((2, 1), "int32")
    _, attention, _ = decoder.decode_step(newest, parents, 0, state, return_attention=True)
    expected = model.states({"source": SOURCE, "target": newest}).attention
    np.testing.assert_allclose(attention, np.mean(expected.cross[-1], axis=1), atol=1e-6)


# Precision


@TWO_VARIANTS
@pytest.mark.slow
def test_mixed_bfloat16(model):
    """float32 weights and logits, bfloat16 between them, nearly the same result."""
    mixed = Transformer(model.config, dtype="mixed_bfloat16")
    mixed.set_weights(model.get_weights())
    assert all(dtype_of(weight) == "float32" for weight in mixed.weights)
    memory = mixed.encode(SOURCE)
    assert dtype_of(memory) == "bfloat16"
    logits = mixed({"source": SOURCE, "target": TARGET})
    assert dtype_of(logits) == "float32"
    expected = run_model(model)
    error = np.sqrt(np.mean((logits - expected) ** 2) / np.mean(expected**2))
    assert 1e-5 < error < 0.05
    decoder, state = start(mixed)
    kept = [state.cache.layers, state.projected_memory]
    assert {dtype_of(array) for array in tf.nest.flatten(kept)} == {"bfloat16"}
    step_logits, _, state = decoder.decode_step(TARGET[:, :1], np.zeros((2, 1), "int32"), 0, state)
    assert dtype_of(step_logits) == "float32"
    assert {dtype_of(array) for array in state.cache.layers} == {"bfloat16"}
    np.testing.assert_allclose(step_logits[:, 0], logits[:, 0], atol=0.05)


# Weights


@pytest.mark.slow
@pytest.mark.parametrize("tied", ["none", "target", "inputs", "all"])
def test_tied_matrices_are_one_variable(tied):
    model = make_model(tied_embeddings=tied, source_vocab_size=VOCAB, num_layers=1)
    matrices = [weight for weight in model.weights if weight.name == "embeddings"]
    assert len(matrices) == (1 if tied in ("inputs", "all") else 2)
    assert (model.source_embedding is model.target_embedding) == (tied in ("inputs", "all"))
    assert (model.logits_projection is not None) == (tied in ("none", "inputs"))
    assert len({id(weight) for weight in model.weights}) == len(model.weights)
    # A token of neither sentence: its vector moves its own logits, if the two are tied.
    assert not (SOURCE == 10).any() and not (TARGET == 10).any()
    before = run_model(model)
    matrix = np.array(model.target_embedding.embeddings)
    matrix[10] += 0.5
    model.target_embedding.embeddings.assign(matrix)
    moved = (run_model(model) != before).any(axis=(0, 1))
    tied_to_logits = tied in ("target", "all")
    assert moved.tolist() == [tied_to_logits and token == 10 for token in range(VOCAB)]


def test_initial_weights():
    """Xavier-uniform projections, each a matrix of its own; normal embeddings of variance 1/d."""
    model = Transformer(
        TransformerConfig(
            source_vocab_size=50,
            target_vocab_size=60,
            num_encoder_layers=1,
            num_decoder_layers=1,
            d_model=32,
            d_ff=64,
            num_heads=4,
            tied_embeddings="none",
        )
    )

    def check(matrix, rows, columns):
        """Uniform in +-sqrt(6 / (rows + columns)): the limit is kept, and nearly reached."""
        assert matrix.shape == (rows, columns)
        limit = math.sqrt(6 / (rows + columns))
        assert 0.97 * limit < np.abs(matrix).max() <= limit * (1 + 1e-6)
        np.testing.assert_allclose(np.std(matrix), limit / math.sqrt(3), rtol=0.1)

    encoder, decoder = model.encoder.stacked_layers[0], model.decoder.stacked_layers[0]
    matrices = [
        part
        for layer, parts in [
            (encoder.self_attention.query_key_value, 3),
            (decoder.self_attention.query_key_value, 3),
            (decoder.cross_attention.query, 1),
            (decoder.cross_attention.key_value, 2),
            (encoder.self_attention.output_projection, 1),
            (decoder.self_attention.output_projection, 1),
            (decoder.cross_attention.output_projection, 1),
        ]
        for part in np.split(np.asarray(layer.kernel), parts, axis=1)
    ]
    for matrix in matrices:
        check(matrix, 32, 32)
    for layer in (encoder, decoder):
        check(np.asarray(layer.feed_forward.inner.kernel), 32, 64)
        check(np.asarray(layer.feed_forward.outer.kernel), 64, 32)
    for embedding, rows in ((model.source_embedding, 50), (model.target_embedding, 60)):
        matrix = np.asarray(embedding.embeddings)
        assert matrix.shape == (rows, 32)
        np.testing.assert_allclose(np.std(matrix), 32**-0.5, rtol=0.1)
    check(np.asarray(model.logits_projection.kernel), 32, 60)
    # No two of them the same draw.
    assert len({float(matrix[0, 0]) for matrix in matrices}) == len(matrices)
    for weight in model.weights:
        if weight.name in ("bias", "beta"):
            assert not np.any(weight)
        if weight.name == "gamma":
            assert np.all(np.asarray(weight) == 1)


def count_parameters(config):
    """By formula: embeddings, N encoder layers, N decoder layers, final norms."""
    d, d_ff = config.d_model, config.d_ff
    attention = 4 * (d * d + d)
    feed_forward = (d * d_ff + d_ff) + (d_ff * d + d)
    norm = 2 * d
    source, target = config.source_vocab_size * d, config.target_vocab_size * d
    embeddings = {
        "all": target,
        "target": source + target,
        "none": source + 2 * target + config.target_vocab_size,
    }[config.tied_embeddings]
    return (
        embeddings
        + config.num_encoder_layers * (attention + feed_forward + 2 * norm)
        + config.num_decoder_layers * (2 * attention + feed_forward + 3 * norm)
        + (2 * norm if config.norm_position == "pre" else 0)
    )


@pytest.mark.representatives("post-none", "pre-target", "pre-all")
def test_parameter_count(model):
    assert model.count_params() == count_parameters(model.config)


@pytest.mark.slow
def test_parameter_count_of_the_base_model():
    """Table 3 of the paper says 65 million, of which 37,000 joint pieces make 19."""
    config = TransformerConfig.preset("base", source_vocab_size=37000, target_vocab_size=37000)
    assert count_parameters(config) == 63_082_496
    assert Transformer(config).count_params() == 63_082_496


# Saving and training, as a user does


@TWO_VARIANTS
@pytest.mark.slow
def test_save_and_load(model, tmp_path):
    model.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    assert restored.config == model.config
    np.testing.assert_array_equal(run_model(restored), run_model(model))


@pytest.mark.parametrize("name", ["model.h5", "model.hdf5"])
def test_keras_former_format_is_refused(tmp_path, name):
    """Keras writes it, and finds no Transformer in it."""
    model = make_model(num_layers=1)
    with pytest.raises(ValueError, match=rf"must end in .keras: .* Received: .*{name}$"):
        model.save(tmp_path / name)
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_save_and_load_keeps_the_precision(tmp_path):
    model = make_model(dtype="mixed_bfloat16", num_layers=1)
    model.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    assert restored.dtype_policy.name == "mixed_bfloat16"
    np.testing.assert_array_equal(run_model(restored), run_model(model))


@pytest.mark.slow
def test_weights_move_from_model_to_model(tmp_path):
    model = make_model(tied_embeddings="target", num_layers=1)
    model.save_weights(tmp_path / "model.weights.h5")
    other = Transformer(model.config)
    assert (run_model(other) != run_model(model)).any()
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(run_model(other), run_model(model))


def copy_task(rng, rows):
    """Sources of 1 to 5 tokens; the target is the source behind the begin id 2, ended by 1."""
    source = rng.integers(3, VOCAB, size=(rows, 5)).astype("int32")
    lengths = rng.integers(1, 6, size=rows)
    source[np.arange(5) >= lengths[:, None]] = 0
    target = np.pad(source, [(0, 0), (1, 0)])
    target[:, 0] = 2
    labels = pad(source, 1)
    labels[np.arange(rows), lengths] = 1
    return {"source": source, "target": target}, labels


@pytest.mark.slow
def test_the_smoothed_loss_stands_beside_the_loss_of_keras(rng):
    """They differ where the batches of an epoch have different numbers of tokens."""
    model = make_model(num_layers=1)
    model.compile("sgd", LabelSmoothedCrossEntropy(0.1), metrics=[SmoothedLoss(0.1)])
    inputs, labels = copy_task(rng, 8)
    labels = np.array(labels)
    labels[:4, 1:] = 0
    halves = [
        model.test_on_batch(
            {name: ids[rows] for name, ids in inputs.items()}, labels[rows], return_dict=True
        )["loss"]
        for rows in (slice(4), slice(4, 8))
    ]
    logs = model.evaluate(inputs, labels, batch_size=4, verbose=0, return_dict=True)
    assert set(logs) == {"loss", "smoothed_loss"}
    tokens = np.count_nonzero(labels.reshape(2, -1), axis=1)
    np.testing.assert_allclose(logs["loss"], np.mean(halves), rtol=1e-5)
    np.testing.assert_allclose(logs["smoothed_loss"], np.average(halves, weights=tokens), rtol=1e-5)


@pytest.mark.slow
def test_a_user_compiles_and_fits(rng, tmp_path):
    """The public names alone learn a copy task, and the fitted model goes on after loading."""
    config = TransformerConfig(
        source_vocab_size=VOCAB,
        target_vocab_size=VOCAB,
        num_encoder_layers=1,
        num_decoder_layers=1,
        d_model=32,
        d_ff=64,
        num_heads=4,
        dropout_rate=0.05,
    )
    model = Transformer(config)
    schedule = NoamSchedule(config.d_model, warmup_steps=40)
    model.compile(
        optimizer=keras.optimizers.Adam(schedule, beta_1=0.9, beta_2=0.98, epsilon=1e-9),
        loss=LabelSmoothedCrossEntropy(0.1),
        jit_compile=False,
    )
    inputs, labels = copy_task(rng, 960)
    history = model.fit(inputs, labels, batch_size=32, epochs=4, verbose=0).history["loss"]
    assert history == sorted(history, reverse=True)
    # Knowing nothing costs ln 13 = 2.56; a perfect model keeps 0.62, the entropy of the labels.
    after = model.evaluate(inputs, labels, batch_size=96, verbose=0)
    assert after < 1.6

    model.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(run_model(restored, **inputs), run_model(model, **inputs))
    assert restored.loss.get_config() == model.loss.get_config()
    assert restored.optimizer.iterations == 120
    np.testing.assert_allclose(restored.optimizer.learning_rate, schedule(120), rtol=1e-6)
    assert len(restored.optimizer.variables) > 2 * len(model.trainable_variables)
    for ours, theirs in zip(model.optimizer.variables, restored.optimizer.variables, strict=True):
        np.testing.assert_array_equal(theirs, ours)
