"""Which functions are methods of a tensor too, and what the functions of other libraries are called here.

A method is the function itself, with the tensor as its first operand.
"""

from collections.abc import Callable
from typing import Any

from sknet import ops
from sknet.core import Methods

__all__ = ["HINTS", "METHODS"]

NAMES = (
    "abs", "acos", "acosh", "all", "any", "argmax", "argmin", "argsort", "asin", "asinh", "atan", "atan2",
    "atanh", "broadcast_to", "ceil", "clip", "copysign", "cos", "cosh", "count_nonzero", "cumulative_prod",
    "cumulative_sum", "diagonal", "diff", "erf", "erfc", "exp2", "expand_dims", "expm1", "flatten", "flip",
    "floor", "floor_divide", "hypot", "isfinite", "isinf", "isnan", "lerp", "log10", "log1p", "log2",
    "log_softmax", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "logit",
    "logsumexp", "matmul", "maximum", "median", "minimum", "moveaxis", "nan_to_num", "negative",
    "nextafter", "nonzero", "norm", "outer", "positive", "pow", "prelu", "prod", "quantile", "reciprocal",
    "relu", "remainder", "repeat", "roll", "round", "rsqrt", "scatter_add", "searchsorted", "sigmoid",
    "sign", "signbit", "sin", "sinh", "softmax", "sort", "split", "square", "squeeze", "std", "take", "tan",
    "tanh", "tile", "topk", "trace", "tril", "triu", "trunc", "var", "xlogy",
)  # fmt: skip

METHODS: dict[str, Callable[..., Any]] = {
    **{name: getattr(ops, name) for name in NAMES},
    "unsqueeze": ops.expand_dims,
}
for _name, _function in METHODS.items():
    setattr(Methods, _name, _function)

HINTS = {
    **dict.fromkeys(("cat", "concatenate", "hstack", "vstack"), "use ops.concat(xs, axis)"),
    "unsqueeze": "use ops.expand_dims(x, axis)",
    "clamp": "use ops.clip(x, min, max)",
    "absolute": "use ops.abs(x)",
    **dict.fromkeys(("permute", "transpose"), "use ops.permute_dims(x, axes)"),
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "inner"), "use ops.matmul(x, y), or x @ y"),
    "cumsum": "use ops.cumulative_sum(x, axis)",
    "cumprod": "use ops.cumulative_prod(x, axis)",
    "mul": "use ops.multiply(x, y), or x * y",
    "sub": "use ops.subtract(x, y), or x - y",
    **dict.fromkeys(("div", "true_divide"), "use ops.divide(x, y), or x / y"),
    "neg": "use ops.negative(x), or -x",
    "power": "use ops.pow(x, y), or x ** y",
    **dict.fromkeys(("mod", "fmod"), "use ops.remainder(x, y), or x % y"),
    "gt": "use ops.greater(x, y), or x > y",
    "ge": "use ops.greater_equal(x, y), or x >= y",
    "lt": "use ops.less(x, y), or x < y",
    "le": "use ops.less_equal(x, y), or x <= y",
    "eq": "use ops.equal(x, y), or x == y",
    "ne": "use ops.not_equal(x, y), or x != y",
    "gather": "use ops.take_along_axis(x, indices, axis)",
    "index_select": "use ops.take(x, indices, axis)",
    **dict.fromkeys(("index_add", "scatter", "segment_sum"), "use ops.scatter_add(x, indices, values, axis)"),
    "masked_fill": "use ops.where(mask, value, x)",
    **dict.fromkeys(("chunk", "tensor_split"), "use ops.split(x, parts, axis)"),
    "unbind": "use ops.unstack(x, axis)",
    **dict.fromkeys(("view", "ravel"), "use ops.reshape(x, shape), or ops.flatten(x)"),
    "expand": "use ops.broadcast_to(x, shape)",
    "repeat_interleave": "use ops.repeat(x, repeats, axis)",
    **dict.fromkeys(("tensor", "as_tensor", "from_numpy", "asarray", "array"), "use sknet.Tensor(data)"),
    **dict.fromkeys(
        ("rand", "randn", "randint"), "use sknet.Tensor of what numpy.random.default_rng() draws"
    ),
    "unique": "use ops.unique_values(x)",
    "swish": "use ops.silu(x)",
    "hard_swish": "use ops.hardswish(x)",
    "logsigmoid": "use ops.log_sigmoid(x)",
    "linear": "use x @ weight + bias, or nn.Linear",
    **dict.fromkeys(("cross_entropy", "nll_loss", "mse_loss", "l1_loss"), "the losses are in sknet.losses"),
    **dict.fromkeys(("no_grad", "enable_grad", "grad", "vmap"), "it is sknet.{0}"),
    **dict.fromkeys(
        ("arcsin", "arccos", "arctan", "arctan2", "arcsinh", "arccosh", "arctanh"), "use ops.a{0}(x)"
    ),
}
HINTS = {name: text.format(name.removeprefix("arc")) for name, text in HINTS.items()}
