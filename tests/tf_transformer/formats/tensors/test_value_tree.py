import pytest

from tests.tf_transformer.formats.tensors.written import (
    call,
    listing,
    mapping,
    number,
    tensor,
    text,
    torch_legacy,
)
from tf_transformer.errors import InputError
from tf_transformer.formats.tensors.opening import read_torch_tree


@pytest.fixture
def write(tmp_path):
    def write_file(value, *storages):
        path = tmp_path / "model.pt"
        path.write_bytes(torch_legacy(value, *storages))
        return path

    return write_file


def shared_lists(levels: int, copies: int) -> bytes:
    """A list of the same list several times, and so on: a tree of `copies ** levels` leaves."""
    value = listing(number(1)) + b"q\0"
    for level in range(1, levels):
        value = listing(value, *[b"h" + bytes([level - 1])] * (copies - 1)) + b"q" + bytes([level])
    return value


def test_shared_values(write):
    root = read_torch_tree(write(shared_lists(levels=4, copies=3), {}))
    assert root[0] is root[1] is root[2]
    assert root[0][0][0] == [1]


def test_values_that_would_be_endless_when_written_out(write):
    """Programs that visit every occurrence of a value come to an end."""
    with pytest.raises(InputError, match="at most 100 levels and 50,000,000 values"):
        read_torch_tree(write(shared_lists(levels=60, copies=10), {}))


@pytest.mark.parametrize(
    "value",
    [
        b"]q\0h\0a",
        b"}q\0" + text("a") + b"h\0s",
        b"]q\0" + listing(b"h\0") + b"a",
        b"]q\0" + mapping(a=listing(number(1), b"h\0")) + b"a",
        b"]q\0(h\0ta",
    ],
)
def test_values_that_contain_themselves(write, value):
    with pytest.raises(InputError, match="a value that contains itself"):
        read_torch_tree(write(value, {}))


@pytest.mark.parametrize("depth", [100, 101, 5_000])
@pytest.mark.parametrize(
    ("opening", "closing"), [(b"]", b"a"), (b"}" + text("a"), b"s"), (b")", b"\x86")]
)
def test_depth(write, depth, opening, closing):
    value = opening * (depth - 1) + b"]" + closing * (depth - 1)
    path = write(value, {})
    if depth <= 100:
        assert isinstance(read_torch_tree(path), dict | list | tuple)
    else:
        with pytest.raises(InputError, match="at most 100 levels"):
            read_torch_tree(path)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [900_000, 1_000_001])
def test_enormous_depth(write, depth):
    path = write(b"]" * depth + b"a" * (depth - 1), {})
    with pytest.raises(InputError, match=r"at most 100 levels|more than 1,000,000 lists, dicts"):
        read_torch_tree(path)


def test_what_is_left_of_objects(write):
    for value, message in [
        (call("numpy.dtype", text("f8")), "contains a NumpyType that is not part of a tensor"),
        (call("numpy.core.multiarray._reconstruct"), "a NumPy array without values"),
    ]:
        with pytest.raises(InputError, match=message):
            read_torch_tree(write(listing(value), {}))


def test_a_single_tensor(write):
    assert read_torch_tree(write(tensor())).read().tolist() == [[0, 1, 2], [3, 4, 5]]
