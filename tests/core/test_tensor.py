"""Tensor: construction, Python's operators, and errors."""

import copy
import operator
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse

from sknet import Tensor, no_grad
from sknet.core import as_operand, as_tensor, gradients
from sknet.device import Device, MetaArray
from sknet.exceptions import DeviceError, DtypeError, GradientError, ShapeError


class TestConstruction:
    @pytest.mark.parametrize(
        ("data", "dtype"),
        [
            (1, "int64"),
            (1.0, "float64"),
            (True, "bool"),
            ([1, 2.0], "float64"),
            ([[True]], "bool"),
            ([], "float64"),
            (np.float32(1), "float32"),
            (np.ones(2, "float16"), "float16"),
            (np.ones(2, "uint8"), "uint8"),
        ],
    )
    def test_keeps_the_dtype(self, data, dtype):
        assert Tensor(data).dtype == dtype
        assert Tensor(data).shape == np.shape(data)
        assert type(Tensor(data).data) is np.ndarray

    def test_converts(self):
        assert Tensor([1.0], dtype="float32").dtype == "float32"
        assert Tensor([1, 2], dtype=np.float64).numpy().tolist() == [1.0, 2.0]

    def test_does_not_copy(self):
        x = np.ones(3)
        assert Tensor(x).data is x
        assert Tensor(x).numpy() is x
        assert Tensor(Tensor(x)).data is x
        assert as_tensor(t := Tensor(x)) is t

    @pytest.mark.parametrize("kind", [np.matrix, np.memmap])
    def test_subclasses_of_arrays_become_arrays(self, kind, tmp_path):
        x = np.asarray([[1.0, 2.0]])
        special = (
            x.view(np.matrix)
            if kind is np.matrix
            else np.memmap(tmp_path / "x", "float64", "w+", shape=(1, 2))
        )
        t = Tensor(special)
        assert type(t.data) is np.ndarray
        assert type((t * t).data) is np.ndarray

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            ("a", "a tensor holds booleans, integers or real numbers, got dtype <U1"),
            (None, "real numbers, got dtype object"),
            ([1j], "real numbers, got dtype complex128"),
            (np.array(["2020"], "datetime64"), "real numbers, got dtype datetime64"),
            ([[1.0], [1.0, 2.0]], "a tensor needs a rectangular array of numbers: setting an array element"),
            ((Tensor([1.0]), (Tensor([1.0, 2.0]),)), r"expected one array, got a tuple of 2 .* returns="),
            ([Tensor([1.0], requires_grad=True)], r"got a list of 1 with tensors in it: .* ops\.stack"),
        ],
    )
    def test_refuses(self, data, message):
        with pytest.raises(DtypeError, match=message):
            Tensor(data)

    def test_refuses_other_dtypes(self):
        with pytest.raises(DtypeError, match="real numbers, got dtype complex128"):
            Tensor([1.0], dtype=complex)
        with pytest.raises(DtypeError, match="real numbers, got dtype object"):
            Tensor([1.0], dtype=object)

    def test_attributes(self):
        t = Tensor(np.ones((2, 3), "float32"))
        assert (t.shape, t.ndim, t.size, t.dtype, len(t)) == ((2, 3), 2, 6, "float32", 2)
        assert t.device == Device("cpu")
        assert t.is_leaf
        assert not t.requires_grad
        assert t.grad is None


class TestRepr:
    def test_shows_values_dtype_and_gradient(self):
        assert repr(Tensor([1.0, 2.0])) == "Tensor([1., 2.], dtype=float64)"
        assert repr(Tensor(1.5, requires_grad=True)) == "Tensor(1.5, dtype=float64, requires_grad=True)"
        assert (
            repr(Tensor([1.0], requires_grad=True) * 2) == "Tensor([2.], dtype=float64, requires_grad=True)"
        )

    def test_shows_the_device(self, fake_device):
        assert repr(Tensor([1], device=fake_device)) == "Tensor([1], dtype=int64, device='fake:0')"
        assert repr(Tensor([1.0], device="meta")) == "Tensor(shape=(1,), dtype=float64, device='meta')"

    @pytest.mark.parametrize(
        "shape", [(2,), (40,), (2, 2), (3, 40), (2, 2, 3), (2, 1, 2, 2), (60, 60), (0, 2)]
    )
    @pytest.mark.parametrize("dtype", ["float32", "int16", "bool"])
    def test_rows_are_aligned_as_those_of_an_array(self, shape, dtype):
        values = (1e3 * np.random.default_rng(0).normal(size=shape)).astype(dtype)
        # NumPy begins with the name of the class, and says the dtype in its own way, where it has to.
        named = repr(values.view(type("Tensor", (np.ndarray,), {}))).rpartition("]")[0]
        assert repr(Tensor(values)) == f"{named}], dtype={dtype})"


