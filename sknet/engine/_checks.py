"""Checks of outputs, targets and weights, and of the range of outputs that a loss expects."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from sknet._constraints import shown
from sknet._warnings import warn_caller
from sknet.core import Primitive, Tensor, TracedArray
from sknet.core._tensor import untracked_leaves
from sknet.device import namespace
from sknet.engine._inputs import arguments
from sknet.engine._model_like import ModelLike
from sknet.exceptions import GradientError
from sknet.losses import Loss
from sknet.losses._base import finite_numbers
from sknet.nn import Linear, Module
from sknet.nn._lazy import copy_for_shapes, shadows, shape_pass


def note_inputs(model: ModelLike, X: Any) -> None:
    """Store the names of the inputs that a model is trained on, if there are several."""
    model._input_names = list(X) if isinstance(X, dict) else None


def check_given(names: Sequence[str] | None, X: Any, where: str = "X", other: str = "") -> None:
    """Raise a ValueError if X lacks an input of the fit, without which the network is another function."""
    if not names:
        return
    given = list(X) if isinstance(X, dict) else names[:1]
    missing = [name for name in names if name not in given]
    if not missing:
        return
    if missing[0] == "lengths":
        raise ValueError(
            "the network was fitted with lengths, and without them padding would be read as data: give "
            f"{other}{where}={{{given[0]!r}: ..., 'lengths': ...}}. Rows without padding have the length "
            f"{where}.shape[1]"
        )
    raise ValueError(
        f"the network was fitted with the input {missing[0]!r}, and {where} has only {given}: give it, too, "
        "as predictions and scores would be those of another network"
    )


def note_last_layer(error: Exception, module: Module) -> None:
    """Add a note to an error about outputs and targets that names the network's last layer."""
    path, last = last_layer(module)
    if path:
        error.add_note(f"the last layer of the network is {path!r}: {last!r}")


def last_layer(module: Module) -> tuple[str, Module]:
    """Return path and module of the last registered layer; the path is empty if there are none."""
    path, last = "", module
    while children := list(last.named_children()):
        name, last = children[-1]
        path = f"{path}.{name}" if path else name
    return path, last


def are_classes(loss: Loss, y: Any) -> bool:
    """Tell whether targets may be numbers of classes."""
    return y.dtype.kind in "biu" and loss.tasks != ("regression",)


def n_outputs_of(output: Tensor) -> int:
    return int(output.shape[-1]) if output.ndim > 1 else 1


def check_classes_for(loss: Loss, module: Module, output: Tensor, y: Any) -> None:
    """Raise a ValueError if a target is not among the classes that an output has columns for."""
    data = y.data if isinstance(y, Tensor) else y
    if isinstance(data, np.ndarray) and are_classes(loss, data):
        check_classes(loss, module, data, n_outputs_of(output), "y")


def check_classes(loss: Loss, module: Module, y: Any, count: int, name: str) -> None:
    try:
        loss.check_target(y, name=name, n_outputs=count or None)
    except ValueError as error:
        if count:
            outputs = "1 output" if count == 1 else f"{count} outputs"
            error.add_note(f"the network has {outputs} for a target: change its last layer, or the targets")
        note_last_layer(error, module)
        raise error from None


def check_targets(loss: Loss, y: Tensor) -> None:
    """Let the loss check targets for negative integers, which would index classes from the end."""
    if y.dtype.kind == "i" and y.size and _least(y) < 0:
        loss.check_target(y.numpy())


def warn_of_probabilities(loss: Loss, output: Tensor) -> None:
    """Warn if a loss that expects logits is given the output of a softmax or a sigmoid."""
    if _are_probabilities(loss, output):
        warn_caller(
            f"{loss!r} expects raw outputs (logits), but these look like probabilities: remove the "
            "softmax or sigmoid at the end of the network, or use NLL() or BinaryCrossEntropy()",
            UserWarning,
        )


