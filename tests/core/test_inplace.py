"""In-place changes: writes to memory, recorded changes, and errors."""

import gc
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import sknet
from sknet import Tensor, no_grad, ops
from sknet.autograd import gradcheck
from sknet.compile import capture
from sknet.core import gradients, note_write
from sknet.exceptions import CaptureError, DeviceError, DtypeError, GradientError, ShapeError


def leaf(*values):
    return Tensor(np.array(values), requires_grad=True)


class TestMemory:
    """Off the tape a change is made in the tensor's memory."""

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            (lambda x: x.__iadd__(1), [2.0, 3.0, 5.0]),
            (lambda x: x.__isub__(np.array([1.0, 0.0, 1.0])), [0.0, 2.0, 3.0]),
            (lambda x: x.__imul__(x), [1.0, 4.0, 16.0]),
            (lambda x: x.__itruediv__(Tensor(2.0)), [0.5, 1.0, 2.0]),
            (lambda x: x.__ipow__(2), [1.0, 4.0, 16.0]),
        ],
    )
    def test_operators(self, change, expected):
        array = np.array([1.0, 2.0, 4.0])
        x = Tensor(array)
        assert change(x) is x
        assert x.data is array
        assert array.tolist() == expected

    @pytest.mark.parametrize(
        ("index", "value"),
        [
            (0, 5),
            (1, [1.0, 2.0, 3.0]),
            (slice(None), np.arange(3.0)),
            ((slice(None), [0, 2]), 7.0),
            (np.array([[True, False, True], [False, False, True]]), -1.0),
            ((Ellipsis, -1), Tensor([8.0, 9.0])),
            (Tensor([1, 0]), np.float32(3)),
            (0, [[1.0, 2.0, 3.0]]),
        ],
    )
    def test_index(self, index, value):
        x, expected = Tensor(np.zeros((2, 3))), np.zeros((2, 3))
        x[index] = value
        expected[index.data if isinstance(index, Tensor) else index] = np.asarray(value)
        np.testing.assert_array_equal(x.numpy(), expected)

    def test_views_share_it(self):
        x = Tensor(np.zeros((2, 2)))
        row = x[0]
        row += 1
        x[1][0] = 5
        x[0, 1] -= 3
        assert x.numpy().tolist() == [[1.0, -2.0], [5.0, 0.0]]

    def test_a_leaf_inside_no_grad(self):
        w = leaf(1.0, 2.0)
        memory = w.data
        (w * w).sum().backward()
        with no_grad():
            w -= 0.5 * w.grad
            w[0] = 7.0
        assert w.requires_grad
        assert w.data is memory
        assert w.numpy().tolist() == [7.0, 0.0]

    def test_keeps_the_dtype(self):
        x = Tensor(np.ones(2, "float32"))
        x += np.ones(2)
        x[0] = np.float64(5)
        assert x.dtype == "float32"
        assert x.numpy().tolist() == [5.0, 2.0]

    def test_on_another_device(self, fake_device):
        x = Tensor([1.0, 2.0], device=fake_device)
        x *= 2
        x[0] = 9.0
        x[1:] = Tensor([5.0], device=fake_device)
        assert x.numpy().tolist() == [9.0, 5.0]
        meta = Tensor([1.0, 2.0], device="meta")
        meta += 1
        meta[0] = 3
        assert meta.shape == (2,)


