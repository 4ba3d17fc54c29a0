"""Descriptions of equal parameters are equal; differences are named."""

import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import KFold

import sknet
from sknet import losses, nn, optim
from sknet.optim.schedules import Cosine, WarmUp
from sknet.persistence import describe, differences, digest

VALUES = {
    "none": None,
    "number": 0.1,
    "text": "auto",
    "sizes": (10, 5),
    "weights": {0: 1.0, 1: 2.0},
    "array": np.arange(3),
    "loss": losses.Huber(0.5),
    "optimizer": optim.EMA(optim.Adam(WarmUp(Cosine(0.1), n_steps=3))),
    "groups": optim.Groups({"*.bias": optim.SGD(0.1), "*": optim.Adam()}),
    "module": nn.Sequential(nn.Linear(3, 2), nn.LeakyReLU(0.1)),
    "estimator": sknet.MLPClassifier((3,), optimizer=optim.SGD()),
    "splitter": KFold(3),
    "function": math.sin,
    "lambda's maker": partial(pow, 2),
    "class": nn.ReLU,
    "seed": np.random.RandomState(0),
    "path": Path("a"),
    "dtype": np.dtype("f4"),
    "set": {"b", "a"},
}


@pytest.mark.parametrize("name", VALUES)
def test_descriptions_are_equal_only_for_equal_objects(name):
    value = VALUES[name]
    said = describe(value)
    assert json.loads(json.dumps(said)) == said
    same = clone(value) if hasattr(value, "get_params") and not isinstance(value, type) else value
    assert describe(same) == said
    assert not differences(said, describe(same))
    for other, another in VALUES.items():
        if other != name:
            assert differences(said, describe(another), "it"), other


CHANGES = {
    "a number": (optim.SGD(0.1), optim.SGD(0.2), ["it__lr was 0.1 and is 0.2"]),
    "another class": (optim.SGD(0.1), optim.Adam(), ["it was SGD and is Adam"]),
    "an object for a number": (optim.SGD(0.1), optim.SGD(Cosine(0.1)), ["it__lr was 0.1 and is Cosine"]),
    "nested": (
        optim.EMA(optim.Adam(Cosine(0.1))),
        optim.EMA(optim.Adam(Cosine(0.3))),
        ["it__optimizer__lr__lr was 0.1 and is 0.3"],
    ),
    "two": (
        optim.SGD(0.1, 0.5),
        optim.SGD(0.2, 0.6),
        ["it__lr was 0.1 and is 0.2", "it__momentum was 0.5 and is 0.6"],
    ),
    "a length": ((10, 5), (10,), ["it was (10, 5) and is (10)"]),
    "a key more": ({}, {"a": 1}, ["it__a is 1 and was missing"]),
    "a key less": ({"a": 1}, {}, ["it__a was 1 and is missing now"]),
    "a layer's argument": (
        nn.Sequential(nn.LeakyReLU(0.1)),
        nn.Sequential(nn.LeakyReLU(0.2)),
        ["it__0__negative_slope was 0.1 and is 0.2"],
    ),
    "a function": (math.sin, math.cos, ["it was sin and is cos"]),
    "a splitter": (KFold(3), KFold(4), ["it__n_splits was 3 and is 4"]),
    "a shape": (np.zeros((2, 3)), np.zeros((3, 2)), ["the shape of it was (2, 3) and is (3, 2)"]),
    "a dtype": (np.zeros(2), np.zeros(2, "f4"), ["the dtype of it was 'float64' and is 'float32'"]),
    "values": (np.zeros(2), np.array([0.0, -0.0]), ["it has other values"]),
    "a number for an array": (np.zeros(2), 0.5, ["it was an array of shape (2,) and is 0.5"]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_differs_is_named(name):
    before, now, said = CHANGES[name]
    assert differences(describe(before), describe(now), "it") == said


def test_not_a_number_is_equal_to_itself():
    assert not differences(describe([math.nan])[0], describe(math.nan), "it")


def test_an_object_that_refers_to_itself():
    splitter = KFold()
    splitter.itself = splitter
    assert describe(splitter)["itself"] == {"class": "sklearn.model_selection._split.KFold"}


MATRIX = np.random.RandomState(0).normal(size=(40, 30))
SPARSE = scipy.sparse.random(40, 30, 0.2, format="csr", random_state=0)
SAME = {
    "order": (MATRIX, np.asfortranarray(MATRIX)),
    "a view": (MATRIX[::2, 1:], MATRIX[::2, 1:].copy()),
    "read-only": (MATRIX, np.frombuffer(MATRIX.tobytes()).reshape(40, 30)),
    "sparse array": (SPARSE, scipy.sparse.csr_array(SPARSE)),
    "strings": (np.array(["a", "b"], object), np.array(["a", "b"], object)),
    "number": (np.array(3.0), np.array(3.0)),
    "empty": (np.zeros((0, 3)), np.zeros((0, 3))),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_data_has_the_same_digest(name):
    one, other = SAME[name]
    assert digest(one) == digest(other)


def test_rows_are_hashed_in_chunks(monkeypatch):
    whole = digest(MATRIX)
    monkeypatch.setattr("sknet.persistence._describe.CHUNK", 1000)
    assert digest(np.asfortranarray(MATRIX)) == whole


def test_each_changed_bit_has_another_digest():
    for array in (MATRIX, MATRIX.astype("f4"), np.arange(9), SPARSE):
        values = array.data if scipy.sparse.issparse(array) else array
        seen = {digest(array)["sha256"]}
        for place in range(0, values.nbytes, 97):
            changed = array.copy()
            bits = changed.data if scipy.sparse.issparse(changed) else changed
            bits.reshape(-1).view(np.uint8)[place] ^= 1
            seen.add(digest(changed)["sha256"])
        assert len(seen) == len(range(0, values.nbytes, 97)) + 1


def test_sparse_data_of_other_places_differ():
    moved = SPARSE.copy()
    moved.indices[0] = (moved.indices[0] + 1) % 30
    assert digest(moved) != digest(SPARSE)
    assert differences(digest(SPARSE), digest(SPARSE.tocsc()), "X") == [
        "the format of X was 'csr' and is 'csc'"
    ]