def _expects_logits(loss: Loss) -> bool:
    classifies = "binary" in loss.tasks or "ordinal" in loss.tasks
    return classifies and loss.has_probabilities and not loss.of_probabilities


def _are_probabilities(loss: Loss, output: Tensor) -> bool:
    if not _expects_logits(loss) or not output.size:
        return False
    if output.ndim < 2 or output.shape[-1] == 1 or getattr(loss, "multilabel", False):
        made_by = getattr(output.node, "primitive", None)
        return made_by is not None and made_by.name == "sigmoid"
    xp, rows = namespace(output.data), output.data
    if not xp.min(rows, axis=None).item() >= 0:
        return False
    return bool(xp.max(xp.absolute(xp.sum(rows, axis=-1) - 1), axis=None).item() < 1e-4)


def check_range(array: Any, dtype: Any, name: str) -> None:
    """Raise a ValueError if numbers are finite and would be infinite in a dtype."""
    kind = np.dtype(dtype)
    array = array.data if hasattr(array, "tocsr") else array
    if type(array) is not np.ndarray or array.dtype.kind != "f" or kind.kind != "f" or not array.size:
        return
    if array.dtype.itemsize <= kind.itemsize:
        return
    limit, (low, high) = float(np.finfo(kind).max), (float(array.min()), float(array.max()))
    if max(-low, high) > limit and max(-low, high) < np.inf:
        what = f"large for {kind}, whose largest number is {limit:.2g}"
        raise ValueError(_message(name, low, high, what, kind))


def check_ranges(X: Any, dtypes: Any) -> None:
    """Raise a ValueError if numbers of an input are finite and would be infinite in its dtype."""
    if isinstance(X, dict):
        for name, x in X.items():
            check_range(x, dtypes[name], str(name))
    else:
        check_range(X, dtypes, "X")


def check_total(weight: Any, dtype: Any) -> float:
    """Return the sum of absolute weights; raise a ValueError if a dtype does not hold it, or its inverse."""
    kind = np.dtype(dtype)
    if type(weight) is not np.ndarray or not weight.size or weight.dtype.kind != "f" or kind.kind != "f":
        return math.nan
    limits, low, high = np.finfo(kind), float(weight.min()), float(weight.max())
    with np.errstate(over="ignore", under="ignore"):
        total = float(np.abs(weight).sum(dtype=np.float64))
    if not total or not math.isfinite(high - low):
        return math.nan
    if not float(limits.tiny) / float(limits.eps) <= total <= float(limits.max) * float(limits.eps):
        size, way = ("large", "Divide") if total > 1 else ("small", "Multiply")
        what = f"{size} for {kind}: the loss is divided by their sum, which is {total:.3g}"
        raise ValueError(_message("sample_weight", low, high, what, kind, way))
    return total


def check_losses(model: ModelLike, y: Any, weight: Any = None) -> None:
    """Check the sizes of weights before a fit, and of targets before a first one."""
    loss, dtype = model.loss_function, model.dtype
    total = check_total(weight, dtype)
    if model.alpha * float(np.finfo(dtype).eps) > total:
        raise ValueError(
            f"sample_weight has a sum of {total:.3g}, by which the penalty is divided: with "
            f"alpha={model.alpha:g} it hides the data from a network in {dtype}. Multiply the weights by a "
            "constant, or set alpha=0"
        )
    power = 0.0 if loss.scaling is None else loss.scaling.power
    if model.progress.step or power <= 0 or type(y) is not np.ndarray or y.dtype.kind != "f" or not y.size:
        return  # a trained network may predict targets of any size
    low, high, limits = float(y.min()), float(y.max()), np.finfo(dtype)
    most = max(-low, high)
    if not 0 < most < np.inf:
        return
    if power * math.log2(most) > math.log2(limits.max):
        what = f"large for {loss!r} in {dtype}: their power of {power:g} is infinite there"
        raise ValueError(_message("y", low, high, what, dtype))
    if most < limits.eps:
        what = f"small for a network, whose outputs of about 1 are rounded by {limits.eps:.2g} in {dtype}"
        warn_caller(_message("y", low, high, what, dtype, "Multiply"), UserWarning)


