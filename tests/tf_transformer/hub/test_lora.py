"""LoRA: only A and B learn, W + A B is what everything else sees, files come back."""

import re
import shutil

import h5py
import keras
import numpy as np
import pytest

from tests.tf_transformer.hub.tasks import (
    CONFIGS,
    SOURCES,
    TARGETS,
    backbone_inputs,
    make_backbone,
    make_task,
)
from tf_transformer import Transformer
from tf_transformer.hub import TransformerSeq2SeqLM

SOURCE = np.array([[5, 6, 7, 3], [9, 4, 3, 0]], "int32")
TARGET = np.array([[2, 4, 9, 12, 6], [2, 11, 5, 0, 0]], "int32")
IDS = {"source": SOURCE, "target": TARGET}
INPUTS = backbone_inputs(SOURCE, TARGET)
ADAPTED = [
    "decoder/layer_0/cross_attention/key_value",
    "decoder/layer_0/cross_attention/query",
    "decoder/layer_0/self_attention/query_key_value",
    "encoder/layer_0/self_attention/query_key_value",
]


def values(model) -> dict[str, np.ndarray]:
    return {weight.path.partition("/")[2]: np.asarray(weight) for weight in model.weights}


def randomize_lora(backbone, seed=0):
    """Gives B other values than zeros."""
    random = np.random.default_rng(seed)
    for weight in backbone.trainable_weights:
        weight.assign(random.normal(size=weight.shape, scale=0.3))


def plainly_merged(backbone) -> Transformer:
    """A model with kernels W + A B, computed by NumPy."""
    arrays = values(backbone)
    model = Transformer(backbone.transformer.config, dtype="float32")
    for weight in model.weights:
        name = weight.path.partition("/")[2]
        value = arrays[name]
        layer = name.removesuffix("/kernel")
        if f"{layer}/lora_kernel_a" in arrays:
            value = value + arrays[f"{layer}/lora_kernel_a"] @ arrays[f"{layer}/lora_kernel_b"]
        weight.assign(value)
    return model


@pytest.fixture
def adapted():
    backbone = make_backbone()
    backbone.enable_lora(2)
    randomize_lora(backbone)
    return backbone


@pytest.fixture(scope="module")
def enabled():
    """With LoRA; what is refused leaves it as it is."""
    backbone = make_backbone()
    backbone.enable_lora(2)
    return backbone


@pytest.mark.slow
def test_only_a_and_b_are_trainable():
    backbone = make_backbone()
    expected = np.asarray(backbone(INPUTS)["decoder_sequence_output"])
    backbone.enable_lora(2)
    names = sorted(weight.path.partition("/")[2] for weight in backbone.trainable_weights)
    assert names == [f"{name}/lora_kernel_{part}" for name in ADAPTED for part in "ab"]
    # B is zero at first.
    np.testing.assert_array_equal(backbone(INPUTS)["decoder_sequence_output"], expected)


