"""Pickles that try to run code, to take all memory, or that are not valid."""

import ast
import copyreg
import io
import os
import pathlib
import pickle
import struct

import numpy as np
import pytest

import tf_transformer.formats.tensors
from tests.tf_transformer.formats.tensors.written import (
    NONE,
    call,
    latin,
    listing,
    mapping,
    name,
    number,
    numbers,
    pickled,
    sequence,
    tensor,
    text,
    torch_legacy,
    torch_zip,
)
from tf_transformer.errors import InputError
from tf_transformer.formats.tensors import pickle_machine, plain_machine
from tf_transformer.formats.tensors.opening import read_torch_tree
from tf_transformer.formats.tensors.pickle_machine import PickleMachine
from tf_transformer.formats.tensors.stored_file import ByteReader, FormatError, StoredFile


@pytest.fixture
def run(tmp_path):
    """Reads a pickle from its bytes."""

    def run_bytes(content: bytes):
        (tmp_path / "value.pkl").write_bytes(content)
        file = StoredFile(tmp_path / "value.pkl")
        return PickleMachine(ByteReader(file, 0, file.size), lambda key: key).run()

    return run_bytes


VALUES = [
    *(None, True, False, 0, 1, -1, 255, 256, 65_536, -(2**31), 2**31, -(2**63), 2**63 - 1),
    *(0.0, -1.5, 1e300, float("inf"), "", "text", "ä中\n\ud800", "x" * 300, b"", b"\0\xff" * 200),
    *((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], [1], [[1], [2, [3]]], {}, {"a": 1}),
    {"a": {"b": [1, (2, None)]}, 7: "seven"},
    [*range(3000)],
    {f"key {index}": index for index in range(3000)},
]


@pytest.mark.parametrize("protocol", range(1, 6))
@pytest.mark.parametrize("index", range(len(VALUES)))
def test_plain_values_of_every_protocol(run, protocol, index):
    value = VALUES[index]
    found = run(pickle.dumps(value, protocol))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("protocol", range(1, 6))
def test_shared_values_stay_shared(run, protocol):
    inner = ["a"]
    found = run(pickle.dumps([inner, inner, "text" * 3, "text" * 3], protocol))
    assert found[0] is found[1]


@pytest.mark.parametrize("protocol", range(1, 6))
def test_sets_are_lists(run, protocol):
    found = run(pickle.dumps({"set": {1}, "frozen": frozenset("a"), "many": set("abc")}, protocol))
    assert (found["set"], found["frozen"], sorted(found["many"])) == ([1], ["a"], ["a", "b", "c"])


@pytest.mark.parametrize("protocol", range(1, 5))
@pytest.mark.parametrize(
    "value",
    [
        np.float64(1 / 3),
        np.float32(0.1),
        np.int64(-5),
        np.bool_(True),
        np.float16(2),
        np.uint8(200),
    ],
)
def test_numbers_of_numpy(run, protocol, value):
    found = run(pickle.dumps(value, protocol))
    assert found == value.item()
    assert type(found) is type(value.item())


@pytest.mark.parametrize("protocol", range(1, 5))
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype="float32").reshape(2, 3)),
        np.arange(4, dtype=">i4"),
        np.array(2.5),
        np.zeros((0, 2), "int64"),
        np.array([True, False]),
    ],
)
def test_arrays_of_numpy(run, protocol, array):
    found = run(pickle.dumps(array, protocol))
    values = found.read()
    assert values.shape == found.shape == array.shape
    assert found.dtype == array.dtype.newbyteorder("=").name
    assert values.dtype == ("float32" if array.dtype.kind == "f" else found.dtype)
    np.testing.assert_array_equal(values, array)
    values[...] = 0  # a copy
    np.testing.assert_array_equal(found.read(), array)


# ---- Code ----


