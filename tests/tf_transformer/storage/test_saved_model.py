"""A SavedModel that cannot be written is an error of the file system."""

import pytest
import tensorflow as tf

from tf_transformer.storage.saved_model import write_saved_model


def test_it_can_be_loaded(tmp_path):
    module = tf.Module()
    module.value = tf.Variable(2.0)
    double = tf.function(lambda x: {"y": x * module.value}).get_concrete_function(
        tf.TensorSpec([], tf.float32, name="x")
    )
    write_saved_model(module, tmp_path / "new", {"double": double})
    loaded = tf.saved_model.load(tmp_path / "new")
    assert loaded.signatures["double"](x=tf.constant(3.0))["y"].numpy() == 6.0


def test_writing_fails(tmp_path):
    module = tf.Module()
    module.value = tf.Variable(2.0)
    (tmp_path / "file").touch()  # where a folder is expected
    with pytest.raises(OSError, match="file"):
        write_saved_model(module, tmp_path / "file" / "new", {})
