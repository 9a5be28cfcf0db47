"""Files that PyTorch, safetensors and the classes of fairseq and OpenNMT-py wrote."""

import argparse
import collections
import functools
import sys
import types

import numpy as np
import pytest

from tests.tf_transformer.formats.tensors.written import (
    NONE,
    mapping,
    tensor,
    torch_legacy,
    torch_zip,
)
from tf_transformer.errors import InputError
from tf_transformer.formats.tensors.opening import open_tensors, read_torch_tree

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.parity

WEIGHT = torch.linspace(-2, 2, 24).reshape(4, 6)
# Name: arguments of `torch.save`.
WRITERS = {
    f"{'zip' if is_zip else 'legacy'} {protocol}": {
        "_use_new_zipfile_serialization": is_zip,
        "pickle_protocol": protocol,
    }
    for is_zip in (True, False)
    for protocol in range(1, 6)
}


def state_dict() -> dict:
    return collections.OrderedDict(
        float32=WEIGHT,
        float16=WEIGHT.half(),
        bfloat16=WEIGHT.bfloat16(),
        float64=WEIGHT.double() / 3,
        int64=torch.arange(5) - 2**40,
        int32=torch.arange(5, dtype=torch.int32),
        int16=torch.arange(5, dtype=torch.int16),
        int8=torch.arange(5, dtype=torch.int8),
        uint8=torch.arange(5, dtype=torch.uint8),
        bool=torch.tensor([[True, False]]),
        shared=WEIGHT,
        part=WEIGHT[1:3, 2:5],
        transposed=WEIGHT.t(),
        every_second=WEIGHT[::2, ::3],
        permuted=torch.arange(24).reshape(2, 3, 4).permute(2, 0, 1),
        unsqueezed=WEIGHT[:, :1].t(),
        scalar=torch.tensor(2.5),
        empty=torch.zeros(0, 3),
        parameter=torch.nn.Parameter(WEIGHT[0]),
        buffer=torch.arange(3.0),
    )


def as_numpy(value) -> np.ndarray:
    value = value.detach()
    return (value.float() if value.is_floating_point() else value).numpy()


@pytest.mark.parametrize("writer", WRITERS)
def test_state_dict(tmp_path, writer):
    path = tmp_path / "pytorch_model.bin"
    tensors = state_dict()
    torch.save(tensors, path, **WRITERS[writer])
    loaded = torch.load(path, weights_only=False)  # which supports all protocols
    with open_tensors(path) as file:
        assert list(file) == list(tensors)
        for name, value in loaded.items():
            expected = as_numpy(value)
            found = file[name]
            assert found.dtype == expected.dtype, name
            assert file.shapes[name] == found.shape
            assert f"torch.{file.dtypes[name]}" == str(tensors[name].dtype)
            np.testing.assert_array_equal(found, expected, err_msg=name)


@pytest.mark.parametrize("is_zip", [True, False])
def test_state_dict_of_a_model(tmp_path, is_zip):
    """With tied weights, buffers and the attribute `_metadata`."""
    model = torch.nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    model.embedding, model.output = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 9)
    model.output.weight = model.embedding.weight
    path = tmp_path / "model.pt"
    torch.save(model.state_dict(), path, _use_new_zipfile_serialization=is_zip)
    file = open_tensors(path)
    assert list(file) == list(model.state_dict())
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(file[name], as_numpy(value))


def checkpoint(value: object) -> dict:
    return {
        "args": argparse.Namespace(arch="transformer", lr=[0.1], share=True, dropout=None),
        "cfg": {"model": argparse.Namespace(_name="transformer", layers=6)},
        "model": state_dict(),
        "opt": argparse.Namespace(_all_transform={"sentencepiece"}, data={"corpus": {"weight": 1}}),
        "vocab": {"src": ["<s>", "ä"], "tgt": ("a", "b")},
        "freqs": collections.Counter("aab"),
        "default": collections.defaultdict(int, a=1),
        "extra_state": {"best": np.float64(1 / 3), "counts": np.arange(4), "value": value},
        "optim": {"state": {0: {"step": torch.tensor(3.0), "exp_avg": WEIGHT}}, "param_groups": []},
        "size": WEIGHT.shape,
        "device": torch.device("cuda:1"),
        "dtype": torch.float16,
    }


