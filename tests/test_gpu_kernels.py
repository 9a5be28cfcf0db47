"""What a GPU would compute, by the kernels that TensorFlow has registered; needs no GPU."""

import pytest
import tensorflow as tf

from export.saved_model.signatures import ServedTranslator
from tests.conftest import small_config
from tests.gpu_kernels import gpu_kernel, nodes_of, on_the_cpu
from tests.tf_transformer.decoding.compiled import test_compiled_search as searches
from tf_transformer.decoding.compiled import compiled_search
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.decoding.translation_search import TranslationSearch
from tf_transformer.inference.translator import Translator
from tf_transformer.storage.model_dir import load_for_decoding
from training.model import build_model

pytestmark = pytest.mark.skipif(
    not tf.test.is_built_with_cuda(), reason="this TensorFlow has no kernels for GPUs"
)
VOCAB = 64
VARIANTS = {
    "paper": dict(model__norm_position="post"),
    "bias": dict(model__logits_bias=True, model__relative_positions="keys_values"),
    "ssru": dict(model__decoder_autoregression="ssru", model__tied_embeddings="none"),
}
# TensorFlow refuses them on a GPU with deterministic operations.
NOT_DETERMINISTIC = {
    *("Bincount", "DenseBincount", "SparseTensorDenseMatMul"),
    *("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits"),
}
# Of the tokenizers: those of strings, which are always on the CPU, and of ragged ids.
OF_TOKENIZERS = {
    *("AsString", "ReduceJoin", "StringJoin", "UnsortedSegmentJoin"),
    *("SentencepieceTokenizeOp", "SentencepieceDetokenizeOp", "SentencepieceIdToStringOp"),
    *("RaggedGather", "RaggedRange", "RaggedTensorToTensor"),
}


@pytest.fixture
def gpu(monkeypatch):
    """Lets the program do what it does where there is a GPU."""
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [f"{kind}:0"])


def training_graph(**changes):
    model = build_model(small_config(**changes), VOCAB, VOCAB)
    ids = tf.TensorSpec((None, None), tf.int32)
    step = tf.function(model.train_step, autograph=False)
    return step.get_concrete_function(({"source": ids, "target": ids}, ids)).graph.as_graph_def()


def test_what_has_no_kernel_is_found():
    @tf.function
    def join(texts, numbers):
        product = tf.linalg.matmul(numbers, numbers)
        return tf.strings.join([texts, "x"]), tf.raw_ops.QuantizeV2(
            input=product, min_range=0.0, max_range=1.0, T=tf.qint8
        )

    specs = tf.TensorSpec([None], tf.string), tf.TensorSpec([2, 2])
    graph = join.get_concrete_function(*specs).graph.as_graph_def()
    missing = {name for name, *_ in on_the_cpu(graph)}
    assert missing == {"Const", "Identity", "StringJoin", "QuantizeV2"}  # the first two of strings
    (product,) = (node for node in nodes_of(graph) if node.op == "MatMul")
    assert gpu_kernel(product).device_type == "GPU"
    product.attr["T"].type = tf.qint8.as_datatype_enum
    assert gpu_kernel(product) is None


@pytest.mark.representatives("paper-float32", "ssru-mixed_bfloat16")
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_gpu_computes_the_training_step(gpu, variant, dtype):
    graph = training_graph(
        **VARIANTS[variant],
        optimization__dtype=dtype,
        optimization__micro_batches=2,
        optimization__clip_norm=1.0,
        optimization__average_decay=0.9,
    )
    assert on_the_cpu(graph) == set()
    operations = {node.op for node in nodes_of(graph)}
    assert {"ResourceApplyAdam", "StatelessRandomUniformFullIntV2"} < operations
    assert operations & NOT_DETERMINISTIC == set()
    # Kernels for GPUs compute int32 on the CPU: not the indices of packed tokens.
    (remainder,) = {node.attr["T"].type for node in nodes_of(graph) if node.op == "FloorMod"}
    assert remainder == tf.int64.as_datatype_enum


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "names"),
    [
        ("float32", ["serving_default", "nbest_options", "align", "score", "sample", "tokens"]),
        ("bfloat16", ["translate_options"]),
    ],
)
def test_a_gpu_computes_all_but_strings(talkative, dtype, names):
    served = ServedTranslator(Translator(*load_for_decoding(talkative, dtype)), names)
    for name, function in served.functions.items():
        graph = function.graph.as_graph_def()
        others = {found for found in on_the_cpu(graph) if "string" not in found}
        assert {operation for operation, *_ in others} <= OF_TOKENIZERS, name
        nodes = list(nodes_of(graph))
        assert {"BatchMatMulV2", "BatchMatMulV3"} & {node.op for node in nodes}
        # It runs on any device, and nothing must be on the same device as something else.
        assert {node.device for node in nodes} == {""}
        assert not any("_class" in node.attr for node in nodes)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["relative", "ssru"])
def test_xla_compiles_searches_for_gpus(monkeypatch, variant):
    """As far as the program for XLA, which then needs a GPU."""

    def all_as_constants(model):
        with tf.init_scope():
            return [(weight, tf.constant(weight.numpy())) for weight in model.weights]

    # TensorFlow cannot show a program that reads variables without the device.
    monkeypatch.setattr(compiled_search, "_vectors_as_constants", all_as_constants)
    model = searches.make_model(**searches.VARIANTS[variant])
    search = TranslationSearch(model, beam_size=2, compiled_shapes=[(2, 8)])
    ((shape, limit, _, function),) = search._compiled._searches
    arguments = (
        *(tf.constant(1), tf.ones(shape, tf.int32), tf.zeros((2, limit + 1), tf.int32)),
        TranslationOptions.defaults(2),
    )
    program = function.experimental_get_compiler_ir(*arguments)(stage="hlo", platform_name="GPU")
    assert " while(" in program and "dynamic-update-slice" in program