@pytest.mark.representatives("separate vocabularies")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["separate vocabularies", "untied", "every switch"])
def test_kernels_are_w_plus_a_b(name):
    backbone = make_backbone(**CONFIGS[name])
    backbone.enable_lora(3)
    randomize_lora(backbone)
    expected = plainly_merged(backbone)(IDS)
    hidden = backbone(INPUTS)["decoder_sequence_output"]
    np.testing.assert_allclose(backbone.transformer.logits(hidden), expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(backbone.merged_transformer()(IDS), expected, rtol=1e-3, atol=1e-3)
    assert not np.allclose(make_backbone(**CONFIGS[name]).merged_transformer()(IDS), expected)


@pytest.mark.slow
def test_other_layers(adapted):
    backbone = make_backbone(tied_embeddings="none")
    backbone.enable_lora(1, ["inner", "logits_projection"])
    names = {weight.path.split("/")[-2] for weight in backbone.trainable_weights}
    assert names == {"inner", "logits_projection"}


@pytest.mark.slow
def test_training_changes_a_and_b_alone(tmp_path):
    task = make_task(norm_position="pre", dropout_rate=0.0)
    task.backbone.enable_lora(2)
    before = values(task.backbone)
    task.compile(optimizer=keras.optimizers.Adam(0.1), run_eagerly=True)
    losses = task.fit(SOURCES, TARGETS, epochs=6, verbose=0).history["loss"]
    assert losses[-1] < 0.8 * losses[0]
    after = values(task.backbone)
    changed = {name for name, value in before.items() if not np.array_equal(value, after[name])}
    assert changed == {f"{name}/lora_kernel_{part}" for name in ADAPTED for part in "ab"}

    expected = task.backbone(INPUTS)["decoder_sequence_output"]
    outputs = task.generate(SOURCES, beam_size=1)
    task.backbone.save_lora_weights(tmp_path / "task.lora.h5")
    again = make_task(norm_position="pre", dropout_rate=0.0)
    again.backbone.load_lora_weights(tmp_path / "task.lora.h5")
    np.testing.assert_array_equal(again.backbone(INPUTS)["decoder_sequence_output"], expected)
    assert again.generate(SOURCES, beam_size=1) == outputs

    task.save_to_preset(tmp_path / "preset")
    task.to_model_dir(tmp_path / "model")
    for merged in (
        TransformerSeq2SeqLM.from_preset(tmp_path / "preset"),
        TransformerSeq2SeqLM.from_model_dir(tmp_path / "model"),
    ):
        assert set(values(merged.backbone)) == {n for n in after if "lora" not in n}
        found = merged.backbone(INPUTS)["decoder_sequence_output"]
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
        kernel = values(merged.backbone)[f"{ADAPTED[0]}/kernel"]
        a, b = (after[f"{ADAPTED[0]}/lora_kernel_{part}"] for part in "ab")
        sum_of_both = before[f"{ADAPTED[0]}/kernel"] + a @ b
        np.testing.assert_allclose(kernel, sum_of_both, rtol=1e-5, atol=1e-6)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_graphs_that_were_traced_before_are_not_used(file):
    task = make_task()
    before = task.evaluate(SOURCES, TARGETS, verbose=0)
    task.backbone.load_lora_weights(file)
    model = plainly_merged(task.backbone)
    merged = make_task()
    for weight, value in zip(merged.backbone.weights, model.weights, strict=True):
        weight.assign(value)
    found, expected = (one.evaluate(SOURCES, TARGETS, verbose=0) for one in (task, merged))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert abs(found[0] - before[0]) > 1e-3


@pytest.mark.slow
def test_a_quantized_backbone_learns_lora():
    task = make_task(norm_position="pre", dropout_rate=0.0)
    task.quantize("int8")
    task.backbone.enable_lora(2)
    before = values(task.backbone)
    task.compile(optimizer=keras.optimizers.Adam(0.05), run_eagerly=True)
    losses = [task.train_on_batch(SOURCES, TARGETS)[0] for _ in range(3)]
    assert losses[0] > losses[1] > losses[2]
    after = values(task.backbone)
    changed = {name for name, value in before.items() if not np.array_equal(value, after[name])}
    assert changed == {f"{name}/lora_kernel_{part}" for name in ADAPTED for part in "ab"}


@pytest.mark.slow
def test_a_trained_task_must_be_compiled_again():
    """And does not update the weights that are frozen."""
    task = make_task()
    task.compile(run_eagerly=True)
    task.fit(SOURCES, TARGETS, verbose=0)
    task.backbone.enable_lora(2)
    before = values(task.backbone)
    with pytest.raises(ValueError, match="Unknown variable"):
        task.fit(SOURCES, TARGETS, verbose=0)
    for name, value in values(task.backbone).items():
        np.testing.assert_array_equal(value, before[name])


@pytest.fixture(scope="module")
def backbone():
    """Without LoRA, also after what is refused."""
    return make_backbone()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "`rank` must be an integer between 1 and 65536. Received: rank=0"),
        ((2.0,), "Received: rank=2.0"),
        ((True,), "Received: rank=True"),
        ((2, "query"), r"must be a list of names from \['inner', .*'query_key_value'\]. Rec"),
        ((2, []), r"target_layer_names=\[\]"),
        ((2, ["query", "value"]), r"Received: target_layer_names=\['query', 'value'\]"),
    ],
)
def test_invalid_arguments(backbone, arguments, message):
    with pytest.raises(ValueError, match=message):
        backbone.enable_lora(*arguments)
    assert len(backbone.trainable_weights) == len(backbone.weights)


@pytest.mark.slow
def test_only_once(adapted, tmp_path):
    with pytest.raises(ValueError, match="LoRA is enabled already"):
        adapted.enable_lora(2)
    make_backbone().save_weights(tmp_path / "a.weights.h5")
    with pytest.raises(ValueError, match="Load weights before you enable LoRA"):
        adapted.load_weights(tmp_path / "a.weights.h5")


