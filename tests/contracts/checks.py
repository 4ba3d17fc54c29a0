"""Helpers of the contract tests of all devices: operands as tensors, and gradients with random weights."""

from typing import Any

import numpy as np

from sknet.core import SCALAR_FUNCTIONS, Primitive, Tensor, as_tensor, gradients
from sknet.device import Device, backend
from tests.contracts.table import Row

CPU = Device("cpu")
FLOATS = ("float64", "float32")


def tensors(operands: list[Any], *, requires_grad: bool = False, device: Device = CPU) -> list[Any]:
    """Make tensors of the arrays among the operands."""
    return [
        Tensor(x, requires_grad=requires_grad and x.dtype.kind == "f", device=device)
        if isinstance(x, np.ndarray)
        else x
        for x in operands
    ]


def weighted(out: Tensor) -> Tensor:
    """Reduce a result to a scalar whose gradient is different everywhere."""
    weights = np.random.default_rng(1).uniform(0.5, 1.5, out.shape).astype(out.dtype)
    return (out * Tensor(weights, device=out.device)).sum()


def value_and_gradients(row: Row, operands: list[Any], params: dict[str, Any], device: Device = CPU) -> Any:
    """Return an op's result and the gradients of its differentiable operands, as host arrays."""
    inputs = tensors(operands, requires_grad=row.order > 0, device=device)
    out = row(*inputs, **params)
    assert out.device == device
    leaves = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    found = gradients(weighted(out), leaves) if out.requires_grad else []
    assert all(g.device == device and g.dtype == x.dtype for g, x in zip(found, leaves, strict=bool(found)))
    return out.numpy(), [g.numpy() for g in found]


# -- one application of a primitive -----------------------------------------------------------


def evaluate(expression: str, arrays: tuple[Any, ...], dtype: Any) -> np.ndarray:
    """Evaluate a scalar expression of x, y, z for every element."""
    code = compile(expression, expression, "eval")
    functions = {name: function.numpy for name, function in SCALAR_FUNCTIONS.items()}
    shape = np.broadcast_shapes(*(np.shape(x) for x in arrays))
    spread = [np.broadcast_to(x, shape) if isinstance(x, np.ndarray) else x for x in arrays]
    out = np.empty(shape, dtype)
    with np.errstate(over="ignore"):  # the sigmoid's exponential may, the kernels made of it say nothing
        for i in np.ndindex(shape):
            point = [x[i] if isinstance(x, np.ndarray) else x for x in spread]
            out[i] = eval(code, functions | dict(zip("xyz", point, strict=False)))
    return out


def check_record(primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any], result: Any) -> None:
    """Compare one computed result with the primitive's other rules."""
    shape, dtype = primitive.shape(*arrays, **params)
    assert (shape, dtype) == (np.shape(result), result.dtype), primitive
    if primitive.writes_out:
        out = np.full(shape, 7, dtype)
        assert primitive.forward_on(backend("cpu"))(*arrays, **params, out=out) is out, primitive
        assert out.tobytes() == np.asarray(result).tobytes(), primitive
    if primitive.scratch is not None:
        given = [np.full(size, np.nan, kind) for size, kind in primitive.scratch(*arrays, **params)]
        found = primitive.forward_on(backend("cpu"))(*arrays, **params, scratch=given)
        assert found.tobytes() == np.asarray(result).tobytes(), primitive
    if primitive.expression is not None:
        expected = evaluate(primitive.expression, arrays, dtype)
        tolerance = 1e-5 if dtype == np.float32 else 1e-12
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance, err_msg=str(primitive))


def as_array(x: Any) -> Any:
    return x.numpy() if isinstance(x, Tensor) else as_tensor(x).numpy()