def executing(path: pathlib.Path) -> dict[str, bytes]:
    """Pickles that create a file when Python's `pickle` loads them."""

    class Shell:
        def __reduce__(self):
            return os.system, (f"touch {path}",)

    class Touch:
        def __reduce__(self):
            return pathlib.Path.touch, (path,)

    class Evaluated:
        def __reduce__(self):
            return eval, (f"open({str(path)!r}, 'w').close()",)

    class State:
        """As `__setstate__` gets from BUILD."""

        def __reduce__(self):
            return eval, ("[]",), None, iter([Shell()])

    class Keys:
        def __reduce_ex__(self, protocol):
            return copyreg.__newobj_ex__, (list, (Shell(),), {})

    command, marked = text(f"touch {path}"), b"("
    system = name("posix.system")
    made = {
        f"{kind.__name__} {protocol}": pickle.dumps(kind(), protocol)
        for kind in (Shell, Touch, Evaluated, State, Keys)
        for protocol in range(0, 6)
    }
    return made | {
        "GLOBAL": pickled(call("posix.system", command)),
        "STACK_GLOBAL": pickled(text("posix") + text("system") + b"\x93" + command + b"\x85R"),
        "INST": pickled(marked + command + b"iposix\nsystem\n"),
        "OBJ": pickled(marked + system + command + b"o"),
        "in a list": pickled(listing(call("posix.system", command))),
        "as a key": pickled(b"}" + call("posix.system", command) + NONE + b"s"),
        "dropped": pickled(call("posix.system", command) + b"0" + NONE),
        "as a state": pickled(b"}" + call("posix.system", command) + b"b"),
        "as an argument": pickled(call("collections.OrderedDict", call("posix.system", command))),
        "in a storage": pickled(sequence(call("posix.system", command)) + b"Q"),
        "by builtins": pickled(
            call("__builtin__.exec", text(f"open({str(path)!r}, 'w').close()")) + b"0" + NONE
        ),
        "by getattr": pickled(
            call("builtins.getattr", call("importlib.import_module", text("os")), text("system"))
            + command
            + b"\x85R"
        ),
        "by partial": pickled(
            call("functools.partial", name("posix.system"), command) + b")R" + b"0" + NONE
        ),
        "by defaultdict": pickled(
            call("collections.defaultdict", call("functools.partial", system, command))
        ),
    }


@pytest.mark.parametrize("file", [torch_legacy, torch_zip])
def test_no_code_is_run(tmp_path, file):
    path = tmp_path / "touched"
    num_working = 0
    for case, content in executing(path).items():
        value = content[2:-1] if content[:1] == b"\x80" else content[:-1]
        (tmp_path / "model.bin").write_bytes(file(value, {}))
        with pytest.raises(InputError) as error:
            read_torch_tree(tmp_path / "model.bin")
        assert str(error.value).startswith(f"{tmp_path}/model.bin: "), case
        assert "\n" not in str(error.value)
        assert not path.exists(), case
        if case not in ("in a storage",):
            load_with_python(content)
            num_working += path.exists()
            path.unlink(missing_ok=True)
    assert num_working > 30  # they are what they say