@pytest.mark.parametrize("writer", [name for name in WRITERS if not name.endswith("5")])
def test_checkpoint(tmp_path, writer):
    path = tmp_path / "checkpoint.pt"
    torch.save(checkpoint(7), path, **WRITERS[writer])
    root = read_torch_tree(path)
    model, optim, extra = root.pop("model"), root.pop("optim"), root.pop("extra_state")
    assert root == {
        "args": {"arch": "transformer", "lr": [0.1], "share": True, "dropout": None},
        "cfg": {"model": {"_name": "transformer", "layers": 6}},
        "opt": {"_all_transform": ["sentencepiece"], "data": {"corpus": {"weight": 1}}},
        "vocab": {"src": ["<s>", "ä"], "tgt": ("a", "b")},
        "freqs": {"a": 2, "b": 1},
        "default": {"a": 1},
        "size": (4, 6),
        "device": "cuda:1",
        "dtype": "torch.float16",
    }
    for name, value in state_dict().items():
        assert model[name].shape == tuple(value.shape)
        np.testing.assert_array_equal(model[name].read(), as_numpy(value))
    np.testing.assert_array_equal(optim["state"][0]["exp_avg"].read(), WEIGHT.numpy())
    assert extra["counts"].read().tolist() == [0, 1, 2, 3]
    assert (extra["best"], extra["value"]) == (1 / 3, 7)


@pytest.mark.filterwarnings("ignore:torch.quantize")
@pytest.mark.parametrize("is_zip", [True, False])
def test_quantized_tensors(tmp_path, is_zip):
    tensors = {"w": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)}
    torch.save(tensors, tmp_path / "model.pt", _use_new_zipfile_serialization=is_zip)
    with pytest.raises(InputError, match=r"contains (a quantized tensor|torch\.QInt8Storage)"):
        open_tensors(tmp_path / "model.pt")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.nn.Linear(1, 1), "contains torch.nn.modules.linear.Linear, which is not a tensor"),
        (torch.eye(2).to_sparse(), "contains a sparse tensor"),
        (torch.ones(2, dtype=torch.complex64), "contains torch.ComplexFloatStorage, which is not"),
        (torch.ones(2).to(torch.float8_e4m3fn), "contains a tensor of a type such as float8"),
        (torch.ones(2, device="meta"), "contains a tensor without values"),
        (torch.ones(1).expand(5), "expanded tensors and negative strides are not supported"),
        (torch.ones(2).untyped_storage(), "contains torch.*UntypedStorage, which is not a tensor"),
        (print, "contains builtins.print, which is not a tensor or a plain value"),
        (np.array([None]), "contains values of the NumPy type 'O8'"),
    ],
)
@pytest.mark.parametrize("is_zip", [True, False])
def test_values_that_are_refused(tmp_path, value, message, is_zip):
    path = tmp_path / "checkpoint.pt"
    torch.save({"value": value}, path, _use_new_zipfile_serialization=is_zip)
    with pytest.raises(InputError, match=message):
        read_torch_tree(path)


def test_programs_of_torch_script(tmp_path):
    path = tmp_path / "model.pt"
    torch.jit.script(torch.nn.Linear(2, 2)).save(path)
    with pytest.raises(InputError, match="contains a TorchScript program"):
        open_tensors(path)


