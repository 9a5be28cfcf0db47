"""Files of classifiers: what is written is read, and everything else is refused."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tf_transformer.language_id.reference import ODD, random_classifier
from tf_transformer.errors import InputError
from tf_transformer.formats.tensors.opening import open_tensors
from tf_transformer.formats.writers.safetensors_writer import write_safetensors
from tf_transformer.language_id.classifier_file import read_classifier, write_classifier


def arrays_of(classifier):
    with_scalars = {
        "format_version": np.array(1, np.int16),
        "threshold": np.array(classifier.threshold, np.float32),
        "scale": np.array(classifier.scale, np.float32),
    }
    languages = zip(classifier.languages, classifier.weights.T, strict=True)
    return with_scalars | {f"language.{name}": column for name, column in languages}


def write(path, arrays):
    shapes = {name: array.shape for name, array in arrays.items()}
    dtypes = {name: array.dtype.name for name, array in arrays.items()}
    write_safetensors(path, shapes, arrays.items(), dtypes)
    return path


def test_round_trip(tmp_path):
    classifier = random_classifier()
    write_classifier(tmp_path / "f", classifier)
    found = read_classifier(tmp_path / "f")
    assert found.languages == classifier.languages and found.digest == classifier.digest
    np.testing.assert_array_equal(found.weights, classifier.weights)
    assert found.identify(ODD).languages == classifier.identify(ODD).languages
    assert (tmp_path / "f").stat().st_size < 2 * classifier.weights.size + 1000
    content = (tmp_path / "f").read_bytes()
    assert write(tmp_path / "g", arrays_of(classifier)).read_bytes() == content


def test_others_can_read_it(tmp_path):
    """With nothing but the format's definition."""
    classifier = random_classifier()
    write_classifier(tmp_path / "f", classifier)
    with open_tensors(tmp_path / "f") as file:
        assert file.dtypes["language.l1"] == "int16"
        np.testing.assert_array_equal(file["language.l1"], classifier.weights[:, 1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": np.array(2, np.int16)}, "reads classifiers of format 1, got format 2"),
        ({"format_version": None}, "expected a classifier, .* no format_version"),
        ({"scale": np.ones(2, np.float32)}, "expected scale to be one number of type float32"),
        ({"scale": np.array(1, np.int16)}, "expected scale to be one number of type float32"),
        ({"scale": np.array(-1, np.float32)}, "expected a scale above 0, got -1.0"),
        ({"scale": np.array(np.inf, np.float32)}, "expected a scale above 0, got inf"),
        ({"threshold": np.array(np.nan, np.float32)}, "as the threshold, got nan"),
        ({"other": np.zeros(3, np.float32)}, "found the tensor 'other'"),
        ({"language.1": np.zeros(1024, np.int16)}, "the name of a language, .* got '1'"),
        ({"language.l9": np.zeros(512, np.int16)}, "an equal number of weights for each language"),
        ({"language.l0": np.zeros((2, 512), np.int16)}, "an equal number of weights"),
        ({"language.l0": np.zeros(1024, np.float32)}, "expected weights of type int16, got float"),
        ({"language.l0": None, "language.l1": None}, "expected 2 to 256 languages, got 1"),
    ],
    ids=str,
)
def test_what_is_refused(tmp_path, changes, message):
    arrays = {
        name: array
        for name, array in (arrays_of(random_classifier()) | changes).items()
        if array is not None
    }
    path = write(tmp_path / "f", arrays)
    with pytest.raises(InputError, match=message) as error:
        read_classifier(path)
    assert str(error.value).startswith(f"{path}: ") and "\n" not in str(error.value)


def test_other_files(tmp_path):
    with pytest.raises(InputError, match="none: no such file; expected a classifier, as"):
        read_classifier(tmp_path / "none")
    with pytest.raises(InputError, match="expected a regular file, got a folder"):
        read_classifier(tmp_path)
    for content in (b"", b"text\n", b"\x80\x04N.", b"PK\x03\x04"):
        (tmp_path / "f").write_bytes(content)
        with pytest.raises(InputError, match=f"^{tmp_path}/f: "):
            read_classifier(tmp_path / "f")


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("classifier") / "f"
    write_classifier(path, random_classifier(2, 2**8))
    return path, path.read_bytes()


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_files(content, data):
    """Any change gives a classifier with valid values, or one line that names the file."""
    path, original = content
    changed = bytearray(original)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, 400) | st.integers(0, len(original) - 1))
        changed[place] = data.draw(st.integers(0, 255))
    del changed[data.draw(st.integers(0, 5000)) or len(changed) :]
    path.write_bytes(changed)
    try:
        found = read_classifier(path).identify([b"some text", b""])
    except InputError as error:
        assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
    else:
        assert np.isfinite(found.probabilities).all()