class TestRecorded:
    """On the tape the tensor becomes the result of an operation."""

    @pytest.mark.parametrize(
        "function",
        [
            lambda x, y: _changed(x * 1, lambda t: t.__iadd__(y)),
            lambda x, y: _changed(x * 1, lambda t: t.__isub__(y * y)),
            lambda x, y: _changed(x * 1, lambda t: t.__imul__(t)),
            lambda x, y: _changed(x * 2, lambda t: t.__itruediv__(y)),
            lambda x, y: _changed(ops.exp(x), lambda t: t.__ipow__(2)),
            lambda x, y: _changed(x * y, lambda t: t.__setitem__(0, y[0] * 3)) * x,
            lambda x, y: _changed(x * y, lambda t: t.__setitem__(np.array([False, True]), 0.0)) * x,
            lambda x, y: _changed(Tensor(np.zeros((2, 2))), lambda t: t.__setitem__((slice(None), 1), x * y)),
        ],
    )
    def test_gradients(self, function):
        assert gradcheck(function, [np.array([0.5, 1.5]), np.array([2.0, -1.0])])

    def test_the_tensor_is_the_same_object(self):
        x = leaf(1.0, 2.0)
        y = before = x * 2
        y += x
        y[0] *= 10
        assert y is before
        y.sum().backward()
        assert x.grad.numpy().tolist() == [30.0, 3.0]

    def test_its_old_memory_is_kept(self):
        y = leaf(1.0, 2.0) * 2
        memory = y.data
        y += 1
        assert memory.tolist() == [2.0, 4.0]

    def test_keeps_the_dtype(self):
        y = Tensor(np.ones(2, "float32"), requires_grad=True) * 1
        y += np.ones(2)
        assert y.dtype == "float32"

    def test_a_part_that_is_a_copy(self):
        x = leaf(1.0, 2.0, 3.0)
        for index in ([0, 2], np.array([True, False, True])):
            part = x[index]
            part[1] = 0.0
            assert gradients(part.sum(), [x])[0].numpy().tolist() == [1.0, 0.0, 0.0]

    @pytest.mark.parametrize(
        "use",
        [
            lambda h: h * 0.1,
            lambda h: h / 2,
            lambda h: ops.where(h > 0, h, h * 0.5),
            lambda h: h * np.array([2.0, 3.0]),
            lambda h: h * h,
            lambda h: ops.exp(h) @ h,
        ],
    )
    def test_a_change_by_a_function_of_the_tensor(self, use):
        """The tape keeps the old value, so results computed from it keep their gradient."""

        def changed(x):
            h = x * 1
            h += use(h)
            h -= 1
            h[0] *= use(h)[-1] if use(h).ndim else use(h)
            return h

        assert gradcheck(changed, [np.array([0.5, -1.5])])

    def test_in_a_capture(self):
        def function(x):
            x.requires_grad = True
            y = x * 2
            y += x * x
            y[0] = 0.0
            return gradients(y.sum(), [x])[0]

        printed = str(capture(function, np.ones(3)))
        assert "setitem" in printed


def _changed(x, change):
    change(x)
    return x


