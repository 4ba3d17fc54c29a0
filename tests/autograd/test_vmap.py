"""vmap equals a loop over samples: every op, nested, with derivatives, compiled."""

import numpy as np
import pytest

import sknet
from sknet import Tensor, grad, no_grad, ops, vmap
from sknet.autograd import hessian, jacobian, jvp, vjp
from sknet.compile import capture, compile
from sknet.device import active, to_device, to_host
from sknet.exceptions import CaptureError, ShapeError
from tests.contracts.checks import weighted
from tests.contracts.rows import ROWS, every_case
from tests.devices import fake

RNG = np.random.default_rng(0)
SIZE = 3
# Draws, and a matrix that is not a tensor: see the tests of messages below.
NOT_MAPPED = {"dropout", "dropout_mask", "sparse_matmul", "uniform_draws"}


def is_mapped(row, case):
    return row.op not in NOT_MAPPED


def differentiable(row, case):
    floats = any(getattr(x, "dtype", None) == np.float64 for x in case.draw())
    return is_mapped(row, case) and row.order > 0 and floats


def stacks(case):
    """Return every operand once per seed, and the positions of the arrays."""
    draws = [case.draw(seed=seed) for seed in range(SIZE)]
    at = [i for i, x in enumerate(draws[0]) if isinstance(x, np.ndarray)]
    return draws, at


def called(row, case, points, at):
    operands = case.draw()
    for i, x in zip(at, points, strict=True):
        operands[i] = x
    return row(*operands, **case.params)


def close(found, expected):
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


def choices(at):
    """Yield the operands that are mapped: all, and each alone."""
    yield (0,) * len(at)
    if len(at) > 1:
        for i in range(len(at)):
            yield tuple(0 if j == i else None for j in range(len(at)))


@every_case(is_mapped)
def test_values(row, case):
    draws, at = stacks(case)
    if not at:
        return
    for axes in choices(at):
        each = [
            [draws[k if axis == 0 else 0][i] for i, axis in zip(at, axes, strict=True)] for k in range(SIZE)
        ]
        expected = np.stack([called(row, case, [Tensor(x) for x in point], at).numpy() for point in each])
        given = [
            np.stack([point[j] for point in each]) if axis == 0 else Tensor(each[0][j])
            for j, axis in enumerate(axes)
        ]
        found = vmap(lambda *points: called(row, case, points, at), in_axes=axes)(*given)
        close(found.numpy(), expected)


@every_case(differentiable)
def test_gradients(row, case):
    """Gradients per sample, inside and outside of vmap; outside also of second order."""
    draws, at = stacks(case)
    floats = [i for i in at if draws[0][i].dtype == np.float64]

    def scalar(draw, points):
        operands = list(draw)
        for i, x in zip(floats, points, strict=True):
            operands[i] = x
        inputs = [Tensor(x) if isinstance(x, np.ndarray) else x for x in operands]
        return weighted(row(*inputs, **case.params))

    # Operands without gradient (indices, conditions) are the same for all.
    draws = [[x if i in floats else draws[0][i] for i, x in enumerate(draw)] for draw in draws]
    positions = tuple(range(len(floats)))
    slopes = [
        grad(lambda *points, draw=draw: scalar(draw, points), positions)(*[draw[i] for i in floats])
        for draw in draws
    ]
    expected = [np.stack([slope[j].numpy() for slope in slopes]) for j in positions]
    given = [np.stack([draw[i] for draw in draws]) for i in floats]

    inside = vmap(grad(lambda *points: scalar(draws[0], points), positions))(*given)
    around = grad(lambda *points: vmap(lambda *p: scalar(draws[0], p))(*points).sum(), positions)(*given)
    for found in (inside, around):
        for one, other in zip(found, expected, strict=True):
            close(one.numpy(), other)


def equations(row, case, draws, at, axes):
    """Return how many operations are applied to a stack."""
    given = [
        np.stack([x[i] for x in draws]) if axis == 0 else draws[0][i]
        for i, axis in zip(at, axes, strict=True)
    ]
    graph = capture(lambda *x: vmap(lambda *y: called(row, case, y, at), in_axes=axes)(*x), *given)
    return len(graph.equations)