def load_with_python(content: bytes) -> None:
    try:
        pickle.load(io.BytesIO(content))
    except Exception:
        return


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (call("posix.system", text("true")), "contains posix.system, which is not a tensor or a "),
        (
            text("os") + text("popen") + b"\x93",
            "contains os.popen, which is not a tensor or a plain",
        ),
        (text("torch") + text("_utils.x") + b"\x93", "contains torch._utils.x, which is not"),
        (
            name("torch.load"),
            "contains torch.load, which is not a tensor or a plain value; files t",
        ),
        (name("torch.storage._load_from_bytes"), "contains torch.storage._load_from_bytes, which"),
        (b"cos\nsystem\n", "files that need code to be loaded are refused"),
        (b"ca\x1b[31m\nb\n", r"contains a\\x1b\[31m.b, which"),
        (b"c" + b"x" * 5000 + b"\ny\n", "a line of more than 1,000 bytes"),
        (b"c\xff\nb\n", "the pickle is not valid"),
        (number(1) + number(2) + b"\x93", "a name that is not text"),
        (b"(iposix\nsystem\n", "contains the pickle instruction INST, which tensors and plain"),
        (b"(" + name("torch.Size") + b"o", "contains the pickle instruction OBJ, which"),
        (b"\x82\x01", "contains the pickle instruction EXT1, which"),
        (b"\x83\x01\x00", "contains the pickle instruction EXT2, which"),
        (b"\x84\x01\x00\x00\x00", "contains the pickle instruction EXT4, which"),
        (b"P0\n", "contains the pickle instruction PERSID, which"),
        (
            name("argparse.Namespace") + b")}\x92",
            "contains the pickle instruction NEWOBJ_EX, which",
        ),
        (b"\x97", "contains the pickle instruction NEXT_BUFFER, which"),
        (b"\x8b\x04\x00\x00\x00abcd", "contains the pickle instruction LONG4, which"),
        (b"\xff", "a pickle with an unknown instruction"),
        (
            text("posix.system") + sequence(text("true")) + b"R",
            "calls 'posix.system', which is not",
        ),
        (call("argparse.Namespace"), "calls 'argparse.Namespace', which is not supported"),
        (name("collections.OrderedDict") + b"]R", "calls 'collections.OrderedDict', which is not"),
        (call("numpy.ndarray"), "calls 'numpy.ndarray', which is not supported"),
        (call("copyreg._reconstructor", name("torch.Size"), name("builtins.object"), NONE), "crea"),
        (call("copyreg._reconstructor", name("argparse.Namespace"), NONE, NONE), "calls 'copyreg"),
        (name("collections.OrderedDict") + b")\x81", "creates 'collections.OrderedDict', which is"),
        (
            name("argparse.Namespace") + sequence(number(1)) + b"\x81",
            "creates 'argparse.Namespace'",
        ),
        (number(1) + b")\x81", "creates 1, which is not supported"),
        (number(1) + b"}b", "sets the state of a int, not supported"),
        (b"]}b", "sets the state of a list, not supported"),
        (name("argparse.Namespace") + b"}b", "sets the state of a Name, not supported"),
    ],
)
def test_refused_by_name(tmp_path, value, message):
    path = tmp_path / "model.pt"
    path.write_bytes(torch_zip(value))
    with pytest.raises(InputError, match=message) as error:
        read_torch_tree(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_the_code_cannot_import_what_a_file_names():
    """The package imports known modules, and calls nothing that could import or evaluate others."""
    (folder,) = tf_transformer.formats.tensors.__path__
    calls, imports = set(), set()
    for path in pathlib.Path(folder).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imports |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imports.add(node.module.partition(".")[0])
            elif isinstance(node, ast.Call):
                calls.add(ast.unparse(node.func))
    assert imports <= {
        *("ast", "collections", "contextlib", "dataclasses", "numpy", "os", "pathlib"),
        *("pickletools", "re", "struct", "tf_transformer", "typing", "zlib"),
    }
    assert "ast.literal_eval" in calls  # the other calls are seen, too
    forbidden = {"eval", "exec", "compile", "getattr", "__import__", "globals", "vars"}
    assert not forbidden & {called.rpartition(".")[2] for called in calls - {"re.compile"}}


# ---- Objects that become plain values ----


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (call("collections.OrderedDict"), {}),
        (call("collections.OrderedDict", listing(listing(text("a"), number(1)))), {"a": 1}),
        (call("collections.OrderedDict") + mapping(_metadata=NONE) + b"b", {}),
        (call("collections.Counter", mapping(a=number(2))), {"a": 2}),
        (call("collections.defaultdict", name("__builtin__.int")), {}),
        (call("collections.defaultdict"), {}),
        (call("__builtin__.set", listing(number(1))), [1]),
        (call("builtins.frozenset", listing(number(1))), [1]),
        (call("torch.Size", numbers(2, 3)), (2, 3)),
        (call("torch.device", text("cpu")), "cpu"),
        (call("torch.device", text("cuda"), number(1)), "cuda:1"),
        (name("torch.float16"), "torch.float16"),
        (name("onmt.inputters.inputter.make_src"), "onmt.inputters.inputter.make_src"),
        (latin(b"a\xff"), b"a\xff"),
        (name("argparse.Namespace") + b")\x81" + mapping(a=NONE) + b"b", {"a": None}),
        (
            call(
                "copy_reg._reconstructor",
                name("argparse.Namespace"),
                name("__builtin__.object"),
                NONE,
            ),
            {},
        ),
        (call("functools.partial", name("builtins.int")) + sequence(NONE) + b"b", {}),
        (b"U\x03abc", "abc"),  # strings of Python 2
        (b"T" + struct.pack("<i", 3) + b"abc", "abc"),
    ],
)
def test_objects_of_known_classes(run, value, expected):
    assert run(pickled(value)) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (call("collections.OrderedDict", number(1)), "the description of a dict"),
        (call("collections.OrderedDict", listing(number(1))), "the description of a dict"),
        (call("collections.OrderedDict", listing(listing(b"]", NONE))), "keys of type list"),
        (call("builtins.set", number(1)), "the description of a set"),
        (call("torch.Size", number(1)), "the description of a shape"),
        (call("torch.device", number(1)), "the description of a device"),
        (call("_codecs.encode", text("a"), text("utf-7")), "the description of bytes"),
        (call("_codecs.encode", text("中"), text("latin1")), "bytes that are none"),
        (call("numpy.dtype", text("O8")), "values of the NumPy type 'O8'"),
        (call("numpy.dtype", number(8)), "the description of a NumPy type"),
        (call("numpy.dtype", text("f8")) + numbers(3, 3) + b"b", "the description of a NumPy type"),
        (
            call("numpy.core.multiarray.scalar", call("numpy.dtype", text("f8")), latin(b"a")),
            "the description of a NumPy value",
        ),
        (
            call("numpy.core.multiarray._reconstruct") + sequence(*[NONE] * 5) + b"b",
            "a NumPy array of objects, or a damaged one",
        ),
        (
            call("numpy.core.multiarray._reconstruct")
            + sequence(
                number(1), numbers(2), call("numpy.dtype", text("f8")), b"\x89", latin(b"a" * 15)
            )
            + b"b",
            "the shape of an array does not match",
        ),
        (
            call("numpy.core.multiarray._reconstruct")
            + sequence(number(1), numbers(-2), call("numpy.dtype", text("f8")), b"\x89", latin(b""))
            + b"b",
            "integers from 0 on",
        ),
    ],
)
def test_wrong_arguments(run, value, message):
    with pytest.raises(FormatError, match=message):
        run(pickled(value))


