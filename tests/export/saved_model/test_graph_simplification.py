"""Simplified SavedModels give the same results with fewer operations."""

import collections
import pathlib
import shutil

import pytest
import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from export.saved_model.graph_options import loops_are_calls
from export.saved_model.graph_simplification import simplify_function, simplify_saved_model
from tf_transformer import Transformer, TransformerConfig
from tf_transformer.quantization.tiled_matmul import arrange_weights
from tf_transformer.storage.model_dir import dtype_to_load, prepare_for_decoding


class Module(tf.Module):
    """Functions with side effects, loops, and operations that appear twice."""

    def __init__(self):
        super().__init__()
        self.count = tf.Variable(0)

    @tf.function(autograph=False)
    def repeated(self, x):
        """Computes the same shape and the same constants twice."""
        first = tf.reshape(x, [tf.shape(x)[0] * 2, -1]) + tf.constant(3.0)
        second = tf.reshape(x, [tf.shape(x)[0] * 2, -1]) + tf.constant(3.0)
        return {"y": tf.identity(tf.identity(first)) + second}

    @tf.function(autograph=False)
    def ordered(self, b, a):
        """Has inputs and outputs that are not in the order of their names."""
        self.count.assign_add(1)
        with tf.control_dependencies([tf.identity(self.count.assign_add(10))]):
            seen = tf.identity(self.count)
        return {"z": b - a, "count": seen, "a": a * 2}

    @tf.function(autograph=False)
    def looped(self, x):
        """Calls conditions within a loop; some values pass through unchanged."""

        def step(i, x, kept):
            x = tf.cond(
                i % 2 == 0,
                lambda: x + tf.constant(1.0) + tf.constant(1.0),
                lambda: tf.identity(x) * tf.constant(1.5),
            )
            return i + 1, x, kept

        _, y, kept = tf.while_loop(lambda i, *_: i < 5, step, (tf.constant(0), x, x))
        return {"y": y, "kept": kept}

    @tf.function(autograph=False)
    def in_place(self, x):
        """Writes into arrays with the same initial values, which must stay apart."""
        arrays = [tf.fill([3], 0.0), tf.fill([3], 0.0)]
        first = tf.raw_ops.InplaceUpdate(x=arrays[0], i=[0], v=x[:1])
        with tf.control_dependencies([first]):
            return {"first": first, "second": arrays[1] + 0.0}

    @tf.function(autograph=False)
    def random(self, x):
        """Draws twice; the draws must differ."""
        return {"a": x + tf.random.uniform([]), "b": x + tf.random.uniform([])}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same module as TensorFlow saves it, and simplified."""
    paths = [tmp_path_factory.mktemp("saved") / name for name in ("plain", "simple")]
    for path in paths:
        module = Module()
        vector = tf.TensorSpec([None], tf.float32, name="x")
        scalars = [tf.TensorSpec([], tf.float32, name=name) for name in ("b", "a")]
        functions = {
            "ordered": module.ordered.get_concrete_function(*scalars),
            "repeated": module.repeated.get_concrete_function(
                tf.TensorSpec([None, 4], tf.float32, name="x")
            ),
        }
        for name in ("looped", "in_place", "random"):
            functions[name] = getattr(module, name).get_concrete_function(vector)
        tf.saved_model.save(module, str(path), signatures=functions)
    simplify_saved_model(paths[1], loops_are_calls=True)
    return paths


def read_graph(folder: pathlib.Path):
    return SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs[0]


def run_in_session(folder, requests):
    """Returns the outputs of requests that are sent in turn to one session, as TF Serving would."""
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True  # as served
    with tf.compat.v1.Session(graph=tf.Graph(), config=config) as session:
        saved = tf.compat.v1.saved_model.load(session, ["serve"], str(folder))
        answers = []
        for name, inputs in requests:
            signature = saved.signature_def[name]
            answers.append(
                session.run(
                    {key: tensor.name for key, tensor in signature.outputs.items()},
                    {signature.inputs[key].name: value for key, value in inputs.items()},
                )
            )
        return answers


REQUESTS = [
    ("ordered", {"a": 2.0, "b": 5.0}),
    ("ordered", {"a": -1.0, "b": 4.0}),
    ("repeated", {"x": [[1.0, 2, 3, 4], [5, 6, 7, 8]]}),
    ("looped", {"x": [1.0, -2.0]}),
    ("in_place", {"x": [4.0]}),
]


def run_loaded(folder, requests):
    signatures = tf.saved_model.load(str(folder)).signatures
    return [
        signatures[name](**{key: tf.constant(value) for key, value in inputs.items()})
        for name, inputs in requests
    ]


@pytest.mark.parametrize("run", [run_in_session, run_loaded])
def test_the_results_are_the_same(folders, run):
    plain, simple = (run(folder, REQUESTS) for folder in folders)
    for expected, found in zip(plain, simple, strict=True):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert tf.reduce_all(tf.equal(found[key], value)), key
    first, second, *_ = simple
    assert (float(first["z"]), float(second["z"])) == (3.0, 5.0)
    assert (int(first["count"]), int(second["count"])) == (11, 22)
    assert list(map(float, simple[4]["second"])) == [0.0, 0.0, 0.0]


def test_there_are_fewer_operations(folders):
    counts = [
        collections.Counter(
            node.op
            for function in read_graph(folder).graph_def.library.function
            for node in function.node_def
        )
        for folder in folders
    ]
    plain, simple = counts
    assert simple["Const"] < 0.7 * plain["Const"]
    assert simple["Identity"] < plain["Identity"]
    # One of the two shapes, slices and products.
    assert simple["Pack"] < plain["Pack"]
    for kept in ("AssignAddVariableOp", "ReadVariableOp", "RandomUniform", "Fill", "InplaceUpdate"):
        assert simple[kept] == plain[kept]


def test_draws_differ(folders):
    (found,) = run_in_session(folders[1], [("random", {"x": [0.0]})])
    assert found["a"] != found["b"]


def test_no_repeated_constants(folders):
    for function in read_graph(folders[1]).graph_def.library.function:
        values = [
            node.attr["value"].tensor.SerializeToString()
            for node in function.node_def
            if node.op == "Const" and not node.input
        ]
        assert len(set(values)) == len(values)


def test_signatures_call_their_functions_without_wrappers(folders):
    called = [
        {
            node.attr["f"].func.name
            for node in read_graph(folder).graph_def.node
            if node.op in ("PartitionedCall", "StatefulPartitionedCall")
        }
        for folder in folders
    ]
    wrapped = [[name for name in names if "signature_wrapper" in name] for names in called]
    assert len(wrapped[0]) == 5
    assert wrapped[1] == []


def test_simplifying_again_changes_nothing(folders):
    path = folders[1] / "saved_model.pb"
    before = path.read_bytes()
    simplify_saved_model(folders[1], loops_are_calls=True)
    assert path.read_bytes() == before


def test_overwritten_arrays_stay_apart():
    """TensorFlow's own optimizer merges these two, so that only the graph shows it."""

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.float32)])
    def write(x):
        first, second = (tf.reshape(tf.shape(x) * 2, [1, 1]) for _ in range(2))
        return tf.raw_ops.InplaceUpdate(x=first, i=[0], v=[[7]]), second

    function = FunctionDef()
    function.CopyFrom(write.get_concrete_function().function_def)
    simplify_function(function)
    counts = collections.Counter(node.op for node in function.node_def)
    assert (counts["Reshape"], counts["Mul"], counts["Shape"]) == (2, 2, 1)


