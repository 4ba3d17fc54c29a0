"""The safetensors library reads our files, and we read its files."""

import json

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from sknet.exceptions import LoadError
from sknet.persistence import read, write
from tests.fuzz.layout import apart, signed, together

DTYPES = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]


def drawn(seed):
    """Return arrays of any dtypes and shapes."""
    rng = np.random.default_rng(seed)
    shapes = [tuple(rng.integers(0, 5, int(rng.integers(0, 4)))) for _ in range(int(rng.integers(0, 9)))]
    dtypes = rng.choice(DTYPES, len(shapes))
    found = {}
    for number, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True)):
        values = rng.integers(0, 2, shape) if dtype == "?" else 100 * rng.normal(size=shape)
        found[f"{number}/{dtype}"] = np.asarray(values).astype(dtype)
    return found


def assert_equal(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype
        np.testing.assert_array_equal(a[name], b[name], strict=True)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("seed", range(30))
def test_the_library_reads_what_is_written(seed, tmp_path):
    arrays = drawn(seed)
    write(tmp_path / "it", arrays, "example")
    assert_equal(safetensors.numpy.load_file(tmp_path / "it"), arrays)
    with safetensors.safe_open(tmp_path / "it", "numpy") as file:
        assert file.metadata()["kind"] == "example"


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("seed", range(30))
def test_what_the_library_writes_is_read(seed, tmp_path):
    """Once the metadata are first, and the checksum the first of them."""
    arrays = drawn(seed)
    content = {name: {"$array": name} for name in arrays}
    metadata = {"sha256": "0" * 64, "format": "sknet 1", "kind": "example", "content": ""}
    header, _, data = apart_of_library(safetensors.numpy.save(arrays, metadata))
    header = {"__metadata__": {"sha256": "0" * 64, **header.pop("__metadata__")}, **header}
    (tmp_path / "it").write_bytes(together(header, content, data))
    assert_equal(read(tmp_path / "it", "example"), arrays)


def apart_of_library(raw):
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length]), None, raw[8 + length :]


WRONG = {
    "dtype": lambda place: place.update(dtype="F8"),
    "dtype of another length": lambda place: place.update(dtype="F32"),
    "shape": lambda place: place.update(shape=[2, 4]),
    "negative": lambda place: place.update(shape=[-2, -3]),
    "text": lambda place: place.update(shape="23"),
    "more": lambda place: place.update(more=1),
    "gap": lambda place: place.update(data_offsets=[8, 56]),
    "backwards": lambda place: place.update(data_offsets=[48, 0]),
    "missing": lambda place: place.pop("shape"),
    "huge": lambda place: place.update(shape=[2**62, 2**62]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_offsets_are_rejected_by_both(name, tmp_path):
    write(tmp_path / "it", {"a": np.arange(6.0).reshape(2, 3)}, "example")
    header, document, data = apart((tmp_path / "it").read_bytes())
    WRONG[name](header["a"])
    (tmp_path / "it").write_bytes(together(header, document, data))
    with pytest.raises(LoadError, match=r"it is damaged: (array 'a'|its arrays)"):
        read(tmp_path / "it", "example")
    if name != "more":  # which the library accepts
        with pytest.raises((safetensors.SafetensorError, OverflowError)):
            safetensors.numpy.load_file(tmp_path / "it")


def test_a_document_without_an_array_is_rejected(tmp_path):
    write(tmp_path / "it", {"a": np.arange(3.0), "b": 1}, "example")
    header, document, data = apart((tmp_path / "it").read_bytes())
    for changed, message in (
        ({"b": 1}, "does not mention the arrays"),
        ({"a": {"$array": "c"}}, "used once"),
    ):
        (tmp_path / "it").write_bytes(together(header, changed, data))
        with pytest.raises(LoadError, match=message):
            read(tmp_path / "it", "example")
    (tmp_path / "it").write_bytes(together(header, [document["a"]] * 2, data))
    with pytest.raises(LoadError, match=r"is neither an array \(used once\) nor a number"):
        read(tmp_path / "it", "example")


def test_truth_values_are_0_and_1(tmp_path):
    write(tmp_path / "it", {"a": np.array([True, False])}, "example")
    raw = bytearray((tmp_path / "it").read_bytes())
    raw[-1] = 2
    (tmp_path / "it").write_bytes(signed(bytes(raw)))
    with pytest.raises(LoadError, match="array 'a' holds 2 as a boolean"):
        read(tmp_path / "it", "example")