class TestValuesThatAGradientReads:
    @pytest.mark.parametrize("change", [lambda m: m.__setitem__(0, 9.0), lambda m: m.__iadd__(1)])
    def test_an_operand(self, change):
        w, m = leaf(1.0, 2.0), Tensor([3.0, 4.0])
        product = (w * m).sum()
        change(m)
        message = (
            r"multiply: a value of shape \(2,\) that its gradient reads was changed in place after it was"
        )
        with pytest.raises(GradientError, match=message):
            product.backward()

    def test_names_the_line_and_a_remedy(self):
        w, m = leaf(1.0, 2.0), Tensor([3.0, 4.0])
        product = (w * m).sum()
        m[0] = 9
        with pytest.raises(
            GradientError, match=r"test_inplace.py, line \d+: `m\[0\] = 9`. Make a new tensor"
        ):
            product.backward()

    def test_a_result(self):
        w = leaf(1.0, 2.0)
        y = ops.exp(w)
        total = y.sum()
        with no_grad():
            y *= 2
        with pytest.raises(GradientError, match=r"exp: a value of shape \(2,\)"):
            total.backward()

    def test_through_a_view(self):
        w, m = leaf(1.0, 2.0), Tensor(np.ones((3, 2)))
        product = (w * m[1]).sum()
        m[2, 0] = 5.0  # the memory is shared, so the other rows count as changed
        with pytest.raises(GradientError, match="multiply"):
            product.backward()

    def test_of_a_tensor_changed_on_the_tape(self):
        x = leaf(1.0, 2.0)
        y = x * 2
        square = (y * y).sum()
        y += 1  # recorded: the old values are kept
        square.backward()
        assert x.grad.numpy().tolist() == [8.0, 16.0]

    def test_an_index(self):
        x, i = leaf(1.0, 2.0), Tensor([0, 1])
        taken = x[i].sum()
        i[0] = 1
        with pytest.raises(GradientError, match="take"):
            taken.backward()

    def test_changes_before_the_operation_are_harmless(self):
        w, m = leaf(1.0, 2.0), Tensor([3.0, 4.0])
        m[0] = 9
        (w * m).sum().backward()
        assert w.grad.numpy().tolist() == [9.0, 4.0]

    def test_unread_values_may_change(self):
        w, m = leaf(1.0, 2.0), Tensor([3.0, 4.0])
        total = (w + m).sum()
        m[0] = 9
        total.backward()
        assert w.grad.numpy().tolist() == [1.0, 1.0]

    @pytest.mark.slow
    def test_no_state_is_left(self):
        """Neither of tensors nor of arrays that are gone, whose memory others may have."""

        def change(count):
            made = [Tensor([float(i)]) for i in range(count)]
            for i, x in enumerate(made):
                if i % 2:
                    x += 1
                else:
                    note_write(x.data)

        change(10)
        gc.collect()
        tracemalloc.start()
        change(2000)
        gc.collect()
        ours = [tracemalloc.Filter(True, path) for path in (__file__, f"{Path(sknet.__file__).parent}/*")]
        left = tracemalloc.take_snapshot().filter_traces(ours)  # threads of other tests may live on
        tracemalloc.stop()
        assert sum(trace.size for trace in left.traces) < 100_000  # a table that had so many keys

    @pytest.mark.parametrize("operand", [3.0, np.array([3.0, 4.0])])
    def test_only_values_that_are_read_matter(self, operand):
        """The gradient of a product with a constant reads the constant, not the other factor."""
        w = leaf(1.0, 2.0)
        product = (w * operand).sum()
        with no_grad():
            w -= 5
        product.backward()
        np.testing.assert_array_equal(w.grad.numpy(), np.broadcast_to(operand, 2))


class TestNoteWrite:
    """The tape is notified of writes outside operations."""

    def test_all_views_of_the_memory_are_affected(self):
        flat = np.arange(6.0)
        weight = Tensor(flat[:4].reshape(2, 2).T, requires_grad=True)
        window = Tensor(np.lib.stride_tricks.sliding_window_view(flat, 2)[4])
        products = [ops.exp(Tensor([1.0, 1.0]) @ weight).sum(), (weight[0] * window).sum()]
        x = leaf(1.0, 2.0)
        other = (x @ weight.detach()).sum()
        flat *= 2
        note_write(flat[5:], "Model.step")
        message = (
            r"of shape \(2,\) that its gradient reads was changed in place after it was used, by Model.step, "
            r"in .*test_inplace.py, line \d+: `note_write\(flat\[5:\], .Model.step.\)`"
        )
        products[0].backward()  # reads the result of exp and the ones
        with pytest.raises(GradientError, match=message):
            products[1].backward()
        with pytest.raises(GradientError, match=r"matmul: a value of shape \(2, 2\)"):
            other.backward()

    def test_later_recordings_are_correct(self):
        flat = np.ones(2)
        w = Tensor(flat[:], requires_grad=True)
        flat += 1
        note_write(flat)
        (w * w).sum().backward()
        assert w.grad.numpy().tolist() == [4.0, 4.0]

    def test_other_memory_is_unaffected(self):
        a, b = leaf(1.0), leaf(2.0)
        product = (a * b).sum()
        note_write(np.ones(3), "an update")
        product.backward()
        assert a.grad.item() == 2.0

    def test_a_saved_result(self):
        y = ops.exp(leaf(1.0, 2.0))
        note_write(y.data)
        with pytest.raises(GradientError, match="exp: a value of shape"):
            y.sum().backward()

    def test_an_index_array(self):
        index = np.array([1, 0])
        taken = leaf(1.0, 2.0)[index]
        note_write(index)
        with pytest.raises(GradientError, match="getitem: a value of shape"):
            taken.sum().backward()

    def test_higher_derivatives(self):
        x = leaf(2.0)
        [g] = gradients((x * x * x).sum(), [x], create_graph=True)
        note_write(x.data)
        with pytest.raises(GradientError, match="multiply: a value of shape"):
            gradients(g.sum(), [x])

    def test_an_array_without_data(self):
        note_write(Tensor([1.0], device="meta").data)

    def test_on_another_device(self, fake_device):
        w = Tensor([1.0, 2.0], requires_grad=True, device=fake_device)
        square = (w * w).sum()
        note_write(w.data[1:])
        with pytest.raises(GradientError, match="multiply: a value of shape"):
            square.backward()