def _message(name: str, low: float, high: float, what: str, dtype: Any, way: str = "Divide") -> str:
    mends = {"y": f"{way} y by a constant, or in estimators of networks set scale_target=True"}
    if name.startswith("sample_weight"):
        mends[name] = f"{way} the weights by a constant"
    mend = mends.get(name, "Scale its columns, for example by StandardScaler")
    other = "" if dtype == np.float64 else "; or compute with dtype='float64'"
    return f"{name} has values from {low:.3g} to {high:.3g}, too {what}. {mend}{other}"


def check_weights(weight: Tensor) -> None:
    """Raise a ValueError if no weight is positive, or negative ones count more; warn of negative ones."""
    if not namespace(weight.data).any(weight.data).item():
        raise ValueError("sample_weight: at least one weight must be positive, got zeros only")
    if weight.size and _least(weight) < 0:
        check_signs(weight.numpy(), "sample_weight")


def check_signs(weight: np.ndarray[Any, Any], name: str) -> None:
    """Raise a ValueError if weights are not finite, or negative ones count more; warn of negative ones."""
    finite_numbers(weight, name)
    least = float(weight.min(initial=0.0))
    if not least < 0:
        return
    total = float(weight.sum(dtype=np.float64))
    if total <= 0:
        raise ValueError(
            f"{name} must have a positive sum, got {total:g}, with weights down to {least:g}: negative "
            "weights subtract rows from like ones that count more"
        )
    warn_caller(
        f"{name} has {int((weight < 0).sum())} negative weights, and the loss falls without bound if rows "
        "like these do not count more with positive ones. If you know that they do, silence this warning: "
        'warnings.filterwarnings("ignore", message=".* negative weights")',
        UserWarning,
    )


def _least(x: Tensor) -> float:
    return namespace(x.data).min(x.data, axis=None).item()


def check_reached(loss: Tensor, leaves: Mapping[str, Tensor], frozen: Mapping[str, Tensor]) -> None:
    """Raise a GradientError unless a loss can have a gradient for a model's parameters."""
    if not any(parameter.requires_grad for parameter in recorded(loss, leaves, frozen)):
        raise GradientError(
            "the loss does not depend on this model's parameters: compute it from this model's output, "
            "model.loss(model(X), y), outside of no_grad"
        )


def recorded(output: Tensor, leaves: Mapping[str, Tensor], frozen: Mapping[str, Tensor]) -> list[Tensor]:
    """Return a network's parameters for the penalty of an output: detached if the output was not recorded."""
    parameters = list(leaves.values())
    late = untracked_leaves(output, parameters, list(frozen.values()))
    if late:
        name = next(name for name, leaf in leaves.items() if leaf is late[0])
        raise GradientError(
            f"{name!r} was frozen, or not part of the network, when the output or a term of the loss was "
            "computed, so its whole gradient is unknown: compute output and loss again"
        )
    return parameters if late is not None else [p.detach() for p in parameters]


Range = tuple[float, float]

ANY: Range = (-math.inf, math.inf)
DEEPEST = 8  # operations that two operands are compared through
# These return values of their first operand.
SAME = frozenset(
    {
        *("reshape", "permute_dims", "astype", "broadcast_to", "getitem", "take", "take_along_axis"),
        *("sort", "max", "min", "max_pool", "positive"),
    }
)
FIXED: dict[str, Range] = {
    "sigmoid": (0.0, 1.0),
    "softmax": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "erf": (-1.0, 1.0),
    "sin": (-1.0, 1.0),
    "cos": (-1.0, 1.0),
    "erfc": (0.0, 2.0),
    "atan": (-math.pi / 2, math.pi / 2),
    "log_softmax": (-math.inf, 0.0),
    "log_sigmoid": (-math.inf, 0.0),
    "softplus": (0.0, math.inf),
}