def test_nearly_all_are_applied_to_a_stack_at_once():
    """A stack of two takes as many operations as one of three, for some of the operands at least."""
    one_by_one, at_once = set(), set()
    for row in ROWS:
        for case in filter(lambda case, row=row: is_mapped(row, case), row.cases):
            draws, at = stacks(case)
            for axes in choices(at) if at else ():
                counts = {equations(row, case, draws[:size], at, axes) for size in (2, 3)}
                (one_by_one if len(counts) == 2 else at_once).add(row.op)
    cells = {
        "rnn",
        "lstm",
        "gru",
        "recurrence",
        *(f"recurrence_{x}" for x in ("gradient", "outputs", "tape")),
    }
    assert one_by_one - at_once == {*cells, "coded_matmul", "paired_matmul", "searchsorted"}


@pytest.mark.parametrize(
    "indices", [RNG.integers(-5, 5, size=(SIZE, 2, 4)), RNG.integers(-5, 5, size=(SIZE, 3))]
)
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_of_tables_that_differ_are_taken_at_once_where_indices_wrap_around(indices, axis, fake_device):
    """Each has rows of its own, and gradients with respect to them; only the first axis is joined."""
    tables = RNG.standard_normal((SIZE, 5, 5, 2))

    def slopes(table, at):
        return grad(lambda x: (ops.take(x, at, axis) ** 2).sum())(table)

    for function in (lambda table, at: ops.take(table, at, axis), slopes):
        expected = np.stack([function(*each).numpy() for each in zip(tables, indices, strict=True)])
        with active(fake_device):
            given = [to_device(x, fake_device) for x in (tables, indices)]
            with fake.counted() as few:
                found = vmap(function)(*given)
            with fake.counted() as more:
                vmap(function)(*[to_device(np.concatenate([to_host(x)] * 3), fake_device) for x in given])
        close(found.numpy(), expected)
        assert axis or few.launches == more.launches


# -- axes and trees ---------------------------------------------------------------------------


class TestAxes:
    @pytest.mark.parametrize("in_axis", [0, 1, 2, -1, -3])
    @pytest.mark.parametrize("out_axis", [0, 1, -1])
    def test_any_axis(self, in_axis, out_axis):
        x = RNG.standard_normal((3, 4, 5))
        found = vmap(lambda v: ops.cumulative_sum(v, 0), in_axis, out_axis)(x).numpy()
        expected = np.moveaxis(np.cumsum(np.moveaxis(x, in_axis, 0), 1), 0, out_axis)
        np.testing.assert_allclose(found, expected, rtol=1e-12)

    def test_trees(self):
        params = {"w": RNG.standard_normal((3, 2)), "b": [RNG.standard_normal(3)]}
        x = RNG.standard_normal((2, 3))

        def function(p, x, *, shift):
            return {"y": p["w"] @ x + shift, "rest": (p["b"][0], x.sum())}

        found = vmap(function, ({"w": 0, "b": [0]}, 1))(params, x, shift=1.0)
        np.testing.assert_allclose(found["y"].numpy(), np.einsum("ij,ji->i", params["w"], x) + 1)
        np.testing.assert_array_equal(found["rest"][0].numpy(), params["b"][0])
        np.testing.assert_allclose(found["rest"][1].numpy(), x.sum(0))

    def test_a_result_that_is_the_same_for_all(self):
        y = Tensor([1.0, 2.0])
        found = vmap(lambda x: y, out_axes=1)(np.ones(3))
        np.testing.assert_array_equal(found.numpy(), [[1, 1, 1], [2, 2, 2]])

    def test_an_empty_stack(self):
        assert vmap(lambda x: (x @ x.T).sum(0))(np.ones((0, 2, 3))).shape == (0, 2)
        assert vmap(lambda x, v: ops.searchsorted(x, v))(np.ones((0, 2)), np.ones((0, 3))).shape == (0, 3)


# -- composed ---------------------------------------------------------------------------------


