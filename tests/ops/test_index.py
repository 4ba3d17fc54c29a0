"""Indexing with brackets: duplicates, masks, and indices out of bounds."""

import tracemalloc

import numpy as np
import pytest

from sknet import Tensor, grad
from sknet.autograd import gradcheck
from sknet.compile import compile
from sknet.core import PRIMITIVES
from sknet.device import MetaArray

x = np.arange(12.0).reshape(3, 4)
CIRCULAR = []
CIRCULAR.append(CIRCULAR)
DEEP = ()
for _ in range(3000):
    DEEP = (DEEP,)


class Unreadable:
    """An object whose array cannot be had."""

    def __array__(self, *_, **__):
        raise RuntimeError("no array")


class TestBrackets:
    @pytest.mark.parametrize(
        "index",
        [
            0,
            -1,
            np.int64(1),
            slice(1, None),
            (slice(None), 2),
            (Ellipsis, 0),
            None,
            [2, 0],
            [],
            ([0, 1], [1, 1]),
            np.array([[0, 1], [2, 2]]),
            x > 5,
            (slice(None, None, -1),),
            True,
        ],
    )
    def test_as_in_numpy(self, index):
        np.testing.assert_array_equal(Tensor(x)[index].numpy(), x[index])

    @pytest.mark.parametrize(
        "index",
        [
            (np.array([0, 1]), slice(None), np.array([1, 3])),
            (slice(None), np.array([0, 0]), np.array([1, 1])),
            (np.array([[0], [1]]), None, np.array([0, 2, 2])),
            (np.array([True, False]), slice(None), np.array([1])),
            (slice(None), np.array([True, False, True])),
            (np.array([1, -1]), Ellipsis, -1),
            (Ellipsis, [0, 0, -1]),
            (slice(None, None, -2), Ellipsis, slice(3, 0, -1)),
            (None, Ellipsis, None, 1),
            (0, slice(None), np.array([2, 2])),
            (np.array(1), np.array([0, 0])),
            np.arange(24.0).reshape(2, 3, 4) % 3 == 0,
            np.zeros((2, 3), bool),
            (np.uint8(1), np.array([1, 1], np.uint8)),
            (False, Ellipsis),
        ],
        ids=repr,
    )
    def test_every_kind_and_its_gradient(self, index):
        """An element that is taken twice gets both gradients, as in PyTorch."""
        values = np.arange(24.0).reshape(2, 3, 4)
        expected = values[index]
        np.testing.assert_array_equal(Tensor(values)[index].numpy(), expected)
        weights = np.arange(1.0, 1.0 + expected.size).reshape(expected.shape)
        slope = grad(lambda t: (t[index] * weights).sum())(Tensor(values)).numpy()
        counted = np.zeros_like(values)
        np.add.at(counted, index, weights)
        np.testing.assert_array_equal(slope, counted)
        second = grad(lambda t: (grad(lambda t: (t[index] ** 3).sum())(t)[index]).sum())(Tensor(values))
        assert second.shape == values.shape

    def test_tensors_index(self):
        t = Tensor(x)
        np.testing.assert_array_equal(t[t > 5].numpy(), x[x > 5])
        np.testing.assert_array_equal(t[Tensor([2, 0]), :2].numpy(), x[[2, 0], :2])

    def test_duplicates_get_both_gradients(self):
        slope = grad(lambda t: (t[[0, 0, 2]] * np.array([[1.0], [2.0], [5.0]])).sum())(Tensor(x))
        np.testing.assert_array_equal(slope.numpy()[:, 0], [3.0, 0.0, 5.0])

    def test_a_mask_puts_gradients_back(self):
        slope = grad(lambda t: (t[x > 5] ** 2).sum())(Tensor(x))
        np.testing.assert_array_equal(slope.numpy(), np.where(x > 5, 2 * x, 0))

    @pytest.mark.parametrize(
        ("index", "message"),
        [
            (
                3,
                r"indexing: index 3 is out of bounds for axis 0 .* \(the tensor has shape \(3, 4\)\)",
            ),
            ((0, 0, 0), "indexing: too many indices"),
            ([5], "indexing: index 5 is out of bounds"),
            (np.ones(2, bool), "indexing: boolean index did not match"),
            ("a", "indexing: only integers, slices"),
            (2**63, "indexing: Python int too large"),
            ([0.5], "indexing: arrays used as indices must be of integer"),
            (CIRCULAR, r"indexing: no array can be made of \[\[\.\.\.\]\]"),
            ((0, [[0], [0, 1]]), r"indexing: no array can be made of \[\[0\], \[0, 1\]\]"),
            ((((1,), (1, 2)), 0), "indexing: no array can be made of"),
            ((DEEP,), "indexing: no array can be made of"),
            (Unreadable(), "indexing: no array can be made of"),
        ],
    )
    def test_refused(self, index, message):
        with pytest.raises(IndexError, match=message):
            Tensor(x)[index]
        with pytest.raises(IndexError):
            Tensor(x)[index] = 0.0

    def test_shapes_are_numpys_and_nothing_is_copied_for_them(self):
        numbers, mask = np.array([[0], [2]]), np.array([True, False, True])
        indices = [
            *([0, 2], numbers, mask, True, np.array(1), (mask, [0, 1]), (numbers, ..., [0, 1, 1])),
            *((None, [0, 1]), ([0, 1], None, slice(1, 3), numbers), (slice(None), numbers, ..., None)),
            *((..., [0]), (0, slice(None), numbers), (np.ones((3, 4), bool), 0), np.ones((3, 4, 3), bool)),
        ]
        rule, array = PRIMITIVES["getitem"].shape, np.zeros((3, 4, 3))
        for index in indices:
            assert rule(array, index=index) == (array[index].shape, array.dtype), index
        tracemalloc.start()
        assert rule(MetaArray((3, 2**40), "f4"), index=[0, 2])[0] == (2, 2**40)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1 << 20

    def test_tensors_of_integers_take_rows(self):
        t = Tensor(x)
        for index in (np.array([2, 0, 2]), np.array([[0], [-1]]), np.array(1), np.zeros(0, int)):
            np.testing.assert_array_equal(t[Tensor(index)].numpy(), x[index])
        slope = grad(lambda t: (t[Tensor([0, 0, 2])] * np.array([[1.0], [2.0], [5.0]])).sum())(t)
        np.testing.assert_array_equal(slope.numpy()[:, 0], [3.0, 0.0, 5.0])
        with pytest.raises(IndexError, match=r"take: cannot compute .* index 3 is out of bounds"):
            t[Tensor([3])]
        with pytest.raises(IndexError, match="indexing: too many indices"):
            Tensor(1.0)[Tensor([0])]

    def test_iteration_ends(self):
        rows = list(Tensor(x))
        assert [row.shape for row in rows] == [(4,)] * 3
        first, *_, last = Tensor([1.0, 2.0, 3.0])
        assert (first.item(), last.item()) == (1.0, 3.0)
        with pytest.raises(TypeError, match="a 0-d tensor has no length"):
            iter(Tensor(1.0))