def test_control_flow_of_tensorflow_1_stays():
    """There, a copy decides which branch is run."""

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([], tf.float32)])
    def branch(x):
        is_false, is_true = tf.raw_ops.Switch(data=x > 0, pred=x > 0)
        values = []
        for value, chosen in ((1.0, is_true), (2.0, is_false)):
            with tf.control_dependencies([tf.identity(chosen)]):
                values.append(tf.constant(value))
        return tf.raw_ops.Merge(inputs=values)[0]

    function = FunctionDef()
    function.CopyFrom(branch.get_concrete_function().function_def)
    before = function.SerializeToString(deterministic=True)
    simplify_function(function)
    assert function.SerializeToString(deterministic=True) == before


def test_operations_that_must_run_keep_their_names():
    """Those are named without an output."""

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([], tf.float32)])
    def negate(x):
        return tf.identity(-x)

    function = FunctionDef()
    function.CopyFrom(negate.get_concrete_function().function_def)
    copy = next(node for node in function.node_def if node.op == "Identity")
    del copy.input[1:]
    function.control_ret["copied"] = copy.name
    simplify_function(function)
    names = {node.name: node.op for node in function.node_def}
    assert names[function.control_ret["copied"]] == "Neg"
    assert "Identity" not in names.values()


def test_what_a_custom_gradient_uses_stays(tmp_path):
    """A loaded SavedModel finds it by its name."""

    @tf.custom_gradient
    def triple(values):
        result = values * tf.constant(3.0)
        factor = tf.constant(3.0)  # the same constant again
        return result, lambda upstream: upstream * factor

    module = tf.Module()
    specification = tf.TensorSpec([None], tf.float32)
    module.serve = tf.function(lambda values: triple(values), input_signature=[specification])
    tf.saved_model.save(module, str(tmp_path / "model"))
    simplify_saved_model(tmp_path / "model", loops_are_calls=False)
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    values = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(values)
        results = loaded.serve(values)
    assert results.numpy().tolist() == [3.0, 6.0]
    assert tape.gradient(results, values).numpy().tolist() == [3.0, 3.0]


def loops_of(folder):
    functions = read_graph(folder).graph_def.library.function
    nodes = [node for function in functions for node in function.node_def]
    return [node for node in nodes if node.op.endswith("While")]


def test_loops_become_calls_if_asked(folders, tmp_path):
    """Then TensorFlow runs no operation for each variable of a loop and step."""
    shutil.copytree(folders[0], tmp_path / "model")
    simplify_saved_model(tmp_path / "model", loops_are_calls=False)
    for folder, is_lowered in ((folders[1], False), (tmp_path / "model", True)):
        loops = loops_of(folder)
        assert loops
        assert {node.attr["_lower_using_switch_merge"].b for node in loops} == {is_lowered}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "d_ff", "has_avx512", "expected"),
    [
        ("float32", 64, True, True),
        ("float32", 4096, True, False),  # 64 x 4096 weights
        ("float32", 4096, False, True),  # without tiles
        ("bfloat16", 64, True, False),
        ("int8", 4096, True, True),
    ],
)
def test_loops_of_small_and_8_bit_products_are_calls(
    monkeypatch, dtype, d_ff, has_avx512, expected
):
    monkeypatch.setattr(f"{arrange_weights.__module__}.has_avx512", lambda: has_avx512)
    config = TransformerConfig(
        source_vocab_size=30, target_vocab_size=30, num_encoder_layers=1, num_decoder_layers=1,
        d_model=64, d_ff=d_ff, num_heads=2, max_length=8,
    )  # fmt: skip
    model = Transformer(config, dtype=dtype_to_load(dtype))
    prepare_for_decoding(model, dtype)
    assert loops_are_calls(model) is expected