def loss(params, x, y):
    hidden = ops.tanh(x @ params["w"] + params["b"])
    return ((hidden @ params["v"] - y) ** 2).sum()


PARAMS = {"w": RNG.standard_normal((3, 4)), "b": RNG.standard_normal(4), "v": RNG.standard_normal(4)}
X, Y = RNG.standard_normal((6, 3)), RNG.standard_normal(6)


class TestComposed:
    def test_gradients_of_each_sample(self):
        found = vmap(grad(loss), in_axes=(None, 0, 0))(PARAMS, X, Y)
        for i in range(6):
            expected = grad(loss)(PARAMS, X[i], Y[i])
            for name, value in expected.items():
                np.testing.assert_allclose(found[name].numpy()[i], value.numpy(), rtol=1e-11)

    def test_nested(self):
        found = vmap(vmap(lambda x, y: x @ y, (None, 0)), (0, None))(X, X).numpy()
        np.testing.assert_allclose(found, X @ X.T, rtol=1e-12)
        found = vmap(lambda x: vmap(lambda y: (y * x).sum() + y)(x), 1)(X).numpy()
        expected = np.stack([[v * c.sum() + v for v in c] for c in X.T])
        np.testing.assert_allclose(found, expected, rtol=1e-12)

    def test_gradient_of_a_map_of_gradients(self):
        """A penalty on the gradient of each sample."""

        def penalty(params):
            slopes = vmap(grad(loss, 1), in_axes=(None, 0, 0))(params, X, Y)
            return (ops.norm(slopes, axis=-1) ** 2).sum()

        def plain(params):
            parts = [(grad(loss, 1)(params, x, y) ** 2).sum() for x, y in zip(X, Y, strict=True)]
            return sum(parts[1:], start=parts[0])

        found, expected = grad(penalty)(PARAMS), grad(plain)(PARAMS)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name].numpy(), value.numpy(), rtol=1e-9)

    @pytest.mark.parametrize("x", [X[0], X[1]])
    def test_jacobians(self, x):
        def function(x):
            return ops.tanh(x @ Tensor(PARAMS["w"])) * x.sum()

        expected = jacobian(function)(x).numpy()
        value, pullback = vjp(function, Tensor(x))
        [rows] = vmap(pullback)(np.eye(value.size))
        np.testing.assert_allclose(rows.numpy(), expected, rtol=1e-11)
        columns = vmap(lambda v: jvp(function, (Tensor(x),), (v,))[1], out_axes=1)(np.eye(x.size))
        np.testing.assert_allclose(columns.numpy(), expected, rtol=1e-11)

    def test_hessians(self):
        def function(x):
            return (ops.tanh(x) * x.sum()).sum()

        found = vmap(hessian(function))(X).numpy()
        np.testing.assert_allclose(found, np.stack([hessian(function)(x).numpy() for x in X]), rtol=1e-10)

    def test_backward_through_a_map(self):
        w = Tensor(PARAMS["w"], requires_grad=True)
        x = Tensor(X, requires_grad=True)
        (vmap(lambda v: ops.tanh(v @ w))(x) * Tensor(RNG.standard_normal((6, 4)))).sum().backward()
        first = w.grad.numpy().copy(), x.grad.numpy().copy()
        w.grad = x.grad = None
        seed = np.random.default_rng(0)
        assert all(np.isfinite(g).all() for g in first)
        weights = Tensor(seed.standard_normal((6, 4)))
        (vmap(lambda v: ops.tanh(v @ w))(x) * weights).sum().backward()
        mapped = w.grad.numpy().copy(), x.grad.numpy().copy()
        w.grad = x.grad = None
        (ops.tanh(x @ w) * weights).sum().backward()
        np.testing.assert_allclose(mapped[0], w.grad.numpy(), rtol=1e-11)
        np.testing.assert_allclose(mapped[1], x.grad.numpy(), rtol=1e-11)

    def test_tensors_detached_inside_have_no_gradient(self):
        x = Tensor(X, requires_grad=True)

        def function(v):
            with no_grad():
                factor = v * 2.0
            return (v * v.detach() * factor).sum()

        vmap(function)(x).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), 2 * X * X, rtol=1e-12)

    def test_without_recording(self):
        x = Tensor(X, requires_grad=True)
        with no_grad():
            assert not vmap(lambda v: v * 2.0)(x).requires_grad
        assert not vmap(lambda v: v * 2.0)(X).requires_grad

    def test_compiled(self):
        function = vmap(grad(loss), in_axes=(None, 0, 0))
        compiled = compile(function, (PARAMS, X, Y))
        found, expected = compiled(PARAMS, X, Y), function(PARAMS, X, Y)
        for name, value in expected.items():
            np.testing.assert_allclose(np.asarray(found[name]), value.numpy(), rtol=1e-10)

    def test_mapped_over_a_captured_argument_and_a_constant(self):
        weight = Tensor(PARAMS["w"])
        function = vmap(lambda x, s: ops.where(x > 0, x, s) @ weight, in_axes=(0, None))
        compiled = compile(function, (X, np.full((), 0.1)))
        expected = np.where(X > 0, X, 0.5) @ PARAMS["w"]
        np.testing.assert_allclose(np.asarray(compiled(X, np.array(0.5))), expected, rtol=1e-12)

    def test_modules(self):
        network = sknet.nn.Sequential(sknet.nn.Linear(3, 4), sknet.nn.Tanh(), sknet.nn.Linear(4, 2))
        np.testing.assert_allclose(
            vmap(network)(X.astype("float32")).detach().numpy(),
            network(Tensor(X.astype("float32"))).detach().numpy(),
            rtol=1e-5,
        )

    def test_errors_inside_leave_no_state(self):
        with pytest.raises(ZeroDivisionError):
            vmap(lambda x: 1 / 0)(X)
        x = Tensor(np.zeros(2))
        x += 1.0  # which a capture would refuse
        assert vmap(lambda v: v + 1.0)(X).shape == X.shape


