"""CategoryEmbeddings: rows of its tables, unseen levels, default lengths, messages."""

import numpy as np
import pytest

from sknet import Model, nn, ops
from sknet.exceptions import DtypeError, InvalidParameterError, ShapeError
from sknet.optim import Adam

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("shape", [(6,), (2, 3), (), (0,)])
def test_each_column_is_a_row_of_its_table(shape, dtype):
    layer = nn.CategoryEmbeddings([3, 1, 7], [2, 1, 4]).initialize(0)
    x = np.stack([RNG.integers(0, n, size=shape) for n in (3, 1, 7)], axis=-1).astype(dtype)
    tables = [embedding.weight.numpy() for embedding in layer.embeddings]
    expected = np.concatenate([table[x[..., i]] for i, table in enumerate(tables)], axis=-1)
    found = layer(x)
    np.testing.assert_array_equal(found.numpy(), expected)
    assert layer.out_features == 7
    ops.sum(found).backward()
    for i, (embedding, n) in enumerate(zip(layer.embeddings, (3, 1, 7), strict=True)):
        counts = np.bincount(x[..., i].ravel().astype(int), minlength=n + 1)
        np.testing.assert_array_equal(embedding.weight.grad.numpy()[:, 0], counts)


@pytest.mark.parametrize("unseen", [-1, -100, 3, 10**6, np.iinfo(np.int64).min, np.iinfo(np.int64).max])
def test_unseen_levels_have_their_own_vector(unseen):
    layer = nn.CategoryEmbeddings([3, 5], 4).initialize(0)
    out = layer(np.array([[unseen, 2]])).numpy()
    np.testing.assert_array_equal(out[0, :4], layer.embeddings[0].weight.numpy()[3])
    np.testing.assert_array_equal(out[0, 4:], layer.embeddings[1].weight.numpy()[2])


@pytest.mark.parametrize("n", [1, 2, 10, 100, 50_000, 10**6])
def test_lengths_by_the_rule(n):
    expected = min(600, int(np.round(1.6 * n**0.56)))
    assert nn.CategoryEmbeddings([n], device="meta").out_features == expected


def test_it_learns():
    x = np.random.default_rng(0).integers(0, 4, size=(300, 2))
    y = (x[:, :1] == x[:, 1:]).astype(np.float32)
    net = nn.Sequential(nn.CategoryEmbeddings([4, 4], 6), nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 1))
    model = Model(net, optimizer=Adam(0.01), random_state=0)
    model.fit(x, y, epochs=60, batch_size=50)
    assert np.mean((model.predict(x) - y) ** 2) < 0.02


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "'cardinalities' parameter .* at least one"),
        (([2, 0],), "'cardinalities' parameter"),
        (([2, 1.5],), "'cardinalities' parameter"),
        ((3,), "'cardinalities' parameter"),
        (([2, 2], 0), "'embedding_dim' parameter"),
        (([2, 2], [3]), "'embedding_dim' parameter .* for each of 2 columns"),
        (([2, 2], [3, -1]), "'embedding_dim' parameter"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        nn.CategoryEmbeddings(*arguments)


def test_wrong_input():
    with pytest.raises(DtypeError, match=r"CategoryEmbeddings.*expected integers, got float64"):
        nn.CategoryEmbeddings([2])([[0.5]])
    with pytest.raises(ShapeError, match=r"expected an input of shape \(\.\.\., 2\), got \(4, 3\)"):
        nn.CategoryEmbeddings([2, 2])(np.ones((4, 3), int))
