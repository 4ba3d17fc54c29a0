"""The tables that complete the pages of simple operations say what the operations do."""

import builtins
import inspect

import numpy as np
import pytest

from docs import operations
from docs.operations import EXAMPLES, OPTIONS, RESULTS, SHAPES
from sknet import Tensor, exceptions, ops
from sknet.exceptions import ShapeError
from sknet.ops import linalg

OPERATIONS = operations.operations() | {
    name: value
    for name, value in vars(linalg).items()
    if name in linalg.__all__ and inspect.isfunction(value)
}
COMPLETED = {
    name: "\n".join(operations.sections(function, inspect.getdoc(function)))
    for name, function in OPERATIONS.items()
}
WITH_EXAMPLE = [name for name, text in COMPLETED.items() if "Examples" in text]


def arguments(name):
    """Return the positional arguments of an example, the options, and the result."""
    taken = {}

    def take(*args, **kwargs):
        taken["args"], taken["kwargs"] = args, kwargs
        return getattr(ops, name)(*args, **kwargs)

    found = eval(f"take({operations.arguments(OPERATIONS[name])})", {"take": take})
    return taken["args"], taken["kwargs"], found


@pytest.mark.parametrize("section", ["Parameters", "Returns", "Examples"])
def test_pages_are_complete(section):
    lacking = {
        name
        for name, function in OPERATIONS.items()
        if f"{section}\n---" not in inspect.getdoc(function) + COMPLETED[name]
        and not (section == "Parameters" and not inspect.signature(function).parameters)
    }
    assert not lacking


def test_no_entry_is_left_over():
    assert EXAMPLES.keys() <= {*WITH_EXAMPLE}
    assert operations.ANY_X not in EXAMPLES.values()
    assert RESULTS.keys() <= {name for name, text in COMPLETED.items() if "Returns" in text}
    used = {
        str(parameter.replace(annotation=parameter.empty, default=parameter.empty))
        for name, text in COMPLETED.items()
        if "Parameters" in text
        for parameter in inspect.signature(OPERATIONS[name]).parameters.values()
    }
    assert used - {"*", "/"} == OPTIONS.keys()


def test_shapes_are_as_the_pages_say():
    seen = set()
    for name in WITH_EXAMPLE:
        args, kwargs, found = arguments(name)
        said = operations.result(getattr(ops, name))
        if said == "Of x's shape.":
            assert found.shape == np.shape(args[0]), name
        elif said == "Of the shape to which the operands are broadcast.":
            assert found.shape == np.broadcast_shapes(*map(np.shape, args)), name
        elif said.startswith("Without the axes over which it reduces"):
            kept = getattr(ops, name)(*args, **kwargs, keepdims=True)
            assert found.shape == tuple(np.delete(np.shape(args[0]), kwargs["axis"])), name
            assert kept.shape[kwargs["axis"]] == 1, name
        else:
            assert said == RESULTS[name], name
        seen.add(said)
        assert operations.kind_of_result(getattr(ops, name)) == {
            Tensor: "Tensor",
            tuple: "tuple of Tensor",
        }.get(type(found), type(found).__name__)
    assert len(seen) > 10


def test_two_operands_that_do_not_broadcast_raise():
    binary = [
        name for name, text in COMPLETED.items() if "cannot be broadcast" in text and name not in SHAPES
    ]
    assert len(binary) > 20
    for name in binary:
        x, y = ([1, 2], [1, 2, 3]) if name.startswith("bitwise") else ([1.0, 2.0], [1.0, 2.0, 3.0])
        with pytest.raises(ShapeError):
            getattr(ops, name)(x, y)