# ---- Pickles that are not valid ----


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "ends early"),
        (b".", "the pickle ends too early"),
        (b"NN.", "the pickle ends too early"),
        (b"(.", "the pickle ends too early"),
        (b"\x80\x06N.", "protocol 6"),
        (b"t.", "the pickle is not valid"),
        (b"N\x86.", "the pickle is not valid"),
        (b"a.", "the pickle is not valid"),
        (b"Na.", "the pickle is not valid"),
        (b"NNa.", "an entry of a NoneType"),
        (b")Na.", "an entry of a tuple"),
        (b"](u.", "an entry of a list"),
        (b"}(e.", "an entry of a dict"),
        (b"}(Nu.", "a key without a value"),
        (b"}NNs.", "keys of type NoneType"),
        (b"})Ns.", "keys of type tuple"),
        (b"}\x88Ns.", "keys of type bool"),
        (b"}" + b"G" + bytes(8) + b"Ns.", "keys of type float"),
        (b"}C\x01aNs.", "keys of type bytes"),
        (b"}(X\x01\0\0\0aNX\x01\0\0\0aNu.", "a dict with the key 'a' twice"),
        (b"h\0.", "a reference to a value that does not exist"),
        (b"j\0\0\0\xff.", "a reference to a value that does not exist"),
        (b"q\0.", "the pickle is not valid"),
        (b"(q\0.", "the pickle is not valid"),
        (b"\x94.", "the pickle is not valid"),
        (b"X\xff\xff\xff\xff", "a text of more than"),
        (b"\x8d" + b"\xff" * 8, "a text of more than"),
        (b"\x8e" + b"\xff" * 8, "a text of more than"),
        (b"X\x05\0\0\0abc", "ends early"),
        (b"X\x01\0\0\0\xff.", "the pickle is not valid"),
        (b"\x8a\x09" + b"\x7f" * 9 + b".", "an integer of more than 64 bits"),
        (b"L1234567890123456789012L\n.", "an integer of more than 64 bits, or a damaged one"),
        (b"L9999999999999999999L\n.", "an integer of more than 64 bits, or a damaged one"),
        (b"L--1L\n.", "an integer of more than 64 bits, or a damaged one"),
        (b"I\xb2\n.", "an integer of more than 64 bits, or a damaged one"),
        (b"I\n.", "an integer of more than 64 bits, or a damaged one"),
        (b"I" + b"1" * 100, "a line of more than 24 bytes"),
        (b"R.", "the pickle is not valid"),
        (b"b.", "the pickle is not valid"),
        (b"Q.", "the pickle is not valid"),
        (b"\x93.", "the pickle is not valid"),
        (b"\x81.", "the pickle is not valid"),
    ],
)
def test_pickles_that_are_not_valid(run, content, message):
    with pytest.raises(FormatError, match=message):
        run(content)