# ---- Files ----


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A backbone with LoRA, and its file; tests only read them."""
    backbone = make_backbone()
    backbone.enable_lora(2)
    randomize_lora(backbone)
    path = tmp_path_factory.mktemp("lora") / "a.lora.h5"
    backbone.save_lora_weights(path)
    return backbone, path


@pytest.fixture
def file(saved, tmp_path):
    return shutil.copy(saved[1], tmp_path / "a.lora.h5")


def test_files_have_names(saved):
    adapted, file = saved
    found = {}
    with h5py.File(file) as opened:
        opened.visititems(
            lambda name, item: (
                found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    expected = {name: value for name, value in values(adapted).items() if "lora" in name}
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.slow
def test_files_come_back(saved):
    adapted, file = saved
    fresh, enabled = make_backbone(), make_backbone()
    enabled.enable_lora(2)
    for backbone in (fresh, enabled):
        backbone.load_lora_weights(file)
        found = backbone(INPUTS)["decoder_sequence_output"]
        np.testing.assert_array_equal(found, adapted(INPUTS)["decoder_sequence_output"])


@pytest.mark.slow
def test_files_of_other_layers_come_back(tmp_path):
    backbone = make_backbone()
    backbone.enable_lora(3, ["inner", "outer"])
    randomize_lora(backbone)
    backbone.save_lora_weights(tmp_path / "a.lora.h5")
    loaded = make_backbone()
    loaded.load_lora_weights(tmp_path / "a.lora.h5")
    assert len(loaded.trainable_weights) == 8
    for found, expected in zip(loaded.trainable_weights, backbone.trainable_weights, strict=True):
        np.testing.assert_array_equal(found, expected)


def enlarge(file):
    """Makes a rank of 60,000 out of one dataset that is not stored."""
    for name in ADAPTED:
        num_inputs, num_outputs = 8, file[f"{name}/lora_kernel_b"].shape[1]
        del file[f"{name}/lora_kernel_a"], file[f"{name}/lora_kernel_b"]
        file.create_dataset(f"{name}/lora_kernel_a", (num_inputs, 60_000), "float32")
        file.create_dataset(f"{name}/lora_kernel_b", (60_000, num_outputs), "float32")


def link(file):
    del file[f"{ADAPTED[1]}/lora_kernel_a"]
    file[f"{ADAPTED[1]}/lora_kernel_a"] = h5py.ExternalLink("/etc/hostname", "x")


def set_nan(file):
    file[f"{ADAPTED[0]}/lora_kernel_b"][0, 0] = np.nan


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (enlarge, "compressed, incomplete or in another file"),
        (link, "is a link to another name or file"),
        (set_nan, "NaN or infinite"),
        (lambda file: file.pop("encoder"), "encoder/layer_0/.*/lora_kernel_a is missing"),
        (lambda file: file.pop(f"{ADAPTED[2]}/lora_kernel_a"), "lora_kernel_a is missing"),
        (lambda file: file.create_dataset("code", data=[1.0]), "'code' is not in this model"),
        (lambda file: [file.pop(side) for side in ("encoder", "decoder")], "got a rank of 0"),
    ],
)
def test_files_that_are_refused(enabled, file, change, message):
    with h5py.File(file, "r+") as opened:
        change(opened)
    with pytest.raises(ValueError, match=f"{re.escape(str(file))}.*{message}"):
        make_backbone().load_lora_weights(file)
    before = values(enabled)
    with pytest.raises(ValueError, match=re.escape(str(file))):
        enabled.load_lora_weights(file)
    after = values(enabled)
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.slow
def test_another_rank_is_refused(file):
    backbone = make_backbone()
    backbone.enable_lora(3)
    with pytest.raises(ValueError, match=r"has the shape \(8, 2\), not \(8, 3\)"):
        backbone.load_lora_weights(file)


@pytest.mark.slow
def test_adapters_of_training_are_refused(adapted, tmp_path):
    """Their alpha need not be the rank, as it is here."""
    from tf_transformer.storage.adapter_file import write_adapter

    write_adapter(tmp_path / "a.lora.h5", adapted.transformer)
    for backbone in (make_backbone(), adapted):
        with pytest.raises(ValueError, match=r"a.lora.h5: .* attribute '.*' is unknown"):
            backbone.load_lora_weights(tmp_path / "a.lora.h5")


@pytest.mark.slow
def test_names_of_files(tmp_path):
    backbone = make_backbone()
    with pytest.raises(ValueError, match=r"No layer has LoRA weights. Call `enable_lora"):
        backbone.save_lora_weights(tmp_path / "a.lora.h5")
    for method in (backbone.save_lora_weights, backbone.load_lora_weights):
        with pytest.raises(ValueError, match=r"must end in .lora.h5. Received: .*a.h5"):
            method(tmp_path / "a.h5")
    with pytest.raises(ValueError, match=r"a.lora.h5: no such file"):
        backbone.load_lora_weights(tmp_path / "a.lora.h5")
    backbone.enable_lora(1)
    with pytest.raises(ValueError, match=r"a.lora.h5: no such file"):
        backbone.load_lora_weights(tmp_path / "a.lora.h5")
