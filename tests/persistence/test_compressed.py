"""Compressed documents: small, of another format, and never larger in memory than allowed."""

import base64
import tracemalloc

import numpy as np
import pytest
import safetensors.numpy

from sknet.exceptions import LoadError
from sknet.persistence import read, write
from tests.fuzz.layout import apart, deflated, together, with_metadata

TREE = {"layers": [{"weight": np.arange(6.0).reshape(2, 3)}, {"weight": np.ones(2, "f4")}], "rate": 0.1}


def metadata(path):
    header, document, arrays = apart(path.read_bytes())
    return header["__metadata__"], header, document, arrays


def test_other_programs_find_the_arrays_and_the_text(tmp_path):
    large = np.arange(4096, dtype="f4").reshape(64, 64)
    write(tmp_path / "a", TREE | {"large": large}, "example", compress=True)
    found = safetensors.numpy.load_file(tmp_path / "a")
    np.testing.assert_array_equal(found["0"], large)
    small = [layer["weight"].tobytes() for layer in TREE["layers"]]
    assert found["small"].tobytes() == b"".join(small)
    with safetensors.safe_open(tmp_path / "a", "numpy") as file:
        texts = file.metadata()
    assert (texts["format"], texts["kind"]) == ("sknet 2", "example")
    _, document, _ = apart((tmp_path / "a").read_bytes())
    assert document == {
        "layers": [{"weight": {"$array": ["F64", [2, 3]]}}, {"weight": {"$array": ["F32", [2]]}}],
        "rate": 0.1,
        "large": {"$array": "0"},
    }


def test_files_that_are_not_compressed_keep_the_former_format(tmp_path):
    write(tmp_path / "a", TREE, "example")
    assert metadata(tmp_path / "a")[0]["format"] == "sknet 1"


def test_the_words_never_change(tmp_path):
    """Files of format 2 are read with these bytes alone, whose Adler-32 is in a compressed text."""
    write(tmp_path / "a", TREE, "example", compress=True)
    begin = base64.b64decode(metadata(tmp_path / "a")[0]["compressed"])[:6]
    assert begin[1] & 0x20  # with a preset dictionary
    assert begin[2:] == bytes.fromhex("e0a3bed1")


def test_a_text_that_is_much_larger_than_the_arrays_is_not_compressed(tmp_path):
    tree = {"a": np.arange(3.0), "levels": [f"level {n}" for n in range(20_000)]}
    write(tmp_path / "a", tree, "example", compress=True)
    texts, _, document, _ = metadata(tmp_path / "a")
    assert texts["format"] == "sknet 1"
    assert document["a"] == {"$array": "a"}  # as earlier versions read it
    assert read(tmp_path / "a", "example")["levels"] == tree["levels"]
    write(tmp_path / "a", {**tree, "a": np.zeros(1_000_000)}, "example", compress=True)
    assert metadata(tmp_path / "a")[0]["format"] == "sknet 2"
    assert read(tmp_path / "a", "example")["levels"] == tree["levels"]