class TestRefused:
    def test_a_leaf_on_the_tape(self):
        message = (
            r"\+=: a leaf that requires a gradient, of shape \(2,\), cannot be changed .* inside no_grad"
        )
        with pytest.raises(GradientError, match=message):
            leaf(1.0, 2.0).__iadd__(1)
        with pytest.raises(GradientError, match=r"\[\]=: a leaf that requires a gradient"):
            leaf(1.0, 2.0)[0] = 1

    def test_a_part_of_a_part_on_the_tape(self):
        y = Tensor(np.ones((2, 2)), requires_grad=True) * 1
        with pytest.raises(GradientError, match=r"x\[i\]\[j\] = value: .* write x\[i, j\] = value for that"):
            y[0][1] = 5.0

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            (lambda x: x.__setitem__(0, 1.5), DtypeError, "float64 does not fit into int64: use .astype"),
            (lambda x: x.__itruediv__(2), DtypeError, r"/=: a result of dtype float64 does not fit .* int64"),
            (lambda x: x.__setitem__(5, 1), IndexError, "index 5 is out of bounds for axis 0 with size 2"),
            (
                lambda x: x.__setitem__(slice(None), [1, 2, 3]),
                ShapeError,
                r"\(2,\) and \(3,\) do not broadcast",
            ),
            (lambda x: x.__setitem__(0, [1, 2]), ShapeError, r"of shape \(2,\) does not fit into shape \(\)"),
            (
                lambda x: x.__iadd__(np.ones((2, 2), int)),
                ShapeError,
                r"\+=: a result of shape \(2, 2\) does not",
            ),
            (lambda x: x.__iadd__(leaf(1.0, 2.0)), DtypeError, "dtype int64 cannot have a gradient"),
        ],
    )
    def test_misfits(self, change, error, message):
        x = Tensor([1, 2])
        with pytest.raises(error, match=message):
            change(x)
        assert x.numpy().tolist() == [1, 2]

    def test_memory_that_cannot_be_written_to(self):
        with pytest.raises(ValueError, match=r"setitem: cannot compute .* destination is read-only"):
            Tensor(np.broadcast_to(1.0, (3,))).__iadd__(1)

    def test_another_device(self, fake_device):
        with pytest.raises(DeviceError, match="setitem: operands live on different devices"):
            Tensor([1.0, 2.0], device=fake_device)[0] = np.ones(1)

    @pytest.mark.parametrize("change", [lambda x: x.__iadd__(1), lambda x: x.__setitem__(0, 1.0)])
    def test_in_a_capture(self, change):
        constant = Tensor(np.ones(2))
        for function in (change, lambda x: change(constant)):
            with pytest.raises(CaptureError, match=r"is changed in place, in .*: make a new tensor"):
                capture(function, np.ones(2))

    def test_a_constant_assigned_a_traced_value(self):
        constant = Tensor(np.ones(2))

        def function(x):
            x.requires_grad = True
            constant[0] = x[0]

        with pytest.raises(CaptureError, match="is changed in place"):
            capture(function, np.ones(2))
        assert constant.numpy().tolist() == [1.0, 1.0]
