"""The classes and functions that a pickle of tensors may name.

They are never imported. A name is looked up in the tables below, which hold what PyTorch writes for
tensors, and what is in checkpoints that fairseq (0.6 to 0.12) and OpenNMT-py (1.0 to 3.5) wrote.
"""

from collections.abc import Callable, Mapping

from tf_transformer.formats.tensors import pickle_values as values
from tf_transformer.formats.tensors.dtypes import ITEM_SIZES
from tf_transformer.formats.tensors.stored_file import FormatError
from tf_transformer.printable import printable


class Name(str):
    """The full name of a class or function, which stands for it."""

    __slots__ = ()


def find_name(module: str, name: str) -> Name:
    """Returns the name of a class or function that a pickle may contain.

    Raises:
        FormatError: it may not.
    """
    # As Python 2 calls them, for which PyTorch's pickles are written.
    module = {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)
    full_name = f"{module}.{name}"
    if full_name in _OTHER_TENSORS:
        raise FormatError(f"contains {_OTHER_TENSORS[full_name]} ({full_name}), not supported")
    if full_name not in _KNOWN:
        raise FormatError(
            f"contains {printable(full_name, 200)}, which is not a tensor or a plain value; files "
            "that need code to be loaded are refused"
        )
    return Name(full_name)


# By the name of the function, what stands for a call of it.
CALLS: Mapping[str, Callable[..., object]] = {
    "torch._utils._rebuild_tensor": values.make_tensor,
    "torch._utils._rebuild_tensor_v2": values.make_tensor,
    "torch._utils._rebuild_parameter": values.make_parameter,
    "torch._utils._rebuild_parameter_with_state": values.make_parameter,
    "torch.Size": values.make_size,
    "torch.device": values.make_device,
    "collections.OrderedDict": values.make_dict,
    "collections.Counter": values.make_dict,
    "collections.defaultdict": values.make_empty_dict,
    "builtins.set": values.make_list,
    "builtins.frozenset": values.make_list,
    "_codecs.encode": values.make_bytes,
    "builtins.bytes": values.make_empty_bytes,
    "numpy.dtype": values.make_numpy_type,
    "numpy.core.multiarray.scalar": values.make_numpy_scalar,
    "numpy._core.multiarray.scalar": values.make_numpy_scalar,
    "numpy.core.multiarray._reconstruct": values.make_numpy_array,
    "numpy._core.multiarray._reconstruct": values.make_numpy_array,
}
# Objects of these classes become dicts of their attributes.
CLASSES = frozenset(
    {
        "argparse.Namespace",
        # `extra_state` of fairseq up to 0.9.
        "fairseq.meters.AverageMeter",
        "fairseq.meters.StopwatchMeter",
        "fairseq.meters.TimeMeter",
        # `vocab` of OpenNMT-py before 3.0.
        "functools.partial",
        "onmt.inputters.inputter.AlignField",
        "onmt.inputters.text_dataset.TextMultiField",
        "torchtext.data.field.Field",
        "torchtext.data.field.LabelField",
        "torchtext.data.field.RawField",
        "torchtext.vocab.Vocab",
    }
)
# By the name of the class of a storage, the type of its values.
STORAGES: Mapping[str, str] = {
    "torch.FloatStorage": "float32",
    "torch.HalfStorage": "float16",
    "torch.BFloat16Storage": "bfloat16",
    "torch.DoubleStorage": "float64",
    "torch.LongStorage": "int64",
    "torch.IntStorage": "int32",
    "torch.ShortStorage": "int16",
    "torch.CharStorage": "int8",
    "torch.ByteStorage": "uint8",
    "torch.BoolStorage": "bool",
}
# Names that only stand as values, or as arguments of the calls above.
_VALUES = frozenset(
    {
        *(f"torch.{dtype}" for dtype in ITEM_SIZES),
        *(f"builtins.{name}" for name in ("bool", "dict", "float", "int", "list", "object", "str")),
        "builtins.long",  # `int` in pickles for Python 2
        "copyreg._reconstructor",
        "numpy.ndarray",
        "onmt.inputters.inputter.make_src",
        "onmt.inputters.inputter.make_tgt",
        "onmt.inputters.inputter.parse_align_idx",
        "onmt.inputters.text_dataset._feature_tokenize",
        "torchtext.data.utils._split_tokenizer",
    }
)
_KNOWN = frozenset({*CALLS, *CLASSES, *STORAGES, *_VALUES})
_OTHER_TENSORS = {
    "torch._utils._rebuild_qtensor": "a quantized tensor",
    "torch._utils._rebuild_sparse_tensor": "a sparse tensor",
    "torch._utils._rebuild_nested_tensor": "a nested tensor",
    "torch._utils._rebuild_meta_tensor_no_storage": "a tensor without values",
    "torch._utils._rebuild_tensor_v3": "a tensor of a type such as float8",
}