class TestSingleElements:
    def test_item(self):
        assert Tensor([[3]]).item() == 3
        assert isinstance(Tensor(3).item(), int)
        assert isinstance(Tensor(np.float32(3)).item(), float)
        assert (float(Tensor([2.5])), int(Tensor(2.5)), bool(Tensor([0.0]))) == (2.5, 2, False)

    def test_items_of_several_elements(self):
        t = Tensor([1.0, 2.0])
        for convert in (float, int, Tensor.item):
            with pytest.raises(
                ValueError, match=r"item\(\) needs a tensor with one element, got shape \(2,\)"
            ):
                convert(t)
        with pytest.raises(
            ValueError, match=r"the truth value of a tensor of shape \(2,\) is ambiguous: take one element"
        ):
            bool(t == t)

    def test_length_of_a_number(self):
        with pytest.raises(TypeError, match="a 0-d tensor has no length"):
            len(Tensor(1.0))


BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne"]


@pytest.mark.parametrize("name", BINARY)
class TestOperators:
    def test_every_kind_of_operand_on_either_side(self, name):
        function = getattr(operator, name)
        x = np.array([1.0, 2.0, 3.0], "float32")
        for other in (x[::-1].copy(), 2, 2.0, np.float32(2), np.float64(2), np.int64(2), True):
            for out, expected in (
                (function(Tensor(x), other), function(x, other)),
                (function(other, Tensor(x)), function(other, x)),
            ):
                assert isinstance(out, Tensor)
                np.testing.assert_allclose(out.numpy(), expected, rtol=1e-6)
                assert out.dtype in ("bool", "float32"), other
        out = function(Tensor(x), Tensor(x))
        np.testing.assert_array_equal(out.numpy(), function(x, x))

    def test_reflected_gradients(self, name):
        if name in ("lt", "le", "gt", "ge", "eq", "ne"):
            assert not getattr(operator, name)(Tensor(1.0, requires_grad=True), 2.0).requires_grad
            return
        function = getattr(operator, name)
        x = Tensor(3.0, requires_grad=True)
        for y in (function(2.0, x), function(np.float64(2.0), x), function(np.array(2.0), x)):
            x.grad = None
            y.backward()
            step = 1e-6
            slope = (function(2.0, 3.0 + step) - function(2.0, 3.0 - step)) / (2 * step)
            assert x.grad.item() == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("name", ["and_", "or_", "xor", "lshift", "rshift"])
def test_operators_on_bits(name):
    function = getattr(operator, name)
    x, y = np.array([1, 2, 3]), np.array([3, 0, 2])
    for a, b in ((x, y), (x, 2), (2, y), (x > 1, y > 1), (x > 1, True)):
        expected = function(a, b)
        for out in (function(Tensor(a), b), function(a, Tensor(b))):
            if "shift" not in name or out.dtype != "int8":
                np.testing.assert_array_equal(out.numpy(), expected)
                assert out.dtype == expected.dtype


def test_operators_of_one_operand():
    x = Tensor([-1.5, 2.0])
    np.testing.assert_array_equal((+x).numpy(), x.numpy())
    assert +x is not x
    assert (~Tensor([0, 5])).numpy().tolist() == [-1, -6]
    assert (~(x > 0)).numpy().tolist() == [True, False]
    with pytest.raises(DtypeError, match=r"bitwise_invert: not defined for float64: use \.astype"):
        _ = ~x


class TestMethods:
    x = np.array([[0.5, 2.0, 3.0], [1.0, 4.0, 0.25]])

    def test_as_in_numpy(self):
        t = Tensor(self.x)
        for name in ("exp", "log", "sqrt"):
            np.testing.assert_array_equal(getattr(t, name)().numpy(), getattr(np, name)(self.x))
        for name in ("sum", "mean", "max", "min"):
            for arguments in ({}, {"axis": 0}, {"axis": (0, 1)}, {"axis": -1, "keepdims": True}):
                expected = getattr(np, name)(self.x, **arguments)
                np.testing.assert_allclose(getattr(t, name)(**arguments).numpy(), expected, rtol=1e-15)
        np.testing.assert_array_equal((-t).numpy(), -self.x)
        np.testing.assert_array_equal(abs(-t).numpy(), self.x)
        np.testing.assert_array_equal(t.T.numpy(), self.x.T)
        for shape in ((3, 2), (-1,), (2, 3, 1)):
            assert t.reshape(*shape).shape == t.reshape(shape).shape == t.reshape(list(shape)).shape
        assert t.permute_dims(1, 0).shape == t.permute_dims((1, 0)).shape == (3, 2)
        assert t.astype("float32").dtype == "float32"

    def test_is_found_in_a_dict_by_identity(self):
        a, b = Tensor([1.0]), Tensor([1.0])
        assert {a: 1, b: 2}[a] == 1

    def test_unknown_operands_raise(self):
        for other in (None, "x", object()):
            with pytest.raises(DtypeError, match="a tensor holds booleans, integers or real numbers"):
                Tensor([1.0]) + other


