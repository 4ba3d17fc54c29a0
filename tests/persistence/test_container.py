"""The format is that of safetensors, and all damage is detected."""

import json
import re

import numpy as np
import pytest

from sknet import nn
from sknet.exceptions import LoadError
from sknet.persistence import read, write
from tests.combinations import every
from tests.fuzz.layout import apart, together, with_metadata

DTYPES = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]
TREE = {"weights": np.arange(6.0).reshape(2, 3), "steps": np.array([1, 2], np.int8), "rate": 0.1}


def parsed(path):
    """Read a file as the layout's specification says: length, header, arrays without gaps."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    texts = header.pop("__metadata__")
    assert all(isinstance(text, str) for text in texts.values())
    kinds = {"F64": "<f8", "I8": "i1"}
    arrays, end = {}, 0
    for name, place in header.items():
        start, stop = place["data_offsets"]
        assert start == end, "no gaps"
        arrays[name] = np.frombuffer(data[start:stop], kinds[place["dtype"]]).reshape(place["shape"])
        end = stop
    assert end == len(data)
    return texts, arrays


def test_the_layout_is_that_of_safetensors(tmp_path):
    write(tmp_path / "a", TREE, "example")
    texts, arrays = parsed(tmp_path / "a")
    assert texts["kind"] == "example"
    assert sorted(arrays) == ["steps", "weights"]
    np.testing.assert_array_equal(arrays["weights"], TREE["weights"])
    np.testing.assert_array_equal(arrays["steps"], TREE["steps"])


@every(dtype=DTYPES, shape=[(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_arrays_come_back(tmp_path, dtype, shape):
    random = np.random.RandomState(0)
    array = (
        random.randint(0, 2, shape).astype(dtype)
        if dtype == "?"
        else random.normal(0, 50, shape).astype(dtype)
    )
    tree = {"it": array, "odd": np.ones(3, np.int8), "turned": np.asarray(array).T}
    if dtype[0] in "fi" and dtype[1:] not in "1":
        tree["swapped"] = array.astype(f">{dtype}")
    write(tmp_path / "a", tree, "example")
    found = read(tmp_path / "a", "example")
    assert set(found) == set(tree)
    for name, value in tree.items():
        assert found[name].dtype == value.dtype.newbyteorder("=")
        assert found[name].shape == value.shape
        assert found[name].tobytes() == value.astype(value.dtype.newbyteorder("=")).tobytes()
        assert found[name].flags.writeable
        assert found[name].flags.aligned


@pytest.mark.parametrize("dtype", ["c16", "U3", "O", "M8[s]"])
def test_a_dtype_that_a_file_cannot_hold_is_named(tmp_path, dtype):
    with pytest.raises(TypeError, match=r"array 'a/b' has dtype .*: a file holds float64, "):
        write(tmp_path / "x", {"a": {"b": np.zeros(2, dtype)}}, "example")
    assert not list(tmp_path.iterdir())


def test_every_flipped_bit_is_detected(tmp_path):
    path = tmp_path / "a"
    write(path, TREE, "example")
    raw = path.read_bytes()
    random = np.random.RandomState(0)
    for place in range(len(raw)):
        changed = bytearray(raw)
        changed[place] ^= 1 << random.randint(8)
        path.write_bytes(changed)
        with pytest.raises(LoadError, match=re.escape(str(path))):
            read(path, "example")


def test_every_truncation_and_extension_is_detected(tmp_path):
    path = tmp_path / "a"
    write(path, TREE, "example")
    raw = path.read_bytes()
    for length in range(len(raw)):
        path.write_bytes(raw[:length])
        with pytest.raises(LoadError, match=re.escape(str(path)) + " (is damaged|was not written by sknet)"):
            read(path, "example")
    path.write_bytes(raw + b" ")
    with pytest.raises(LoadError, match=re.escape(str(path)) + " is damaged: its"):
        read(path, "example")


OTHER_FILES = {
    "text": (b"epoch,loss\n1,0.5\n", "was not written by sknet"),
    "zip": (b"PK\x03\x04" + bytes(200), "was not written by sknet"),
    "zeros": (bytes(4096), "was not written by sknet"),
    "empty": (b"", "is damaged: it is empty"),
    "other safetensors": ((2).to_bytes(8, "little") + b"{}", "was not written by sknet"),
}


@pytest.mark.parametrize("name", OTHER_FILES)
def test_another_file_is_named(tmp_path, name):
    content, message = OTHER_FILES[name]
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(LoadError, match=re.escape(str(tmp_path / "a")) + f" {message}"):
        read(tmp_path / "a", "example")


def test_a_missing_file_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing_here"):
        read(tmp_path / "nothing_here", "example")


def test_a_folder_is_told_with_its_files(tmp_path):
    with pytest.raises(LoadError, match=re.escape(str(tmp_path)) + " is a folder, not a file: pass"):
        read(tmp_path, "example")
    write(tmp_path / "last.safetensors", TREE, "example")
    with pytest.raises(LoadError, match=r"pass a file, such as .*last.safetensors.*, .*resume_from"):
        read(tmp_path, "example")


def test_a_newer_format_is_rejected(tmp_path):
    write(tmp_path / "a", TREE, "example")
    header, _, arrays = apart((tmp_path / "a").read_bytes())
    newer = with_metadata(header, {**header["__metadata__"], "format": "sknet 4"}, arrays)
    (tmp_path / "a").write_bytes(newer)
    with pytest.raises(LoadError, match="format 'sknet 4', but this version of sknet reads up to 'sknet 3'"):
        read(tmp_path / "a", "example")


def test_many_arrays_of_a_network(tmp_path):
    network = nn.Sequential(*[nn.Linear(3, 3) for _ in range(50)])
    network.initialize(np.random.RandomState(0))
    state = {name: parameter.data for name, parameter in network.named_parameters()}
    write(tmp_path / "a", state, "example")
    found = read(tmp_path / "a", "example")
    assert list(found) == list(state)
    assert all(found[name].tobytes() == array.tobytes() for name, array in state.items())


@pytest.mark.parametrize("shape", [(2**24, 0), (0, 2**31), (3, 0, 2**40)])
def test_empty_arrays_that_are_long_are_refused(shape, tmp_path):
    """Whoever iterates over their rows would not end."""
    tree = {"empty": np.zeros(shape), "full": np.ones(2)}
    with pytest.raises(TypeError, match="is empty: a file holds"):
        write(tmp_path / "a", tree, "example")
    write(tmp_path / "a", {**tree, "empty": np.zeros((3, 0))}, "example")
    header, document, arrays = apart((tmp_path / "a").read_bytes())
    header["empty"]["shape"] = shape
    (tmp_path / "a").write_bytes(together(header, document, arrays))
    with pytest.raises(LoadError, match="is described as"):
        read(tmp_path / "a", "example")


def test_empty_arrays_are_kept(tmp_path):
    write(tmp_path / "a", {"empty": np.zeros((2**23, 0), np.float32)}, "example")
    assert read(tmp_path / "a", "example")["empty"].shape == (2**23, 0)