# Arguments for which the pages promise a ShapeError, by operation, and by what they say.
MATRIX = [[1.0, 2.0], [3.0, 4.0]]
WRONG_SHAPES = {
    "attention_weights": ([1.0], [1.0]),
    "broadcast_to": ([1.0, 2.0], (3,)),
    "clip": ([1.0, 2.0, 3.0], [1.0, 2.0], 3.0),
    "reshape": ([1.0, 2.0], (3,)),
    "where": ([True, False], [1.0, 2.0, 3.0], 0.0),
    "matrix_power": (np.ones((2, 3)), 2),
    **dict.fromkeys(("cholesky", "det", "eigh", "eigvalsh", "inv", "slogdet"), (np.ones((2, 3)),)),
    "broadcast_arrays": ([1.0, 2.0], [1.0, 2.0, 3.0]),
    "concat": ([],),
    "conv_transpose1d": (np.ones((1, 1, 1)), np.ones((1, 1, 1)), None, 1, 3),
    "cumulative_prod": (MATRIX,),
    "cumulative_sum": (MATRIX,),
    "glu": ([1.0, 2.0, 3.0],),
    "instance_norm": (MATRIX,),
    "moveaxis": (MATRIX, (0, 1), 0),
    "outer": (MATRIX, MATRIX),
    "permute_dims": (MATRIX, (0,)),
    "pinv": ([1.0],),
    "roll": (MATRIX, (1, 1, 1), (0, 1)),
    "squeeze": (MATRIX, 0),
    "stack": ([[1.0], [1.0, 2.0]],),
    "sum_squares": (),
    "tile": ([1.0], -1),
    "vecdot": ([1.0, 2.0], [1.0, 2.0, 3.0]),
    **dict.fromkeys(("diagonal", "matrix_transpose", "trace", "tril", "triu"), ([1.0],)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_that_the_pages_say_raise(name):
    with pytest.raises(ShapeError):
        OPERATIONS[name](*WRONG_SHAPES[name])


# Arguments for which the pages promise another error.
OTHERS_WRONG = {
    "attention_weights": (np.ones((2, 3), int), np.ones((4, 3), int)),
    "conv_transpose1d": (np.ones((1, 1, 5)), np.ones((1, 1, 3)), None, 1, 0, 3),
    "diff": ([1.0, 2.0], -1, -1),
    "dropout": ([1, 2],),
    "instance_norm": (np.ones((2, 3, 4), int),),
    **dict.fromkeys(("full", "ones", "zeros"), ((2,),)),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), ([1.0], [2.0])),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"), ([1.0], 1)),
    "bitwise_invert": ([1.0],),
}


@pytest.mark.parametrize("name", operations.OTHER_ERRORS)
def test_other_errors_that_the_pages_say(name):
    error, _ = operations.OTHER_ERRORS[name]
    args, options = OTHERS_WRONG[name], {"dropout": {"key": (0, 0)}}.get(name, {})
    if error == "DeviceError":
        args, options = (*args, 1.0) if name == "full" else args, {"device": "nowhere"}
    with pytest.raises(getattr(exceptions, error, None) or getattr(builtins, error)):
        OPERATIONS[name](*args, **options)


def test_meanings_of_one_operation_are_used():
    for name, option in operations.ITS_OWN:
        assert option in inspect.signature(OPERATIONS[name]).parameters
        kind, meaning = operations.ITS_OWN[name, option]
        assert f"{option} : {kind}" in COMPLETED[name]
        assert meaning in COMPLETED[name]


@pytest.mark.parametrize("name", [name for name in WITH_EXAMPLE if operations.has_axes(OPERATIONS[name])])
@pytest.mark.parametrize(("axis", "error"), [(9, ShapeError), ("one", TypeError)])
def test_wrong_axes_raise(name, axis, error):
    x = arguments(name)[0][0]
    parameters = inspect.signature(OPERATIONS[name]).parameters
    named = next(each for each in (*operations.AXES, "start") if each in parameters)
    others = {"moveaxis": {"destination": 0}, "roll": {"shift": 1}, "vecdot": {"y": x}}.get(name, {})
    with pytest.raises(error):
        OPERATIONS[name](x, **{named: (axis, 0) if named == "axes" else axis, **others})


def test_axes_have_the_kinds_that_the_signatures_say():
    assert "axis : int, tuple of int, or None, default=None" in COMPLETED["sum"]
    assert "axis : int, default=-1" in COMPLETED["softmax"]
    assert "axis : int or None, default=None" in COMPLETED["argmax"]


def test_what_python_shows_is_shown():
    assert "\n>>> ops.exp([0.0, 1.0, 2.0])\n" + repr(ops.exp([0.0, 1.0, 2.0])) in COMPLETED["exp"]