# -- messages ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: vmap(lambda x: x, (0, 0))(X), ShapeError, "in_axes has 2 entries for 1 positional"),
        (lambda: vmap(lambda x: x, None)(X), ShapeError, "nothing to map over"),
        (lambda: vmap(lambda x: x, 2)(X), ShapeError, "vmap: axis 2 does not exist in an array with 2 axes"),
        (lambda: vmap(lambda x: x, 0, 3)(X), ShapeError, "vmap: axis 3 does not exist"),
        (lambda: vmap(lambda x, y: x)(X, Y[:2]), ShapeError, r"different lengths .*\{0: 6, 1: 2\}"),
        (
            lambda: vmap(lambda x: x, ({"a": 0},))({"b": X}),
            ShapeError,
            r"expected entries at \['b'\], got \['a'\]",
        ),
        (lambda: vmap(lambda x: "text")(X), ShapeError, "must return tensors, got str"),
        (lambda: vmap(lambda x: x if x.sum() > 0 else -x)(X), CaptureError, "inside a mapped function"),
        (lambda: vmap(lambda x: x.sum().item())(X), CaptureError, "inside a mapped function"),
        (lambda: vmap(lambda x: np.exp(x.numpy()))(X), CaptureError, "inside a mapped function"),
        (lambda: vmap(lambda x: x @ x.T @ Tensor(X))(X), ShapeError, r"matmul: .*"),
        (lambda: vmap(lambda x: x[x > 0])(X), CaptureError, "an index that differs"),
        (lambda: vmap(ops.unique_values)(X), CaptureError, "unique_values"),
        (lambda: vmap(lambda x: x.__iadd__(1.0))(X), CaptureError, "changed in place"),
    ],
)
def test_messages(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_leaked_tensor():
    leaked = []
    vmap(lambda x: leaked.append(x) or x)(X)
    with pytest.raises(CaptureError, match="is used by add after the function has returned"):
        leaked.pop() + 1


def test_shapes_in_messages_are_those_of_one_argument():
    with pytest.raises(ShapeError, match=r"shapes \(3,\) and \(4,\)"):
        vmap(lambda x: x + Tensor(np.ones(4)))(X)