# ---- Limits ----


@pytest.mark.parametrize(
    ("limit", "content", "message"),
    [
        ("MAX_INSTRUCTIONS", b"N" * 100, "more than 50 instructions"),
        ("MAX_CONTAINERS", b"]" * 100, "more than 50 lists, dicts and tuples"),
        ("MAX_CONTAINERS", b"N" + b"\x85" * 100, "more than 50 lists, dicts and tuples"),
        ("MAX_CONTAINERS", b"(t" * 100, "more than 50 lists, dicts and tuples"),
        ("MAX_CONTAINERS", call("collections.Counter") * 100, "more than 50 lists, dicts and"),
        ("MAX_CONTAINERS", (name("argparse.Namespace") + b")\x81") * 100, "more than 50 lists"),
        ("MAX_MARKS", b"(" * 100, "nested more than 50 deep"),
    ],
)
def test_limits(run, monkeypatch, limit, content, message):
    monkeypatch.setattr(plain_machine, limit, 50)
    with pytest.raises(FormatError, match=message):
        run(content)


@pytest.mark.parametrize(
    ("shared", "use"),
    [
        (text("x" * 1000), call("torch.device", b"h\0")),
        (text("x" * 1000), call("_codecs.encode", b"h\0", text("latin1"))),
        (
            mapping(**{f"{key}": NONE for key in range(20)}),
            name("argparse.Namespace") + b")\x81h\0b",
        ),
        (
            listing(*[listing(text(str(key)), NONE) for key in range(20)]),
            call("collections.OrderedDict", b"h\0"),
        ),
        (
            latin(bytes(800)),
            call("numpy.core.multiarray._reconstruct")
            + sequence(number(1), numbers(100), call("numpy.dtype", text("f8")), b"\x89", b"h\0")
            + b"b",
        ),
    ],
)
def test_values_that_are_copied_again_and_again(run, monkeypatch, shared, use):
    """A reference takes two bytes of the file, whatever the size of the value."""
    monkeypatch.setattr(pickle_machine, "MAX_COPIED_BYTES", 50_000)
    content = shared + b"q\0"
    assert len(run(pickled(listing(content, *[use] * 9)))) == 10
    with pytest.raises(FormatError, match="the same values too many times"):
        run(pickled(listing(content, *[use] * 70)))


def test_calls_with_many_arguments(run):
    for function in ("collections.OrderedDict", "functools.partial", "collections.defaultdict"):
        with pytest.raises(FormatError, match="a call with 17 arguments"):
            run(pickled(call(function, *[NONE] * 17)))


def test_equal_hashes(run):
    """Multiples of this number have the same hash, and would take quadratic time as keys."""
    prime = 2**61 - 1
    keys = [index * prime for index in range(-8, 9)]
    assert len({hash(key) for key in keys}) == 1
    fitting = [key for key in keys if -(2**63) <= key < 2**63]
    assert len(fitting) < 10
    assert len(run(pickle.dumps(dict.fromkeys(fitting), 2))) == len(fitting)
    with pytest.raises(FormatError, match="an integer of more than 64 bits"):
        run(pickle.dumps(dict.fromkeys(keys), 2))


def test_long_texts_across_the_reads_of_the_file(run):
    texts = [chr(97 + index % 26) * size for index, size in enumerate([1, 65_535, 65_536, 200_000])]
    assert run(pickle.dumps(texts * 3, 2)) == texts * 3


def test_tensors_are_no_keys(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(torch_zip(b"}" + tensor() + NONE + b"s"))
    with pytest.raises(InputError, match="keys of type StoredTensor"):
        read_torch_tree(path)