class _Made(NamedTuple):
    """A result with its operation and bounds; kept, so that no other result has its id."""

    result: Any
    name: str
    operands: list[Any]
    bounds: Range


class Bounds:
    """Bounds of all results of a pass without data, as its argument `seen` takes them."""

    def __init__(self) -> None:
        self._made: dict[int, _Made] = {}

    def __call__(self, primitive: Primitive, operands: list[Any], result: Any) -> None:
        self._made[id(result)] = _Made(
            result, primitive.name, operands, self._found(primitive.name, operands, result)
        )

    def of(self, x: Any) -> Range:
        """Return the smallest and the largest value that an array may hold."""
        if isinstance(x, TracedArray):
            made = self._made.get(id(x))
            return ANY if made is None else made.bounds
        values = np.asarray(x)
        if values.dtype.kind not in "biuf" or not values.size or np.isnan(values).any():
            return ANY
        return float(values.min()), float(values.max())

    def joined(self, x: Any) -> list[Any]:
        """Return the arrays that an array is joined from."""
        made = self._made.get(id(x))
        return made.operands if made is not None and made.name == "concat" else [x]

    def _found(self, name: str, operands: list[Any], result: Any) -> Range:
        if name in FIXED:
            return FIXED[name]
        if name in SAME:
            return self.of(operands[0])
        if name == "sum":
            count = math.prod(operands[0].shape) // max(math.prod(result.shape), 1)
            return _product(self.of(operands[0]), (count, count))
        if name == "divide" and self._is_share(*operands):
            return 0.0, 1.0
        rule = RULES.get(name)
        return ANY if rule is None else rule(*map(self.of, operands))

    def _is_share(self, part: Any, whole: Any) -> bool:
        """Tell whether `whole` is the sum of `part` and of others, none of which is negative."""
        made = self._made.get(id(whole))
        while made is not None and made.name in ("reshape", "broadcast_to"):
            made = self._made.get(id(made.operands[0]))
        if made is None or made.name != "sum" or self.of(part)[0] < 0:
            return False
        return self._is_same(part, made.operands[0], DEEPEST)

    def _is_same(self, a: Any, b: Any, depth: int) -> bool:
        """Tell whether two arrays are derived in the same way from the same arrays."""
        if a is b:
            return True
        first, second = self._made.get(id(a)), self._made.get(id(b))
        if first is None or second is None:
            return not isinstance(a, TracedArray) and not isinstance(b, TracedArray) and bool(np.all(a == b))
        alike = depth > 0 and first.name == second.name and len(first.operands) == len(second.operands)
        pairs = zip(first.operands, second.operands, strict=False)
        return alike and all(self._is_same(x, y, depth - 1) for x, y in pairs)


def _rising(function: Callable[[float], Any]) -> Callable[[Range], Range]:
    """Return the rule of a function that rises everywhere."""

    def rule(x: Range) -> Range:
        with np.errstate(all="ignore"):
            return float(function(x[0])), float(function(x[1]))

    return rule


def _product(x: Range, y: Range) -> Range:
    ends = [a * b if a and b else 0.0 for a in x for b in y]
    return min(ends), max(ends)


def _quotient(x: Range, y: Range) -> Range:
    if y[0] < 0 < y[1] or y == (0.0, 0.0):
        return ANY
    ends = (1 / y[1] if y[1] else -math.inf, 1 / y[0] if y[0] else math.inf)
    return _product(x, ends)


def _square(x: Range) -> Range:
    low, high = sorted(map(abs, x))
    return 0.0 if x[0] < 0 < x[1] else low * low, high * high


def _hull(*ranges: Range) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _larger(x: Range, y: Range) -> Range:
    return max(x[0], y[0]), max(x[1], y[1])


def _smaller(x: Range, y: Range) -> Range:
    return min(x[0], y[0]), min(x[1], y[1])


