"""The Annotated Transformer and Hugging Face's Marian, from the same weights."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.stepping import step_by_step
from tf_transformer import LabelSmoothedCrossEntropy, Transformer, TransformerConfig
from tf_transformer.decoding.incremental_decoder import IncrementalDecoder
from tf_transformer.formats.hf.weights import NAMES
from tf_transformer.formats.naming import convert_weights, load_weights
from tf_transformer.formats.originals import ANNOTATED
from tf_transformer.storage.weight_shapes import weight_shapes

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.parity

SOURCE = np.array([[5, 6, 7, 8, 3], [9, 4, 3, 0, 0]], "int32")
TARGET = np.array([[2, 4, 9, 10, 6, 1], [2, 11, 5, 7, 0, 0]], "int32")
LABELS = np.array([[4, 9, 10, 6, 1, 3], [11, 5, 7, 3, 0, 0]], "int32")
REAL = LABELS != 0
VOCAB, LAYERS, D_MODEL, D_FF, HEADS = 12, 2, 16, 24, 4
SIZES = dict(
    source_vocab_size=VOCAB,
    target_vocab_size=VOCAB,
    num_encoder_layers=LAYERS,
    num_decoder_layers=LAYERS,
    d_model=D_MODEL,
    d_ff=D_FF,
    num_heads=HEADS,
)


def randomise(module):
    """Biases and gains too, which start at 0 and 1 and would hide mistakes."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.dim() == 1 and not name.endswith(("bias", "b_2")):
                parameter.uniform_(0.5, 1.5)
            elif parameter.requires_grad:
                parameter.normal_(0, 0.3)
    return module


def arrays_of(module):
    """All weights by name, without copies of others and constants."""
    prefixes = ("src_embed.1.", "tgt_embed.1.")
    prefixes += ("model.shared.", "model.encoder.embed_", "model.decoder.embed_pos", "lm_head.")
    return {
        name: value.detach().numpy()
        for name, value in module.state_dict().items()
        if not name.startswith(prefixes)
    }


def annotated():
    from tests.parity.annotated import make_model

    module = randomise(make_model(VOCAB, VOCAB, N=LAYERS, d_model=D_MODEL, d_ff=D_FF, h=HEADS))
    causal = np.tril(np.ones((6, 6), bool))
    source_mask = torch.tensor((SOURCE != 0)[:, None, :])
    target_mask = torch.tensor((TARGET != 0)[:, None, :] & causal)

    def run():
        return module(torch.tensor(SOURCE), torch.tensor(TARGET), source_mask, target_mask)

    return TransformerConfig.preset("annotated", **SIZES), ANNOTATED, module, run


def marian():
    transformers = pytest.importorskip("transformers")
    config = transformers.MarianConfig(
        vocab_size=VOCAB,
        d_model=D_MODEL,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_ffn_dim=D_FF,
        decoder_ffn_dim=D_FF,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        activation_function="swish",
        scale_embedding=True,
        dropout=0.0,
        pad_token_id=0,
        eos_token_id=3,
        decoder_start_token_id=2,
        forced_eos_token_id=None,
        max_position_embeddings=32,
    )
    module = randomise(transformers.MarianMTModel(config).eval())
    module.final_logits_bias.copy_(torch.linspace(-1, 1, VOCAB)[None])

    def run():
        return module(
            input_ids=torch.tensor(SOURCE, dtype=torch.long),
            attention_mask=torch.tensor(SOURCE != 0),
            decoder_input_ids=torch.tensor(TARGET, dtype=torch.long),
            decoder_attention_mask=torch.tensor(TARGET != 0),
        ).logits

    ours = TransformerConfig(
        positions="marian",
        activation="swish",
        tied_embeddings="all",
        logits_bias=True,
        layer_norm_epsilon=1e-5,
        **SIZES,
    )
    return ours, NAMES, module, run


def torch_loss(logits, smoothed_over):
    """KL divergence by PyTorch, with the distribution filled as each text does; over tokens."""
    labels = torch.tensor(LABELS[REAL], dtype=torch.long)
    divisor = {"all": VOCAB, "others": VOCAB - 1, "others_but_padding": VOCAB - 2}[smoothed_over]
    q = torch.full((len(labels), VOCAB), 0.1 / divisor)
    q.scatter_(1, labels[:, None], 0.9 + (0.1 / VOCAB if smoothed_over == "all" else 0))
    if smoothed_over == "others_but_padding":
        q[:, 0] = 0
    divergence = torch.nn.KLDivLoss(reduction="sum")
    return divergence(logits[torch.tensor(REAL)].log_softmax(-1), q) / len(labels)