BOMBS = {"spaces": b" ", "lists": b"[],", "dicts": b'{"a":{}},', "long texts": b'"' + bytes(90) + b'",'}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("length", [150_000, 100_000_000])
def test_a_text_that_becomes_too_large_is_refused(name, length, tmp_path):
    write(tmp_path / "a", TREE, "example", compress=True)
    texts, header, _, arrays = metadata(tmp_path / "a")
    bomb = deflated(b"[" + BOMBS[name] * (length // len(BOMBS[name])) + b"1]")
    (tmp_path / "a").write_bytes(with_metadata(header, {**texts, "compressed": bomb}, arrays))
    size = (tmp_path / "a").stat().st_size
    tracemalloc.start()
    with pytest.raises(LoadError, match=r"a is damaged: (its compressed text|its text cannot be read)"):
        read(tmp_path / "a", "example")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * size + (1 << 20)


WRONG = {
    "no base64": ("é!", "its text cannot be uncompressed"),
    "base64 in lines": (lambda text: f"{text[:4]}\n{text[4:]}", "its text cannot be uncompressed"),
    "not compressed": (lambda text: base64.b64encode(b"{}").decode(), "its text cannot be uncompressed"),
    "without words": (
        lambda text: deflated(b"{}" * 90, b""),
        "more bytes follow|cannot be uncompressed|read",
    ),
    "other words": (lambda text: deflated(b"{}" * 90, b"other words"), "its text cannot be uncompressed"),
    "cut off": (lambda text: text[: len(text) // 8 * 4], "compressed text is incomplete"),
    "followed": (lambda text: base64.b64encode(base64.b64decode(text) + b"x").decode(), "more bytes follow"),
    "other characters": (lambda text: deflated(b"\xff"), "its text cannot be uncompressed"),
    "no JSON": (lambda text: deflated(b"{"), "its text cannot be read"),
    "a number": (lambda text: 3, "its metadata lack format, kind or document"),
}


@pytest.mark.parametrize("name", WRONG)
def test_damage_is_named(name, tmp_path):
    write(tmp_path / "a", TREE, "example", compress=True)
    texts, header, _, arrays = metadata(tmp_path / "a")
    changed, message = WRONG[name]
    changed = changed(texts["compressed"]) if callable(changed) else changed
    (tmp_path / "a").write_bytes(with_metadata(header, {**texts, "compressed": changed}, arrays))
    with pytest.raises(LoadError, match=f"a is damaged: .*({message})"):
        read(tmp_path / "a", "example")


@pytest.mark.parametrize(("number", "key"), [("sknet 1", "compressed"), ("sknet 2", "content")])
def test_each_format_has_its_own_text(number, key, tmp_path):
    write(tmp_path / "a", TREE, "example", compress=key == "compressed")
    texts, header, _, arrays = metadata(tmp_path / "a")
    (tmp_path / "a").write_bytes(with_metadata(header, {**texts, "format": number}, arrays))
    with pytest.raises(LoadError, match=f"lack format, kind or document, or have the format '{number}'"):
        read(tmp_path / "a", "example")


ARRAYS = (
    *(np.zeros(shape, dtype) for dtype in "?bhdqBHIQefd" for shape in [(), (0,), (3,), (2, 0, 5), (3, 1)]),
    np.array([True, False]),
    np.arange(6.0).reshape(2, 3).T,
    np.arange(5, dtype=">i4")[::-1],
    np.float32([np.nan, -0.0, np.inf]),
    np.empty((0, 3)),
)


def test_small_arrays_of_every_kind_come_back_as_they_were(tmp_path):
    write(tmp_path / "a", list(ARRAYS), "example", compress=True)
    found = read(tmp_path / "a", "example")
    for array, expected in zip(found, ARRAYS, strict=True):
        expected = np.ascontiguousarray(expected, expected.dtype.newbyteorder("=")).reshape(expected.shape)
        assert (array.dtype, array.shape, array.tobytes()) == (
            expected.dtype,
            expected.shape,
            expected.tobytes(),
        )
        assert array.flags.writeable
        assert array.flags.aligned


def test_the_array_that_a_file_cannot_hold_is_named(tmp_path):
    for compress in (False, True):
        with pytest.raises(TypeError, match="array 'a/1' has dtype complex128: a file holds float64"):
            write(tmp_path / "a", {"a": [np.ones(2), np.ones(2, complex)]}, "example", compress=compress)


SAID = {
    "another dtype": (["F32", [2, 3]], "does not mention the arrays .'small'."),
    "a larger dtype": (["F64", [200, 3]], "a small array ends at byte 4800 of 56"),
    "a shape without end": (["F64", [2**61, 2**61]], "a small array ends at byte"),
    "an empty array without end": (["F32", [0, 2**61, 2**61]], "cannot be read"),
    "a negative length": (["F64", [-1, -6]], "neither an array"),
    "lengths that are no numbers": (["F64", [2.0, 3]], "neither an array"),
    "too many axes": (["F64", [1] * 65], "neither an array"),
    "no shape": (["F64", 6], "neither an array"),
    "an unknown dtype": (["O", [2, 3]], "neither an array"),
    "three parts": (["F64", [2, 3], 0], "neither an array"),
    "no dtype": ([6, [2, 3]], "neither an array"),
    "other booleans": (["BOOL", [48]], "holds 240 as a boolean"),
}


@pytest.mark.parametrize("name", SAID)
def test_what_is_said_of_small_arrays_is_checked(name, tmp_path):
    said, message = SAID[name]
    write(tmp_path / "a", TREE, "example", compress=True)
    header, document, arrays = apart((tmp_path / "a").read_bytes())
    document["layers"][0]["weight"]["$array"] = said
    (tmp_path / "a").write_bytes(together(header, document, arrays))
    with pytest.raises(LoadError, match=message):
        read(tmp_path / "a", "example")


def test_small_arrays_that_are_of_another_form_are_not_read(tmp_path):
    write(tmp_path / "a", {"small": np.zeros((2, 2)), "b": np.ones(3)}, "example")
    header, document, arrays = apart((tmp_path / "a").read_bytes())
    document["b"]["$array"] = ["F64", [3]]
    (tmp_path / "a").write_bytes(together(header, document, arrays))
    with pytest.raises(LoadError, match="neither an array"):
        read(tmp_path / "a", "example")