@pytest.mark.parametrize(("file", "rest"), [(torch_zip, ()), (torch_legacy, (NONE,))])
def test_files_assembled_by_hand_are_those_of_torch(tmp_path, file, rest):
    """What the other tests change is what PyTorch reads."""
    path = tmp_path / "model.pt"
    transposed = tensor("0", (3, 2), (1, 3), rest=rest)
    path.write_bytes(file(mapping(w=tensor(rest=rest), transposed=transposed)))
    loaded = torch.load(path)
    assert loaded["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert loaded["transposed"].tolist() == [[0, 3], [1, 4], [2, 5]]


def test_safetensors(tmp_path):
    save_file = pytest.importorskip("safetensors.torch").save_file
    tensors = {name: value.detach().clone().contiguous() for name, value in state_dict().items()}
    path = tmp_path / "model.safetensors"
    save_file(tensors, path, metadata={"format": "pt"})
    file = open_tensors(path)
    assert set(file) == set(tensors)
    for name, value in tensors.items():
        np.testing.assert_array_equal(file[name], as_numpy(value), err_msg=name)
        assert f"torch.{file.dtypes[name]}" == str(value.dtype)


def test_safetensors_of_numpy(tmp_path):
    save_file = pytest.importorskip("safetensors.numpy").save_file
    arrays = {"w": np.arange(6, dtype="float32").reshape(2, 3), "ids": np.arange(3)}
    save_file(arrays, tmp_path / "model.safetensors")
    file = open_tensors(tmp_path / "model.safetensors")
    assert file.shapes == {name: array.shape for name, array in arrays.items()}
    for name, array in arrays.items():
        np.testing.assert_array_equal(file[name], array)


# ---- Classes of other toolkits, by name, with the attributes that their sources give them ----


@pytest.fixture
def known_class(monkeypatch):
    """Makes a class or function importable under the name that it has in another toolkit."""

    def make(full_name: str, function=None):
        module, _, name = full_name.rpartition(".")
        parts = module.split(".")
        for count in range(1, len(parts) + 1):
            parent = ".".join(parts[:count])
            if parent not in sys.modules:
                monkeypatch.setitem(sys.modules, parent, types.ModuleType(parent))
        made = function or type(name, (), {})
        made.__module__, made.__name__, made.__qualname__ = module, name, name
        monkeypatch.setattr(sys.modules[module], name, made, raising=False)
        return made

    return make


def with_attributes(kind, **attributes):
    value = kind()
    value.__dict__.update(attributes)
    return value


@pytest.mark.parametrize("is_zip", [True, False])
def test_checkpoint_of_fairseq(tmp_path, known_class, is_zip):
    """Version 0.9, whose `extra_state` holds objects."""
    average = known_class("fairseq.meters.AverageMeter")
    meters = collections.OrderedDict(
        train_loss=with_attributes(average, val=0, avg=0, sum=0, count=0),
        wps=with_attributes(known_class("fairseq.meters.TimeMeter"), init=0, start=1.5, n=0),
        wall=with_attributes(known_class("fairseq.meters.StopwatchMeter"), sum=0, n=0),
    )
    state = {
        "args": argparse.Namespace(arch="transformer_iwslt_de_en"),
        "model": collections.OrderedDict({"encoder.version": torch.Tensor([3])}),
        "extra_state": {"train_meters": meters, "val_loss": 4.5},
    }
    path = tmp_path / "checkpoint_best.pt"
    torch.save(state, path, _use_new_zipfile_serialization=is_zip)
    root = read_torch_tree(path)
    assert root["model"]["encoder.version"].read().tolist() == [3]
    assert root["extra_state"] == {
        "train_meters": {
            "train_loss": {"val": 0, "avg": 0, "sum": 0, "count": 0},
            "wps": {"init": 0, "start": 1.5, "n": 0},
            "wall": {"sum": 0, "n": 0},
        },
        "val_loss": 4.5,
    }


@pytest.mark.parametrize("is_zip", [True, False])
def test_checkpoint_of_opennmt_py(tmp_path, known_class, is_zip):
    """Versions 1 and 2, whose vocabularies are in objects of torchtext."""
    tokenize = known_class(
        "onmt.inputters.text_dataset._feature_tokenize", lambda text, layer=0: text.split()
    )
    split = known_class("torchtext.data.utils._split_tokenizer", lambda text: text.split())
    make_src = known_class("onmt.inputters.inputter.make_src", lambda data, vocab: data)
    vocab = with_attributes(
        known_class("torchtext.vocab.Vocab"),
        freqs=collections.Counter("aab"),
        itos=["<unk>", "<blank>", "a", "b"],
        unk_index=0,
        stoi={"<unk>": 0, "<blank>": 1, "a": 2, "b": 3},
        vectors=None,
    )
    field = known_class("torchtext.data.field.Field")
    source = with_attributes(
        field, vocab=vocab, tokenize=functools.partial(tokenize, layer=0), pad_token="<blank>"
    )
    multi = known_class("onmt.inputters.text_dataset.TextMultiField")
    state = {
        "model": {"encoder.layer_norm.weight": WEIGHT[0]},
        "generator": {"0.bias": WEIGHT[1]},
        "vocab": {
            "src": with_attributes(multi, fields=[("src", source)]),
            "indices": with_attributes(field, tokenize=split, dtype="int64"),
            "src_map": with_attributes(field, postprocessing=make_src),
            "align": with_attributes(known_class("onmt.inputters.inputter.AlignField")),
        },
        "opt": argparse.Namespace(layers=6),
    }
    path = tmp_path / "model_step_5.pt"
    torch.save(state, path, _use_new_zipfile_serialization=is_zip)
    root = read_torch_tree(path)
    ((name, read),) = root["vocab"]["src"]["fields"]
    assert (name, read["pad_token"], read["tokenize"]) == ("src", "<blank>", {})
    assert read["vocab"] == vars(vocab)
    assert root["vocab"]["indices"]["tokenize"] == "torchtext.data.utils._split_tokenizer"
    assert root["vocab"]["src_map"] == {"postprocessing": "onmt.inputters.inputter.make_src"}
    assert root["opt"] == {"layers": 6}
    np.testing.assert_array_equal(root["generator"]["0.bias"].read(), WEIGHT[1].numpy())