@pytest.mark.slow
@pytest.mark.parametrize("original", [annotated, marian])
@pytest.mark.parametrize("smoothed_over", ["all", "others", "others_but_padding"])
def test_logits_and_gradients(original, smoothed_over):
    config, naming, module, run = original()
    arrays = arrays_of(module)
    model = Transformer(config)
    load_weights(model, naming, arrays)

    expected = run()
    inputs = {"source": SOURCE, "target": TARGET}
    computed = np.asarray(model(inputs))
    np.testing.assert_allclose(
        computed[REAL], expected.detach().numpy()[REAL], rtol=1e-5, atol=1e-5
    )

    torch_loss(expected, smoothed_over).backward()
    theirs = {name: np.zeros_like(array) for name, array in arrays.items()}
    for name, parameter in module.state_dict(keep_vars=True).items():
        if name in theirs and parameter.grad is not None:
            theirs[name] = parameter.grad.numpy()
    with tf.GradientTape() as tape:
        value = LabelSmoothedCrossEntropy(0.1, smoothed_over=smoothed_over)(LABELS, model(inputs))
    gradients = tape.gradient(value, model.trainable_variables)
    expected_gradients = dict(convert_weights(weight_shapes(config), naming, theirs))
    compared = 0
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        name = variable.path.partition("/")[2]
        if name == "logits_bias":
            continue  # a buffer there, which has no gradient
        np.testing.assert_allclose(
            tf.convert_to_tensor(gradient),
            expected_gradients[name],
            rtol=1e-4,
            atol=1e-4,
            err_msg=name,
        )
        compared += np.abs(expected_gradients[name]).max() > 1e-3
    assert compared >= len(gradients) - 2


@pytest.mark.slow
def test_marian_begins_with_a_zero_vector():
    """Published models begin with a token whose row is zero; here the row does not matter."""
    config, naming, module, run = marian()
    with torch.no_grad():
        module.model.shared.weight[2] = 0
        expected = run().numpy()
    model = Transformer(dataclasses.replace(config, begin_embedding="zero"))
    load_weights(model, naming, arrays_of(module))
    matrix = np.array(model.target_embedding.embeddings)
    matrix[2] = 1
    model.target_embedding.embeddings.assign(matrix)
    for computed in (
        model({"source": SOURCE, "target": TARGET}),
        step_by_step(model, SOURCE, TARGET)[:, 0],
    ):
        # The row decides the logits of its own token.
        difference = np.delete(np.asarray(computed) - expected, 2, axis=2)[REAL]
        assert np.abs(difference).max() < 1e-5


@pytest.mark.slow
def test_marian_decodes_alike():
    """Greedy decoding from the cache gives what Hugging Face's `generate` does."""
    config, naming, module, _ = marian()
    model = Transformer(config)
    load_weights(model, naming, arrays_of(module))
    expected = module.generate(
        input_ids=torch.tensor(SOURCE, dtype=torch.long),
        attention_mask=torch.tensor(SOURCE != 0),
        num_beams=1,
        do_sample=False,
        max_length=12,
    ).numpy()
    decoder = IncrementalDecoder(model)
    state = decoder.start(2, model.encode(SOURCE), SOURCE != 0)
    newest, parents = np.full((2, 1), 2, "int32"), np.zeros((2, 1), "int32")
    alive = np.ones((2, 1), bool)
    found = [newest]
    for number in range(expected.shape[1] - 1):
        if number == decoder.compaction_interval:
            state = decoder.select_rows([0, 1], alive, parents, number, state)
        logits, _, state = decoder.decode_step(newest, parents, number, state)
        newest = np.asarray(logits).argmax(-1).astype("int32")
        found.append(newest)
    for ours, theirs in zip(np.concatenate(found, axis=1), expected, strict=True):
        end = list(theirs[1:]).index(3) + 2 if 3 in theirs[1:] else len(theirs)
        np.testing.assert_array_equal(ours[:end], theirs[:end])
