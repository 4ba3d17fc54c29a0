"""Compressed documents: small, of another format, and never larger in memory than allowed."""

import base64
import hashlib
import json
import tracemalloc
import zlib

import numpy as np
import pytest
import safetensors.numpy

from sknet.exceptions import LoadError
from sknet.persistence import read, write
from sknet.persistence._words import WORDS
from tests.fuzz.layout import apart, deflated, with_metadata

DIGEST = "61dc5cfb1d4cb2a09558f88d6bc552b5b5c6682e6f3e57dc1eb819a83bed5c98"
TREE = {"layers": [{"weight": np.arange(6.0).reshape(2, 3)}, {"weight": np.ones(2, "f4")}], "rate": 0.1}


def metadata(path):
    header, document, arrays = apart(path.read_bytes())
    return header["__metadata__"], header, document, arrays


def test_other_programs_find_the_arrays_and_the_text(tmp_path):
    write(tmp_path / "a", TREE, "example", compress=True)
    found = safetensors.numpy.load_file(tmp_path / "a")
    np.testing.assert_array_equal(found["0"], TREE["layers"][0]["weight"])
    np.testing.assert_array_equal(found["1"], TREE["layers"][1]["weight"])
    with safetensors.safe_open(tmp_path / "a", "numpy") as file:
        texts = file.metadata()
    assert (texts["format"], texts["kind"]) == ("sknet 2", "example")
    text = zlib.decompressobj(zdict=WORDS).decompress(base64.b64decode(texts["compressed"]))
    assert json.loads(text) == {
        "layers": [{"weight": {"$array": "0"}}, {"weight": {"$array": "1"}}],
        "rate": 0.1,
    }


def test_files_that_are_not_compressed_keep_the_former_format(tmp_path):
    write(tmp_path / "a", TREE, "example")
    assert metadata(tmp_path / "a")[0]["format"] == "sknet 1"


def test_the_words_never_change():
    """Files of format 2 are read with these bytes alone."""
    assert hashlib.sha256(WORDS).hexdigest() == DIGEST


def test_a_text_that_is_much_larger_than_the_arrays_is_not_compressed(tmp_path):
    tree = {"a": np.arange(3.0), "levels": [f"level {n}" for n in range(20_000)]}
    write(tmp_path / "a", tree, "example", compress=True)
    assert metadata(tmp_path / "a")[0]["format"] == "sknet 1"
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
    "other words": (lambda text: deflated(b"{}" * 90, WORDS[1:]), "its text cannot be uncompressed"),
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
