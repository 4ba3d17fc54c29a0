"""What the pages of simple operations show besides a sentence: operands, options, the result, and an example.

The docstring of an operation such as `sknet.ops.exp` is a sentence, since operations of a family are called
alike. The tables here complete its page; ``tests/test_operations.py`` compares them with the operations.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence

import numpy as np

import sknet.ops
from sknet import ops

__all__ = [
    "EXAMPLES",
    "ITS_OWN",
    "OPTIONS",
    "OTHER_ERRORS",
    "RESULTS",
    "SHAPES",
    "arguments",
    "errors",
    "has_axes",
    "output",
    "result",
    "sections",
]

ARRAY = "Tensor or array-like"
X, AXIS, ANY_X = "[[1.0, 2.0], [3.0, 4.0]]", "axis=1", "[0.0, 1.0, 2.0]"
# The arguments of an example, by operation (`ANY_X` for others of x); its output is computed at the build.
EXAMPLES = {
    **dict.fromkeys(("abs", "negative", "positive", "sign", "relu", "square"), "[-2.0, 0.0, 3.0]"),
    **dict.fromkeys(("celu", "elu", "leaky_relu", "mish", "selu", "silu", "softsign"), "[-2.0, 0.0, 3.0]"),
    **dict.fromkeys(("hardsigmoid", "hardswish", "hardtanh", "log_sigmoid", "sigmoid"), "[-4.0, 0.0, 4.0]"),
    **dict.fromkeys(
        ("softplus", "tanh", "sinh", "cosh", "asinh", "expm1", "erf", "erfc"), "[-1.0, 0.0, 1.0]"
    ),
    **dict.fromkeys(("acos", "asin"), "[-1.0, 0.0, 1.0]"),
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "reciprocal"), "[1.0, 10.0, 16.0]"),
    **dict.fromkeys(("ceil", "floor", "round", "trunc"), "[-1.5, 0.5, 2.5]"),
    **dict.fromkeys(("isfinite", "isinf", "isnan"), '[1.0, float("inf"), float("nan")]'),
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal"), "[1.0, 2.0, 3.0], 2.0"),
    **dict.fromkeys(("greater", "greater_equal", "maximum", "minimum"), "[1.0, 2.0, 3.0], 2.0"),
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "pow"), "[[1.0], [2.0]], [3.0, 4.0]"),
    **dict.fromkeys(("floor_divide", "remainder"), "[-7.0, 7.0], 3.0"),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), "[12, 12], [10, 3]"),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"), "[8, 16], 2"),
    **dict.fromkeys(
        ("logical_and", "logical_or", "logical_xor"), "[True, True, False], [True, False, False]"
    ),
    **dict.fromkeys(("all", "any"), "[[True, False], [True, True]], axis=1"),
    **dict.fromkeys(("max", "min", "mean", "sum", "prod", "std", "var", "logsumexp"), f"{X}, {AXIS}"),
    **dict.fromkeys(("argmax", "argmin", "argsort", "sort"), "[[3.0, 1.0, 2.0]], axis=1"),
    **dict.fromkeys(("cumulative_prod", "cumulative_sum"), "[1.0, 2.0, 3.0]"),
    **dict.fromkeys(("softmax", "log_softmax"), "[[1.0, 2.0, 3.0]]"),
    **dict.fromkeys(("diagonal", "matrix_transpose", "trace", "tril", "triu"), X),
    "full": "(2, 2), 7.0",
    **dict.fromkeys(("ones", "zeros"), "(2, 3)"),
    **dict.fromkeys(("ones_like", "zeros_like"), X),
    "acosh": "[1.0, 2.0]",
    "astype": '[1.0, 2.5], "int64"',
    "atan2": "[1.0, -1.0], [0.0, -1.0]",
    "atanh": "[-0.5, 0.0, 0.5]",
    "bitwise_invert": "[0, 1, 5]",
    "broadcast_arrays": "[1.0, 2.0], [[3.0], [4.0]]",
    "broadcast_to": "[1.0, 2.0], (2, 2)",
    "clip": "[-2.0, 0.5, 3.0], [[0.0], [0.5]], 1.0",
    "concat": f"[{X}, [[5.0, 6.0]]]",
    "copysign": "[1.0, -2.0], [-1.0, 3.0]",
    "count_nonzero": "[[0.0, 2.0], [3.0, 4.0]], axis=1",
    "deg2rad": "[0.0, 90.0, 180.0]",
    "diff": "[1.0, 4.0, 9.0]",
    "expand_dims": "[1.0, 2.0], axis=0",
    "flatten": X,
    "flip": f"{X}, axis=1",
    "full_like": "[1.0, 2.0], 7.0",
    "glu": "[1.0, 2.0, 0.0, 3.0]",
    "hypot": "[3.0, 5.0], [4.0, 12.0]",
    "is_sparse": "[1.0, 2.0]",
    "logaddexp": "[0.0, 1000.0], [0.0, 1000.0]",
    "logical_not": "[True, False]",
    "logit": "[0.25, 0.5, 0.75]",
    "moveaxis": "[[[1.0, 2.0, 3.0]]], 2, 0",
    "nextafter": "[1.0], [2.0]",
    "outer": "[1.0, 2.0], [3.0, 4.0]",
    "permute_dims": f"{X}, (1, 0)",
    "prelu": "[[-1.0, 2.0], [3.0, -4.0]], [0.1, 0.5]",
    "relu6": "[-2.0, 3.0, 9.0]",
    "reshape": f"{X}, (4,)",
    "roll": "[1.0, 2.0, 3.0], 1",
    "signbit": "[-1.0, -0.0, 2.0]",
    "squeeze": "[[1.0, 2.0]]",
    "stack": "[[1.0, 2.0], [3.0, 4.0]], axis=1",
    "sum_squares": "[1.0, 2.0], [3.0]",
    "tile": "[1.0, 2.0], 2",
    "unstack": X,
    "vecdot": f"{X}, [1.0, 10.0]",
    "where": "[True, False], [1.0, 2.0], [3.0, 4.0]",
    "xlogy": "[0.0, 2.0], [0.0, 3.0]",
}
# Type and meaning of operands and options, by their names.
OPTIONS = {
    "x": (ARRAY, "The operand."),
    "y": (ARRAY, "The second operand, of a shape that broadcasts against that of x."),
    "xs": (f"sequence of {ARRAY}", "The operands."),
    "*xs": (ARRAY, "The operands."),
    "q": ("Tensor or array of shape (..., n_queries, depth)", "Queries."),
    "k": ("int", "The diagonal: 0 is the main one, 1 the one above it."),
    "alpha": ("float", "Minus the limit of the function for very negative x."),
    "append": (f"{ARRAY} or None", "Values to join at the end."),
    "axes": ("sequence of int", "The axes of x in their new order."),
    "axis": ("", "Axes to compute along; negative ones count from the end."),
    "bias": ("Tensor or array of shape (filters,) or (channels,), or None", "Added to each channel."),
    "ceil_mode": ("bool", "Whether the last window may extend past the end of the signal."),
    "condition": ("Tensor or array-like of bool", "True where the result is x."),
    "correction": ("float", "Subtracted from the number of elements; 1 gives the unbiased variance."),
    "count_include_pad": ("bool", "Whether zeros of the padding count in the means."),
    "descending": ("bool", "Whether the largest come first."),
    "destination": ("int or sequence of int", "Positions of these axes in the result."),
    "device": ("str or Device", "Device of the result."),
    "dilation": ("int", "Steps from one element of a window to the next."),
    "dtype": ("dtype", "Dtype of the result."),
    "eps": ("float", "Added to the variance."),
    "groups": ("int", "Channels and filters are divided into this many independent groups."),
    "include_initial": ("bool", "Whether the result begins with the value for no elements."),
    "is_causal": ("bool", "Whether each query only attends to keys up to its own position."),
    "keepdims": ("bool", "Whether reduced axes are kept with length 1."),
    "kernel_size": ("int", "Length of a window."),
    "mask": ("Tensor or array of bool, or None", "True where a query may attend to a key."),
    "max": (f"{ARRAY} or None", "The upper limit."),
    "min": (f"{ARRAY} or None", "The lower limit."),
    "n": ("int", "Number of repetitions."),
    "negative_slope": (ARRAY, "The slope to the left of 0."),
    "offset": ("int", "The diagonal: 0 is the main one, 1 the one above it."),
    "output_padding": ("int", "Number of elements added at the end of the result."),
    "output_size": ("int or None", "Number of windows; None for the length of the signal."),
    "padding": ("int or str", "Zeros at both ends."),
    "prepend": (f"{ARRAY} or None", "Values to join at the beginning."),
    "repetitions": ("int or sequence of int", "Number of copies along each axis."),
    "scale": ("float or None", "Factor of the products of queries and keys; None is 1 / sqrt(depth)."),
    "shape": ("int or sequence of int", "Lengths of the axes of the result."),
    "shift": ("int or sequence of int", "Number of positions to shift by."),
    "source": ("int or sequence of int", "Axes of x to move."),
    "start": ("int", "The first of the axes that are joined."),
    "stride": ("int or None", "Steps from one window to the next."),
    "value": ("float", "Value of all elements."),
    "weight": ("Tensor or array", "The kernels."),
}
ALONG_ONE = "Axis to compute along; a negative one counts from the end."
# The same, where a name means something else in one operation.
ITS_OWN = {
    ("attention_weights", "k"): ("Tensor or array of shape (..., n_keys, depth)", "Keys."),
    ("conv1d", "stride"): ("int", OPTIONS["stride"][1]),
    ("conv_transpose1d", "stride"): ("int", "Steps in the output from one input element to the next."),
    ("conv_transpose1d", "padding"): ("int", "Number of elements to crop at both ends."),
    ("instance_norm", "bias"): ("Tensor or array of shape (channels,), or None", OPTIONS["bias"][1]),
    ("instance_norm", "weight"): ("Tensor or array of shape (channels,), or None", "One factor per channel."),
    ("matrix_power", "n"): ("int", "The exponent."),
    ("outer", "x"): (f"{ARRAY} of shape (n,)", "The first vector."),
    ("outer", "y"): (f"{ARRAY} of shape (m,)", "The second vector."),
}
KINDS_OF_AXIS = {
    int: "int",
    int | None: "int or None",
    int | tuple[int, ...]: "int or tuple of int",
    int | tuple[int, ...] | None: "int, tuple of int, or None",
    int | Sequence[int] | None: "int, sequence of int, or None",
}
FILTERS = "Of shape (..., filters, length)."
# The shape of the result, where neither the operands' shape nor an axis less.
RESULTS = {
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_max_pool1d"), "Of shape (..., channels, output_size)."),
    **dict.fromkeys(("avg_pool1d", "max_pool1d"), "Of shape (..., channels, windows)."),
    **dict.fromkeys(("conv1d", "conv_transpose1d"), FILTERS),
    **dict.fromkeys(("det", "slogdet"), "Of shape (...), for x of shape (..., n, n)."),
    "diagonal": "Without the last two axes of x; diagonals are the last axis.",
    "trace": "Without the last two axes of x.",
    **dict.fromkeys(
        ("eigvalsh", "svdvals"), "Of shape (..., k), where k is the shorter of the last two axes."
    ),
    **dict.fromkeys(
        ("cumulative_prod", "cumulative_sum"), "Of x's shape, or one longer with `include_initial`."
    ),
    **dict.fromkeys(("full", "ones", "zeros", "broadcast_to", "reshape"), "Of the given shape."),
    "attention_weights": "Of shape (..., n_queries, n_keys).",
    "broadcast_arrays": "One for each operand, all of one shape.",
    "concat": "Of the operands' shape, except along the axis, where their lengths are added.",
    "diff": "Of x's shape, `n` shorter along the axis.",
    "expand_dims": "Of x's shape, with the new axes.",
    "flatten": "With one axis instead of those from `start` on.",
    "glu": "Of x's shape, half as long along the axis.",
    "is_sparse": "True for a sparse matrix or a slot.",
    "matrix_transpose": "Of shape (..., columns, rows), for x of shape (..., rows, columns).",
    "moveaxis": "With the same lengths in another order.",
    "outer": "Of shape (n, m), for vectors of shapes (n,) and (m,).",
    "permute_dims": "With the same lengths in another order.",
    "squeeze": "Without these axes.",
    "stack": "Of the operands' shape, with one more axis.",
    "sum_squares": "A single number, of shape ().",
    "tile": "Along each axis, x's length times the repetitions.",
    "unstack": "One for each position of the axis, without it.",
    "vecdot": "Without the axis.",
}


# When an operation raises a ShapeError, beside shapes that cannot be broadcast and axes that do not exist.
SHAPES = {
    **dict.fromkeys(("diagonal", "matrix_transpose", "trace", "tril", "triu"), "x has fewer than two axes"),
    **dict.fromkeys(("cumulative_prod", "cumulative_sum"), "x has several axes and none is named"),
    **dict.fromkeys(
        ("cholesky", "det", "eigh", "eigvalsh", "inv", "matrix_power", "slogdet"),
        "the last two axes do not hold square matrices",
    ),
    **dict.fromkeys(("clip", "where"), "the shapes cannot be broadcast"),
    "broadcast_to": "x cannot be broadcast to the shape",
    "concat": "there is no operand, or their shapes differ along another axis",
    "reshape": "the shape has another number of elements",
    "stack": "there is no operand, or their shapes differ",
    "attention_weights": "the shapes of queries and keys do not fit",
    "broadcast_arrays": "the shapes cannot be broadcast",
    "conv_transpose1d": "the shapes do not fit, or the result would be empty",
    "glu": "the length of the axis is odd",
    "instance_norm": "x has fewer than three axes",
    "moveaxis": "there are not as many places as axes",
    "outer": "an operand is not a vector",
    "permute_dims": "an axis is missing",
    "pinv": "the last two axes do not hold matrices",
    "roll": "there are not as many shifts as axes",
    "squeeze": "an axis is longer than 1",
    "sum_squares": "there is no operand",
    "tile": "a number of repetitions is negative",
    "vecdot": "the lengths along the axis differ",
}
NO_FLOATS = ("DtypeError", "If x does not hold floating-point numbers.")
OTHER_ERRORS = {
    **dict.fromkeys(("full", "ones", "zeros"), ("DeviceError", "If there is no such device.")),
    **dict.fromkeys(("dropout", "instance_norm"), NO_FLOATS),
    "attention_weights": ("DtypeError", "If queries and keys do not hold floating-point numbers."),
    **dict.fromkeys(
        ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert"),
        ("DtypeError", "If an operand does not hold integers or booleans."),
    ),
    **dict.fromkeys(
        ("bitwise_left_shift", "bitwise_right_shift"), ("DtypeError", "If an operand does not hold integers.")
    ),
    "conv_transpose1d": ("ValueError", "If `output_padding` is not smaller than stride or dilation."),
    "diff": ("ValueError", "If `n` is negative."),
}
AXES = ("axis", "axes", "source")


def errors(function: Callable[..., object]) -> Iterator[tuple[str, str]]:
    """Yield the errors that an operation raises, and when."""
    parameters, name = inspect.signature(function).parameters, function.__name__
    several = [*parameters] == ["x", "y"] and name not in RESULTS
    when = ["the shapes cannot be broadcast"] * several + ["there is no such axis"] * has_axes(function)
    when += [SHAPES[name]] if name in SHAPES else []
    if when:
        yield "ShapeError", f"If {', or if '.join(when)}."
    if has_axes(function):
        yield "TypeError", "If an axis is not an integer."
    if name in OTHER_ERRORS:
        yield OTHER_ERRORS[name]


def has_axes(function: Callable[..., object]) -> bool:
    """Tell whether an operation is told axes."""
    return function is ops.flatten or any(name in AXES for name in inspect.signature(function).parameters)


def sections(function: Callable[..., object], doc: str) -> Iterator[str]:
    """Yield the lines of the sections that the docstring of an operation lacks.

    Parameters
    ----------
    function : callable
        An operation.
    doc : str
        Its docstring.

    Yields
    ------
    str
        Lines in numpydoc's format.
    """
    if "Parameters\n---" not in doc:
        yield from ("", "Parameters", "----------")
        for parameter in inspect.signature(function).parameters.values():
            name = str(parameter.replace(annotation=parameter.empty, default=parameter.empty))
            kind, meaning = ITS_OWN.get((function.__name__, name), OPTIONS[name])
            if name == "axis":
                kind = KINDS_OF_AXIS[parameter.annotation]
                meaning = meaning if "tuple" in kind or "sequence" in kind else ALONG_ONE
            default = "" if parameter.default is parameter.empty else f", default={parameter.default!r}"
            yield from (f"{name} : {kind}{default}", f"    {meaning}")
    if "Returns\n---" not in doc:
        yield from ("", "Returns", "-------", kind_of_result(function), f"    {result(function)}")
    if "Raises\n---" not in doc and (found := list(errors(function))):
        yield from (
            "",
            "Raises",
            "------",
            *(line for error, when in found for line in (error, f"    {when}")),
        )
    example = arguments(function)
    if "Examples\n---" not in doc and example is not None:
        call = f"{function.__name__}({example})"
        yield from ("", "Examples", "--------", f">>> ops.{call}", *output(call).splitlines())


def arguments(function: Callable[..., object]) -> str | None:
    """Return the arguments of an example."""
    is_of_x = [*inspect.signature(function).parameters] == ["x"]
    return EXAMPLES.get(function.__name__, ANY_X if is_of_x else None)


def kind_of_result(function: Callable[..., object]) -> str:
    """Return the type of what an operation returns."""
    shown = str(inspect.signature(function).return_annotation)
    return "bool" if "bool" in shown else "tuple of Tensor" if "tuple" in shown else "Tensor"


def result(function: Callable[..., object]) -> str:
    """Return what shape the result has."""
    parameters = inspect.signature(function).parameters
    if function.__name__ in RESULTS:
        return RESULTS[function.__name__]
    if "keepdims" in parameters:
        return "Without the axes over which it reduces, or with length 1 there."
    shapes = [name for name in ("condition", "x", "y", "min", "negative_slope") if name in parameters]
    if len(shapes) > 1:
        return "Of the shape to which the operands are broadcast."
    return "Of x's shape."


def output(call: str) -> str:
    """Return what Python shows for the call of an operation.

    Examples
    --------
    >>> from docs.operations import output
    >>> print(output("exp([0.0, 1.0])"))
    Tensor([1.        , 2.71828183], dtype=float64)
    """
    with np.printoptions(precision=8):
        return repr(eval(f"ops.{call}", {"ops": ops}))


def operations() -> dict[str, Callable[..., object]]:
    """Return the operations of `sknet.ops` by name."""
    names = {name: getattr(sknet.ops, name) for name in sknet.ops.__all__}
    return {name: value for name, value in names.items() if inspect.isfunction(value)}
