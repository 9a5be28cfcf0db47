"""Checkpoints against TensorFlow's own reader and writer."""

import numpy as np
import pytest
import tensorflow as tf

from tests.tf_transformer.formats.bundles import written
from tf_transformer.formats.bundles.bundle import is_index, open_bundle
from tf_transformer.formats.bundles.crc32c import crc32c, unmasked

DTYPES = ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool"]


@pytest.mark.parametrize("size", [0, 1, 2, 63, 64, 65, 1000, 4097])
def test_checksum(size):
    data = np.random.default_rng(size).integers(0, 256, size).astype("uint8")
    assert crc32c(data) == written.crc32c(data.tobytes())
    assert unmasked(int.from_bytes(written.masked(data.tobytes()), "little")) == crc32c(data)


def test_checksum_of_several_chunks(monkeypatch):
    """The check value of the Castagnoli polynomial, and chunks of every size."""
    assert crc32c(np.frombuffer(b"123456789", np.uint8)) == 0xE3069283
    data = np.random.default_rng(1).integers(0, 256, 300).astype("uint8")
    for chunk in (1, 7, 64, 299, 300):
        monkeypatch.setattr("tf_transformer.formats.bundles.crc32c._CHUNK", chunk)
        assert crc32c(data) == written.crc32c(data.tobytes())


@pytest.mark.slow
def test_variables_that_tensorflow_wrote(tmp_path):
    """Of every type, in so many blocks that the index lists several, with a text and a count."""
    random = np.random.default_rng(1)
    values = {dtype: random.integers(0, 2, (3, 4)).astype(dtype) for dtype in DTYPES}
    values |= {f"layer_{number}": random.normal(size=7).astype("float32") for number in range(200)}
    values |= {"empty": np.zeros((0, 3), "float32"), "one": np.array(5.5)}
    variables = {name: tf.Variable(value) for name, value in values.items()}
    half = tf.Variable(tf.cast([1.5, -2.0], tf.bfloat16))
    node = tf.train.Checkpoint(**variables, text=tf.Variable("text"), half=half)
    prefix = tf.train.Checkpoint(model=node).save(str(tmp_path / "ckpt"))
    path = tmp_path / "ckpt-1.index"
    reader = tf.train.load_checkpoint(prefix)
    shapes = reader.get_variable_to_shape_map()
    with open_bundle(path) as found:
        texts = {name for name in shapes if name not in found}
        assert texts == {"_CHECKPOINTABLE_OBJECT_GRAPH", "model/text/.ATTRIBUTES/VARIABLE_VALUE"}
        assert len(found) == len(shapes) - 2
        for name, value in found.items():
            expected = reader.get_tensor(name)
            assert found.shapes[name] == expected.shape == value.shape
            assert found.dtypes[name] == expected.dtype.name
            np.testing.assert_array_equal(value, expected.astype(value.dtype))
    assert is_index(path) and not is_index(tmp_path / "ckpt-1.data-00000-of-00001")


def test_files_of_several_devices(tmp_path):
    """A value for each of two files."""
    arrays = [np.arange(4, dtype="float32"), np.arange(6, dtype="float32").reshape(2, 3)]
    entries = [(b"", written.header(num_shards=2))]
    for shard, array in enumerate(arrays):
        content = written.entry(array.shape, array.tobytes(), shard=shard)
        entries.append((f"v{shard}".encode(), content))
        (tmp_path / f"c.data-{shard:05d}-of-00002").write_bytes(array.tobytes())
    (tmp_path / "c.index").write_bytes(written.table(entries))
    reader = tf.train.load_checkpoint(str(tmp_path / "c"))
    with open_bundle(tmp_path / "c.index") as found:
        for shard, array in enumerate(arrays):
            np.testing.assert_array_equal(found[f"v{shard}"], array)
            np.testing.assert_array_equal(reader.get_tensor(f"v{shard}"), array)


def test_written_files_are_those_of_tensorflow(tmp_path):
    """TensorFlow reads what the other tests write."""
    arrays = {"b/c": np.arange(6, dtype="float32").reshape(2, 3), "a": np.array(3, "int64")}
    written.write_bundle(tmp_path / "ckpt-7", arrays)
    reader = tf.train.load_checkpoint(str(tmp_path / "ckpt-7"))
    for name, array in arrays.items():
        found = reader.get_tensor(f"{name}/.ATTRIBUTES/VARIABLE_VALUE")
        np.testing.assert_array_equal(found, array)