RULES: dict[str, Callable[..., Range]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "subtract": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "multiply": _product,
    "divide": _quotient,
    "negative": lambda x: (-x[1], -x[0]),
    "square": _square,
    "abs": lambda x: (0.0 if x[0] < 0 < x[1] else min(map(abs, x)), max(map(abs, x))),
    "exp": _rising(np.exp),
    "exp2": _rising(np.exp2),
    "expm1": _rising(np.expm1),
    "relu": _rising(lambda x: max(x, 0.0)),
    "maximum": _larger,
    "minimum": _smaller,
    "clip": lambda x, low, high: _smaller(_larger(x, low), high),
    "where": lambda _, x, y: _hull(x, y),
    "concat": _hull,
}


OWN = "sknet."
ROUNDED = 1e-5  # beyond 0 and 1, as the bounds are computed


def look_at_output(model: ModelLike, take: Callable[[Any], Any]) -> None:
    """Warn once if a network returns numbers between 0 and 1 only, and its loss expects logits."""
    memory, loss, module = model.memory, model.loss_function, model.module
    heads: Mapping[str, Loss] = getattr(loss, "heads", {"": loss})
    if memory.looked or model._has_seen_output or not any(map(_expects_logits, heads.values())):
        return
    memory.looked = True
    if not _may_end_so(module):
        return
    widths = list((getattr(loss, "outputs", None) or {}).values())
    ranges = _ranges_of(module, arguments(take(np.arange(1))), model.dtype, widths)
    for (name, each), (low, high) in zip(heads.items(), ranges, strict=True):
        if _expects_logits(each) and low >= -ROUNDED and high <= 1 + ROUNDED:
            of = f" of the head {name!r}" if name else ""
            warn_caller(
                f"{each!r}{of} expects raw outputs (logits), but these look like probabilities: remove the "
                "softmax or sigmoid at the end of the network (whatever the inputs, its outputs lie between "
                "0 and 1), since the loss applies its own; or train a Model with NLL() or "
                "BinaryCrossEntropy(), which expect probabilities",
                UserWarning,
            )


def _may_end_so(module: Module) -> bool:
    """Tell whether a pass is worthwhile: layers of sknet end in what is registered last."""
    own = all(type(each).__module__.startswith(OWN) for each in module.modules())
    return not (own and isinstance(last_layer(module)[1], Linear))


def _ranges_of(module: Module, inputs: Any, dtype: Any, widths: Sequence[int]) -> list[Range]:
    """Return bounds of the outputs, or of the columns of each head, of which there are so many."""
    bounds, count = Bounds(), max(len(widths), 1)
    try:
        output = shape_pass(copy_for_shapes(module), shadows(inputs, dtype, bounds), seen=bounds)
    except Exception:  # its code depends on values, or is wrong, which the first step says better
        return [ANY] * count
    if not isinstance(output, Tensor):
        return [ANY] * count
    parts = bounds.joined(output.data)
    are_heads = [part.shape[-1:] for part in parts] == [(width,) for width in widths]
    return [bounds.of(part) for part in parts] if are_heads else [bounds.of(output.data)] * count


class CompileMode:
    """The attribute `compile` of a `Model`: True, False or "auto"."""

    def __get__(self, model: Any, owner: Any = None) -> Any:
        mode = self if model is None else vars(model)["compile"]
        return Auto(mode) if mode == "auto" else mode

    def __set__(self, model: Any, mode: bool | str) -> None:
        if not (isinstance(mode, bool) or mode == "auto"):
            raise ValueError(
                f"The 'compile' parameter of Model must be True, False or 'auto'. Got {shown(mode)} instead."
            )
        vars(model)["compile"] = mode if isinstance(mode, bool) else "auto"


class Auto(str):
    """The mode "auto", whose call, as of a method of Keras, is an error that says what to write instead."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            "a Model is not compiled by a call: give loss and optimizer when it is made, as in "
            "Model(module, loss='log_loss', optimizer=Adam(lr=0.01)), and metrics as scores= of fit. Its "
            "parameter `compile` says whether training steps are captured"
        )