class TestNumpy:
    def test_conversion(self):
        t = Tensor([1.0, 2.0])
        assert np.asarray(t) is t.data or np.shares_memory(np.asarray(t), t.data)
        assert np.asarray(t, dtype="float32").dtype == "float32"
        assert not np.shares_memory(np.array(t, copy=True), t.data)
        np.testing.assert_array_equal(np.stack([Tensor([1.0]), Tensor([2.0])]), [[1.0], [2.0]])

    def test_arrays_on_the_left(self):
        x = Tensor([1.0, 2.0], requires_grad=True)
        matrix = np.array([[1.0, 2.0], [3.0, 4.0]])
        for out in (matrix * x, matrix @ x, matrix + x, matrix[0] - x, matrix / x, np.float64(3) * x):
            assert isinstance(out, Tensor)
            assert out.requires_grad

    @pytest.mark.parametrize(
        "kind", [scipy.sparse.csr_array, scipy.sparse.coo_array, scipy.sparse.csc_matrix]
    )
    def test_a_gradient_is_not_lost_to_an_array(self, kind):
        x = Tensor([1.0, 2.0], requires_grad=True)
        matrix = kind(np.eye(2))
        message = (
            r"of shape \(2,\) that requires a gradient is converted to an array, .*ops.matmul takes a sparse"
        )
        for convert in (lambda: matrix @ x, lambda: np.asarray(x), lambda: np.hstack([x, x])):
            with pytest.raises(GradientError, match=message):
                convert()
        with no_grad():
            np.testing.assert_array_equal(matrix @ x, [1.0, 2.0])
        np.testing.assert_array_equal(matrix @ x.detach(), [1.0, 2.0])

    def test_not_from_another_device(self, fake_device):
        t = Tensor([1.0], device=fake_device)
        with pytest.raises(
            TypeError, match=r"a tensor on device 'fake:0' is not converted implicitly: use .numpy\(\)"
        ):
            np.asarray(t)
        assert t.numpy().tolist() == [1.0]

    @pytest.mark.parametrize("scalar", [np.float32(2), np.float64(2), np.int8(2), np.bool_(True), 2, True])
    def test_scalars_become_pythons(self, scalar):
        assert type(as_operand(scalar)) in (bool, int, float)

    def test_arrays_without_axes_are_not_scalars(self):
        assert (Tensor(np.ones(2, "float32")) * np.array(2.0)).dtype == "float64"


class TestGrad:
    @pytest.mark.parametrize(
        ("value", "error", "message"),
        [
            (Tensor([1.0]), ShapeError, r"grad must have the tensor's shape \(2,\), got \(1,\)"),
            (Tensor(1.0), ShapeError, r"grad must have the tensor's shape \(2,\), got \(\)"),
            (Tensor([[1.0, 1.0]]), ShapeError, r"shape \(2,\), got \(1, 2\)"),
            (
                Tensor([1.0, 1.0], dtype="float32"),
                DtypeError,
                r"grad must have the tensor's dtype float64, got float32: use .astype\('float64'\)",
            ),
            (Tensor([1, 1]), DtypeError, "grad must have the tensor's dtype float64, got int64"),
            (np.ones(2), TypeError, r"grad must be a Tensor or None, got ndarray: use Tensor\(...\)"),
            (0, TypeError, "grad must be a Tensor or None, got int"),
            (
                Tensor([1.0, 1.0], device="meta"),
                DeviceError,
                "grad must be on the tensor's device 'cpu', got 'meta': use .to",
            ),
        ],
    )
    def test_misfits_raise_at_once(self, value, error, message):
        x = Tensor([1.0, 2.0], requires_grad=True)
        x.grad = before = Tensor([3.0, 4.0])
        with pytest.raises(error, match=message):
            x.grad = value
        assert x.grad is before

    def test_an_assigned_gradient_accumulates(self):
        x = Tensor([1.0, 2.0], requires_grad=True)
        x.grad = Tensor([3.0, 4.0])
        (x * 2).sum().backward()
        assert x.grad.numpy().tolist() == [5.0, 6.0]
        x.grad = None
        (x * 2).sum().backward()
        assert x.grad.numpy().tolist() == [2.0, 2.0]

    def test_threads_lose_no_contribution(self):
        """Many threads each add their own number to the gradient of one leaf, many times."""
        x = Tensor(np.zeros(100_000), requires_grad=True)  # long enough for threads to change in an addition
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda i: [(x * i).sum().backward() for _ in range(20)], range(8)))
        assert set(x.grad.numpy().tolist()) == {20.0 * sum(range(8))}


