"""Functions of one tensor are also methods, and errors for missing names suggest existing ones."""

import inspect
import re

import numpy as np
import pytest

import sknet
from docs.make_methods import STUB, stub
from sknet import Tensor, ops
from sknet.core import Methods
from sknet.exceptions import GradientError
from tests.contracts.checks import tensors
from tests.contracts.rows import ROWS
from tests.project import hints

NOT_OF_TENSORS = {"is_sparse"}
OPERATORS = {
    *("add", "subtract", "multiply", "divide"),
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"),
    *(f"bitwise_{name}" for name in ("and", "or", "xor", "invert", "left_shift", "right_shift")),
}
RENAMED = {"unsqueeze": "expand_dims"}
METHODS = sorted(name for name in vars(Methods) if RENAMED.get(name, name) in ops.__all__)
TENSOR_HINTS, HINTS = hints("sknet.Tensor"), hints("sknet.ops")


def first_operand(name):
    function = getattr(ops, name)
    return next(iter(inspect.signature(function).parameters), None) if inspect.isfunction(function) else None


def test_every_op_that_numpy_or_pytorch_has_as_a_method_is_one():
    torch = pytest.importorskip("torch", reason="needs PyTorch, whose methods are looked up")
    theirs = {name for name in ops.__all__ if hasattr(np.ndarray, name) or hasattr(torch.Tensor, name)}
    expected = {name for name in theirs if first_operand(name) == "x"} - OPERATORS - NOT_OF_TENSORS
    missing = [name for name in sorted(expected) if not inspect.isfunction(getattr(Tensor, name, None))]
    assert missing == []


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_the_function(name):
    op = RENAMED.get(name, name)
    function = getattr(ops, op)
    for row in (row for row in ROWS if row.op == op and row.call is None):
        for case in row.cases:
            operands = tensors(case.draw())
            if isinstance(operands[0], Tensor):
                found = getattr(operands[0], name)(*operands[1:], **case.params)
                expected = function(*operands, **case.params)
                pairs = zip(*((x if isinstance(x, tuple) else (x,)) for x in (found, expected)), strict=True)
                for one, other in pairs:
                    np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_no_method_hides_another():
    own = {name for cls in Tensor.__mro__ if cls is not Methods for name in vars(cls)}
    assert own & {name for name in vars(Methods) if not name.startswith("__")} == set()


def test_the_stub_is_current():
    assert STUB.read_text() == stub(), "write it again: python -m docs.make_methods"


class TestLeavingTheTape:
    def test_tolist(self):
        assert Tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
        assert Tensor(2.5, requires_grad=True).tolist() == 2.5

    @pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
    def test_clone_is_a_copy(self, dtype):
        x = Tensor(np.ones((2, 3), dtype))
        copy = x.clone()
        copy[...] = 0
        assert copy.dtype == x.dtype
        assert x.numpy().all()

    def test_gradients_flow_through_a_clone(self):
        x = Tensor([1.0, 2.0], requires_grad=True)
        (x.clone() ** 3).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), [3.0, 12.0])

    def test_detach_in_place(self):
        x = Tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        assert y.detach_() is y
        assert not y.requires_grad
        assert y.is_leaf
        z = y.requires_grad_() * x
        z.sum().backward()
        np.testing.assert_array_equal(y.grad.numpy(), [1.0, 2.0])
        np.testing.assert_array_equal(x.grad.numpy(), [2.0, 4.0])

    def test_requires_grad(self):
        x = Tensor([1.0])
        assert x.requires_grad_() is x
        assert x.requires_grad
        assert not x.requires_grad_(False).requires_grad
        with pytest.raises(GradientError, match="requires_grad can be set on leaves only"):
            (x.requires_grad_() * 2).requires_grad_(False)

    def test_squeeze_without_an_axis(self):
        assert Tensor(np.ones((1, 3, 1))).squeeze().shape == (3,)
        assert Tensor(1.0).squeeze().shape == ()


@pytest.mark.parametrize("name", TENSOR_HINTS)
def test_a_missing_method_names_the_one_to_use(name):
    with pytest.raises(AttributeError, match=re.escape(f"no attribute {name!r}: {TENSOR_HINTS[name]}.")):
        getattr(Tensor(np.ones((2, 3))), name)


def test_hints_name_what_exists():
    """And they hide no existing name."""
    for text in TENSOR_HINTS.values():
        for name in re.findall(r"\bx\.(\w+)", text):
            assert hasattr(Tensor(1.0), name), text
    for text in [*TENSOR_HINTS.values(), *HINTS.values()]:
        for name in re.findall(r"\bops\.(\w+)", text):
            assert name in ops.__all__, text
        for name in re.findall(r"\bsknet\.(\w+)", text):
            assert hasattr(sknet, name), text
    assert not set(HINTS) & set(ops.__all__)
    assert not [name for name in TENSOR_HINTS if hasattr(Tensor(1.0), name)]


@pytest.mark.parametrize("name", HINTS)
def test_a_missing_function_names_the_one_to_use(name):
    with pytest.raises(AttributeError, match=re.escape(f"module 'sknet.ops' has no attribute {name!r}: ")):
        getattr(ops, name)


def test_other_names_suggest_similar_ones():
    with pytest.raises(AttributeError, match=r"a tensor has no attribute 'reshpe'. Did you mean 'reshape'"):
        _ = Tensor(1.0).reshpe
    with pytest.raises(
        AttributeError, match=r"'sknet.ops' has no attribute 'softmaxx'. Did you mean .*'softmax'"
    ):
        _ = ops.softmaxx
    with pytest.raises(AttributeError, match=r"a tensor has no attribute 'qqqq'\.$"):
        _ = Tensor(1.0).qqqq


def test_size_is_not_a_method():
    x = Tensor(np.ones((2, 3)))
    assert x.size == 6
    with pytest.raises(TypeError, match=r"x.size is the number .* not a method: .* x.shape\[axis\]"):
        x.size(0)