class TestAssignment:
    """If an index repeats an element, the last assignment wins, as in NumPy."""

    SHAPE = (4, 3, 2)

    @staticmethod
    def axis_index(rng, n, kind, shape):
        """Return an index of one axis."""
        if kind == "integer":
            return int(rng.integers(-n, n))
        if kind == "slice":
            return [slice(None), slice(1, None), slice(None, None, -1), slice(None, -1, 2)][rng.integers(4)]
        if kind == "mask":
            return rng.random(n) < 0.6
        array = rng.integers(-n, n, [shape, shape[-1:], (1,) * len(shape)][rng.integers(3)])
        return array.tolist() if rng.random() < 0.3 else array

    def draw(self, rng):
        """Return a random index of SHAPE."""
        how = rng.integers(5)
        if how == 0:
            return rng.random(self.SHAPE[: rng.integers(1, 4)]) < 0.4
        if how == 1:
            return rng.integers(-4, 4, [(5,), (2, 3), (), (0,)][rng.integers(4)])
        shape = [(3,), (2, 2), (2, 1)][rng.integers(3)]
        kinds = ["integer", "slice", "array", "array"] if how < 4 else ["slice", "mask"]
        axes = self.SHAPE[: rng.integers(1, 4)]
        index = [self.axis_index(rng, n, kinds[rng.integers(len(kinds))], shape) for n in axes]
        if sum(isinstance(part, np.ndarray) and part.dtype == bool for part in index) > 1:
            index = index[:1]
        if rng.random() < 0.3:
            index.insert(int(rng.integers(len(index) + 1)), None)
        if rng.random() < 0.3:
            index.append(Ellipsis)
        return tuple(index)

    @staticmethod
    def value_shape(rng, place):
        """Return a shape that broadcasts to the indexed part's, or has leading ones that NumPy drops."""
        shape = [1 if rng.random() < 0.3 else n for n in place]
        shape = shape[rng.integers(len(shape) + 1) :] if rng.random() < 0.5 else shape
        return tuple(shape)

    def test_gradients_of_random_assignments(self):
        rng, repeated = np.random.default_rng(0), 0
        for _ in range(400):
            index = self.draw(rng)
            place = np.zeros(self.SHAPE)[index].shape
            base, value = rng.standard_normal(self.SHAPE), rng.standard_normal(self.value_shape(rng, place))
            weight = rng.standard_normal(self.SHAPE)

            def assigned(x, v, index=index):
                y = x * 1.0
                y[index] = v
                return y

            def loss(x, v, weight=weight, assigned=assigned):
                y = assigned(x, v)
                return (y * y * weight).sum()

            twin = base.copy()
            twin[index] = value
            np.testing.assert_array_equal(
                assigned(Tensor(base, requires_grad=True), Tensor(value)).numpy(), twin
            )
            got = grad(loss, (0, 1))(Tensor(base), Tensor(value))
            for i, (g, at) in enumerate(zip(got, (base, value), strict=True)):
                expected = np.empty(at.size)
                for j in range(at.size):  # the loss is quadratic, so the difference is exact
                    step = np.zeros(at.size)
                    step[j] = 0.5
                    sides = [
                        loss(*[a + sign * step.reshape(a.shape) if a is at else a for a in (base, value)])
                        for sign in (1, -1)
                    ]
                    expected[j] = sides[0] - sides[1]
                np.testing.assert_allclose(
                    g.numpy(), expected.reshape(at.shape), atol=1e-12, err_msg=f"operand {i}, index {index}"
                )
            named = np.arange(24).reshape(self.SHAPE)[index]
            repeated += named.size > np.unique(named).size
        assert repeated > 80

    def test_the_example(self):
        v = Tensor([1.0, 2.0], requires_grad=True)
        x = Tensor(np.zeros(3))
        x[[0, -3]] = v
        assert x.numpy().tolist() == [2.0, 0.0, 0.0]
        x.sum().backward()
        assert v.grad.numpy().tolist() == [0.0, 1.0]

    def test_second_derivatives_and_captures(self):
        index = (np.array([0, 0, 2]), slice(None), np.array([1, 1, 0]))

        def slope(v):
            def loss(v):
                y = v.sum() * Tensor(np.ones(self.SHAPE))
                y[index] = v * v * v
                return (y * y).sum()

            return grad(loss)(v)

        v = np.linspace(0.5, 1.5, 9).reshape(3, 3)
        assert gradcheck(slope, [v])
        compiled = compile(slope, (v,))(v)
        np.testing.assert_allclose(compiled, slope(Tensor(v)).numpy(), rtol=1e-12)

    def test_adding_at_duplicates(self):
        """``x[index] += v`` takes, adds and assigns: for duplicates only one addition stays, as in NumPy."""
        v, x, twin = Tensor([1.0, 2.0], requires_grad=True), Tensor(np.zeros(3)), np.zeros(3)
        x[[1, 1]] += v
        twin[[1, 1]] += v.numpy()
        np.testing.assert_array_equal(x.numpy(), twin)
        x.sum().backward()
        assert v.grad.numpy().tolist() == [0.0, 1.0]

    def test_on_another_device(self, fake_device):
        v = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True, device=fake_device)
        x = Tensor(np.zeros((3, 2)), device=fake_device)
        x[[2, 2]] = v
        x.sum().backward()
        assert v.grad.numpy().tolist() == [[0.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize("index", [[2, 2, 2], [0], [], [[1, 1]]])
@pytest.mark.parametrize("shape", [(3, 0), (3, 0, 2), (3, 2, 0)])
def test_gradients_of_rows_without_elements(index, shape, fake_device):
    for device in ("cpu", fake_device):
        x = Tensor(np.zeros(shape), requires_grad=True, device=device)
        (2 * x[np.array(index, dtype=np.int64)]).sum().backward()
        assert x.grad.shape == shape
        assert x.grad.device == x.device