class TestCopies:
    def test_deepcopy(self):
        t = Tensor([1.0, 2.0], requires_grad=True)
        t.grad = Tensor([1.0, 1.0])
        twin = copy.deepcopy({"a": t, "b": t})
        assert twin["a"] is twin["b"]
        assert twin["a"].requires_grad
        assert twin["a"].grad is None
        assert not np.shares_memory(twin["a"].data, t.data)
        (twin["a"] * 2).sum().backward()
        assert twin["a"].grad.numpy().tolist() == [2.0, 2.0]

    def test_pickle(self, fake_device):
        for device in ("cpu", fake_device):
            t = pickle.loads(pickle.dumps(Tensor([1.0, 2.0], requires_grad=True, device=device)))
            assert t.numpy().tolist() == [1.0, 2.0]
            assert t.requires_grad
            assert t.device == Device("cpu")  # also where there is no such device

    def test_of_results_raise(self):
        y = Tensor([1.0], requires_grad=True) * 2
        with pytest.raises(GradientError, match=r"only leaves can be copied deeply: use .detach\(\) first"):
            copy.deepcopy(y)
        with pytest.raises(GradientError, match=r"only leaves can be pickled: use .detach\(\) first"):
            pickle.dumps(y)

    def test_meta(self):
        assert copy.deepcopy(Tensor(MetaArray((2,), "float32"))).shape == (2,)


class TestRequiresGrad:
    def test_of_integers(self):
        with pytest.raises(
            DtypeError, match=r"only floating-point tensors have gradients, this one is int64: use \.astype"
        ):
            Tensor([1], requires_grad=True)

    def test_is_set_on_leaves_only(self):
        x = Tensor([1.0], requires_grad=True)
        y = x * 2
        with pytest.raises(
            GradientError, match=r"on leaves only, and this tensor is the result of 'multiply': use \.detach"
        ):
            y.requires_grad = False
        y.requires_grad = True  # as it is
        assert not y.is_leaf
        leaf = y.detach()
        leaf.requires_grad = True
        assert leaf.is_leaf
        assert leaf.data is y.data

    def test_set_again_it_stays_on_the_tape(self):
        x = Tensor([3.0], requires_grad=True)
        y = x * 2
        x.requires_grad = True
        y.backward()
        assert x.grad.item() == 2.0

    def test_can_be_removed(self):
        x = Tensor([3.0], requires_grad=True)
        x.requires_grad = False
        assert not (x * 2).requires_grad

    @pytest.mark.parametrize("seed", range(20))
    def test_removed_and_set_again_it_is_the_same_leaf(self, seed):
        """Recordings before, between and after contribute to the leaf's gradient, as in PyTorch."""
        rng = np.random.default_rng(seed)
        torch = pytest.importorskip("torch")
        xs = [Tensor([float(i + 1)], requires_grad=i == 0 or bool(rng.integers(2))) for i in range(3)]
        theirs = [torch.tensor([float(i + 1)], requires_grad=x.requires_grad) for i, x in enumerate(xs)]
        y, z = Tensor([0.0], requires_grad=True) * 1, torch.zeros(1, requires_grad=True) * 1
        for factor in range(1, 12):
            i, mode = int(rng.integers(3)), bool(rng.integers(2))
            if rng.random() < 0.5:
                xs[i].requires_grad = theirs[i].requires_grad = mode
            y, z = y + xs[i] * xs[i] * factor, z + theirs[i] * theirs[i] * factor
        xs[0].requires_grad = theirs[0].requires_grad = True
        learned = [i for i, x in enumerate(xs) if x.requires_grad]
        assert learned == [i for i, x in enumerate(theirs) if x.requires_grad]
        found = gradients(y, [xs[i] for i in learned])
        expected = torch.autograd.grad(
            z, [theirs[i] for i in learned], allow_unused=True, retain_graph=True, materialize_grads=True
        )
        assert [g.item() for g in found] == [g.item() for g in expected]
        y.backward()
        z.backward()
        for x, other in zip(xs, theirs, strict=True):
            assert (x.grad is None) == (other.grad is None)
            assert x.grad is None or x.grad.item() == other.grad.item()

    def test_hooks_stay_with_a_temporarily_frozen_leaf(self):
        x = Tensor([3.0], requires_grad=True)
        x.register_hook(lambda gradient: gradient * 10)
        x.requires_grad = False
        x.requires_grad = True
        (x * 2).backward()
        assert x.grad.item() == 20.0

    def test_results_inherit_it(self):
        x = Tensor([3.0], requires_grad=True)
        assert (x + Tensor([1.0])).requires_grad
        assert not (x > 0).requires_grad
        assert not (Tensor([1.0]) + 1).requires_grad
        assert not x.detach().requires_grad
        with no_grad():
            assert not (x + 1).requires_grad


class TestDevices:
    def test_to(self, fake_device):
        x = Tensor([1.0, 2.0], requires_grad=True)
        y = x.to(fake_device)
        assert y.device == fake_device
        assert not y.requires_grad
        assert y.to("cpu").numpy().tolist() == [1.0, 2.0]
        assert x.to("cpu").data is x.data

    def test_mixing_raises(self, fake_device):
        x, y = Tensor([1.0]), Tensor([1.0], device=fake_device)
        message = r"add: operands live on different devices \['cpu', 'fake:0'\]; move them to one with .to"
        for call in (lambda: x + y, lambda: y + x, lambda: y + np.ones(1), lambda: np.ones(1) + y):
            with pytest.raises(DeviceError, match=message):
                call()
        with pytest.raises(
            DeviceError, match=r"multiply: operands live on different devices \['fake:0', 'fake:1'\]"
        ):
            y * Tensor([1.0], device="fake:1")
        with pytest.raises(DeviceError, match=r"add: operands live on different devices \['cpu', 'meta'\]"):
            x + Tensor([1.0], device="meta")
        with pytest.raises(DeviceError, match=r"add: operands live on different devices \['cpu', 'meta'\]"):
            Tensor([1.0], device="meta") + x

    def test_numbers_work_on_any_device(self, fake_device):
        y = Tensor(np.ones(2, "float32"), device=fake_device)
        for out in (y + 1, 1.0 + y, np.float64(1) + y, y * True):
            assert out.device == fake_device
            assert out.dtype == "float32"

    def test_on_meta_shapes_are_known_and_values_are_not(self):
        x = Tensor([[1.0, 2.0]], device="meta")
        y = (x.T @ x).sum(0) / 3
        assert (y.shape, y.dtype) == ((2,), "float64")
        for read in (lambda: y.numpy(), lambda: y.sum().item(), lambda: bool(y.sum() > 0)):
            with pytest.raises(
                DeviceError,
                match=r"a meta array has no data: got shape .* on device 'meta'; compute on a real",
            ):
                read()
        with pytest.raises(ShapeError, match="do not fit"):
            x @ x

    def test_meta_to_another_dtype(self):
        assert Tensor(MetaArray((2,), "float32"), dtype="float64").dtype == "float64"


def test_a_leaf_that_is_frozen_and_unfrozen_is_the_one_on_the_tape():
    x, y = Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0, 4.0], requires_grad=True)
    loss = (x * x * y).sum()
    for _ in range(2):
        x.requires_grad = False
        x.requires_grad = True
    np.testing.assert_array_equal(gradients(loss, [x])[0].numpy(), [6.0, 16.0])
    loss.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [6.0, 16.0])
    assert (x * 2).requires_grad


def test_a_leaf_is_made_without_a_search_for_similar_names(monkeypatch):
    def fail(*args):
        raise AssertionError("looked up names")

    monkeypatch.setattr("sknet.core._methods.suggestion", fail)
    x = Tensor([1.0], requires_grad=True)
    x.detach().requires_grad = True


def test_a_leaf_changed_on_the_tape_is_no_longer_the_same_leaf():
    x, y = Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0, 4.0], requires_grad=True)
    loss = (x * x).sum()
    x.requires_grad = False
    x *= y
    x.detach_()
    x.requires_grad = True
    np.testing.assert_array_equal(gradients(loss, [x])[0].numpy(), [0.0, 0.0])
