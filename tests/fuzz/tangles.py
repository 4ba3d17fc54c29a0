"""Random modules: all kinds of operations in `forward`, in random order."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sknet import Tensor, nn, ops

__all__ = ["KINDS", "NATIVE", "Tangle"]

Step = Callable[["Tangle", list[Any]], Any]
Made = tuple[str, Step]  # the form of the result ("nk 3": n rows of 3), and how it is computed

ROW_STATISTICS = (ops.mean, ops.sum, ops.max, ops.min, ops.var, ops.logsumexp, ops.prod, ops.std)
SMOOTH = {
    "tanh": ops.tanh,
    "sin": ops.sin,
    "exp": lambda x: ops.exp(ops.tanh(x)),
    "log": lambda x: ops.log(1.0 + x * x),
    "sqrt": lambda x: ops.sqrt(x * x + 0.1),
    "reciprocal": lambda x: 1.0 / (1.5 + ops.cos(x)),
    "log1p": lambda x: ops.log1p(ops.abs(x)),
    "expm1": lambda x: ops.expm1(ops.sin(x)),
    "power": lambda x: (ops.abs(x) + 0.5) ** 1.5,
    "cube": lambda x: ops.tanh(x) ** 3,
    "erf": ops.erf,
    "clip": lambda x: ops.clip(x, -0.4, 0.9),
    "softmax": lambda x: ops.softmax(x, axis=-1),
    "log_softmax": lambda x: ops.log_softmax(x, axis=-1),
    "softmax of columns": lambda x: ops.softmax(x, axis=0),
    "rounded": lambda x: x + ops.floor(x * 3.0 + 0.123),
    "detached": lambda x: x * 0.5 + ops.tanh(x.detach()),
    "absolute": ops.abs,
    "atan2": lambda x: ops.atan2(x, 1.0 + x * x),
    "hypot": lambda x: ops.hypot(x, 0.3),
    "logaddexp": lambda x: ops.logaddexp(x, 0.2),
    "masked": lambda x: ops.where(ops.logical_and(ops.greater(x, -0.5), ops.less(x, 0.7)), x, 0.1 * x),
    "as numbers": lambda x: x * ops.astype(ops.greater(x, 0.05), x.dtype),
}
PAIRS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / (1.0 + b * b),
    "maximum": ops.maximum,
    "minimum": ops.minimum,
    "where": lambda a, b: ops.where(ops.greater(a, b), 2.0 * a, b),
    "where of one": lambda a, b: ops.where(ops.less(b, 0.1), a, 0.5),
    "hypot": lambda a, b: ops.hypot(a, b + 2.0),
    "gate": lambda a, b: a * ops.sigmoid(b),
    "axpy": lambda a, b: a + 0.3 * b,
    "squared difference": lambda a, b: (a - b) ** 2,
}


class Tangle(nn.Module):
    """A module whose `forward` is drawn at random.

    Parameters
    ----------
    seed : int
        Random seed.
    n_features, n_outputs : int
        Lengths of rows.
    size : int
        Approximate number of steps in `forward`.
    shaken : int, default=0
        If not 0, all parameters are changed by a few units in the last place, to measure how much rounding
        affects the result of training.
    kinds : sequence of callable
        The kinds of steps: `KINDS` or `NATIVE`.
    """

    def __init__(
        self,
        seed: int,
        n_features: int,
        n_outputs: int,
        size: int,
        dtype: Any,
        kinds: Sequence[Callable[["Draw"], Made | None]],
        shaken: int = 0,
    ) -> None:
        self.weights = nn.ParameterList()
        self.layers = nn.ModuleList()
        draw = Draw(np.random.default_rng(seed), self, n_features, np.dtype(dtype), kinds)
        for _ in range(size):
            draw.step()
        draw.ending(n_outputs)
        self.steps, self.names = draw.steps, draw.names
        noise = np.random.default_rng(shaken)
        if shaken:
            for parameter in self.parameters():
                eps = np.finfo(dtype).eps
                parameter.data = parameter.data * (1 + 2 * eps * noise.choice([-1, 0, 1], parameter.shape))

    def forward(self, x: Any) -> Any:
        # Integers reach a module as they are.
        values = [x if x.dtype.kind == "f" else ops.astype(x, self.weights[0].dtype)]
        for step in self.steps:
            values.append(step(self, values))
        return values[-1]


class Draw:
    """Draws steps, given the form of every value: "nk 3", "n1", "n", "k 3", "1k 3" or "s"."""

    def __init__(
        self, rng: np.random.Generator, module: Tangle, n_features: int, dtype: np.dtype, kinds: Any
    ) -> None:
        self.rng, self.module, self.dtype, self.kinds = rng, module, dtype, kinds
        self.forms = [f"nk {n_features}"]
        self.steps: list[Step] = []
        self.names: list[str] = []
        self.shapes: list[tuple[int, ...]] = []

    # -- what there is ------------------------------------------------------------------------

    def matrix(self) -> tuple[int, int]:
        """Return the position of a value of n rows, late ones more often, and the length of its rows."""
        found = [i for i, form in enumerate(self.forms) if form.startswith("nk")]
        i = found[-1 - min(int(self.rng.geometric(0.6)) - 1, len(found) - 1)]
        return i, int(self.forms[i].split()[1])

    def weight(self, *shape: int) -> int:
        """Return the number of a parameter: a new one, or an existing one of this shape."""
        same = [i for i, other in enumerate(self.shapes) if other == shape]
        if same and self.rng.random() < 0.4:
            return int(self.rng.choice(same))
        scale = 1.0 / np.sqrt(shape[0]) if len(shape) == 2 else 0.8
        self.module.weights.append(nn.Parameter((self.rng.normal(size=shape) * scale).astype(self.dtype)))
        self.shapes.append(shape)
        return len(self.shapes) - 1

    def layer(self, module: nn.Module) -> int:
        self.module.layers.append(module)
        return len(self.module.layers) - 1

    def width(self) -> int:
        return int(self.rng.choice([1, 2, 3, 4, 5]))

    def step(self) -> None:
        """Draw one more step."""
        made = None
        while made is None:
            kind = self.kinds[int(self.rng.integers(len(self.kinds)))]
            made = kind(self)
        self.add(kind.__name__, *made)

    def add(self, name: str, form: str, step: Step) -> None:
        self.forms.append(form)
        self.steps.append(step)
        self.names.append(name)

    def ending(self, n_outputs: int) -> None:
        i, k = self.matrix()
        w, b = self.weight(k, n_outputs), self.weight(n_outputs)
        self.add("ending", f"nk {n_outputs}", lambda m, v: ops.tanh(v[i]) @ m.weights[w] + m.weights[b])


# -- kinds of steps: each returns the form of its result and the step, or None if nothing fits ----


def linear(draw: Draw) -> Made:
    (i, k), k2 = draw.matrix(), draw.width()
    w = draw.weight(k, k2)
    if draw.rng.random() < 0.5:
        b = draw.weight(k2)
        return f"nk {k2}", lambda m, v: v[i] @ m.weights[w] + m.weights[b]
    return f"nk {k2}", lambda m, v: v[i] @ m.weights[w]


def linear_transposed(draw: Draw) -> Made | None:
    i, k = draw.matrix()
    found = [(j, shape[0]) for j, shape in enumerate(draw.shapes) if len(shape) == 2 and shape[1] == k]
    if not found:
        return None
    w, k2 = found[int(draw.rng.integers(len(found)))]
    return f"nk {k2}", lambda m, v: v[i] @ m.weights[w].T


def linear_by_a_part(draw: Draw) -> Made | None:
    i, k = draw.matrix()
    found = [(j, s[1]) for j, s in enumerate(draw.shapes) if len(s) == 2 and s[0] == k and s[1] > 1]
    if not found:
        return None
    w, k2 = found[int(draw.rng.integers(len(found)))]
    part = slice(0, k2 - 1) if draw.rng.random() < 0.5 else slice(1, None)
    return f"nk {k2 - 1}", lambda m, v: v[i] @ m.weights[w][:, part]


def by_rows_that_belong_together(draw: Draw) -> Made:
    i, k = draw.matrix()
    if draw.rng.random() < 0.5:
        return f"nk {k}", lambda m, v: ops.softmax(v[i] @ v[i].T * 0.3, axis=-1) @ v[i]
    return f"nk {k}", lambda m, v: ops.tanh(v[i]) @ ops.tanh(v[i].T @ v[i] * 0.1)


def smooth(draw: Draw) -> Made:
    i, _ = draw.matrix()
    function = SMOOTH[str(draw.rng.choice(list(SMOOTH)))]
    return draw.forms[i], lambda m, v: function(v[i])


def small_value(draw: Draw) -> Made:
    i = int(draw.rng.integers(len(draw.forms)))
    return draw.forms[i], lambda m, v: ops.tanh(v[i]) * 0.9


def activation(draw: Draw) -> Made:
    (i, _), name = draw.matrix(), str(draw.rng.choice(list(nn.ACTIVATIONS)))
    module = draw.layer(nn.ACTIVATIONS[name]())
    return draw.forms[i], lambda m, v: m.layers[module](v[i])


def layer(draw: Draw) -> Made:
    i, k = draw.matrix()
    kinds = [
        lambda: nn.BatchNorm(k),
        lambda: nn.BatchNorm(k, momentum=None, affine=False),
        lambda: nn.LayerNorm(k),
        lambda: nn.RMSNorm(k),
        lambda: nn.GroupNorm(1, k),
        lambda: nn.PReLU(k),
        lambda: nn.PReLU(),
        lambda: nn.Dropout(0.3),
        lambda: nn.AlphaDropout(0.2),
    ]
    module = draw.layer(kinds[int(draw.rng.integers(len(kinds)))]())
    return f"nk {k}", lambda m, v: m.layers[module](v[i])


def gain(draw: Draw) -> Made:
    i, k = draw.matrix()
    shapes = [(k,), (1, k), (1,), (1, 1), ()]
    w = draw.weight(*shapes[int(draw.rng.integers(len(shapes)))])
    if draw.rng.random() < 0.5:
        return f"nk {k}", lambda m, v: v[i] * m.weights[w]
    return f"nk {k}", lambda m, v: m.weights[w] - v[i]


def row_statistic(draw: Draw) -> Made:
    i, _ = draw.matrix()
    function = ROW_STATISTICS[int(draw.rng.integers(len(ROW_STATISTICS)))]
    keep = bool(draw.rng.integers(2))
    if function is ops.std:
        return "n1" if keep else "n", lambda m, v: ops.sqrt(ops.var(v[i], axis=1, keepdims=keep) + 0.2)
    return "n1" if keep else "n", lambda m, v: function(ops.sin(v[i]), axis=1, keepdims=keep)


def column_statistic(draw: Draw) -> Made:
    i, k = draw.matrix()
    function = (ops.mean, ops.sum, ops.var, ops.max)[int(draw.rng.integers(4))]
    keep = bool(draw.rng.integers(2))
    return f"1k {k}" if keep else f"k {k}", lambda m, v: 0.2 * function(ops.tanh(v[i]), axis=0, keepdims=keep)


def statistic_of_all(draw: Draw) -> Made:
    i = int(draw.rng.integers(len(draw.forms)))
    function = (ops.mean, ops.sum, ops.max, ops.var)[int(draw.rng.integers(4))]
    return "s", lambda m, v: 0.3 * function(ops.sin(v[i]))


def pair(draw: Draw) -> Made | None:
    i, k = draw.matrix()
    fitting = {f"nk {k}", f"k {k}", f"1k {k}", "n1", "s"}
    found = [j for j, form in enumerate(draw.forms) if form in fitting]
    j = int(draw.rng.choice(found))
    function = PAIRS[str(draw.rng.choice(list(PAIRS)))]
    if draw.rng.random() < 0.5:
        return f"nk {k}", lambda m, v: function(v[i], v[j])
    return f"nk {k}", lambda m, v: function(v[j], v[i])


def pair_of_small_values(draw: Draw) -> Made | None:
    small = [j for j, form in enumerate(draw.forms) if not form.startswith("nk")]
    if not small:
        return None
    i = int(draw.rng.choice(small))
    j = int(draw.rng.choice([j for j in small if draw.forms[j] in (draw.forms[i], "s")]))
    function = PAIRS[str(draw.rng.choice(list(PAIRS)))]
    return draw.forms[i], lambda m, v: function(v[i], v[j])


def outer(draw: Draw) -> Made | None:
    rows = [j for j, form in enumerate(draw.forms) if form in ("n", "n1")]
    columns = [(j, form) for j, form in enumerate(draw.forms) if form[:2] in ("k ", "1k")]
    if not rows or not columns:
        return None
    i = int(draw.rng.choice(rows))
    j, form = columns[int(draw.rng.integers(len(columns)))]
    return f"nk {form.split()[1]}", lambda m, v: v[i].reshape(-1, 1) * v[j]


def from_both_sides(draw: Draw) -> Made | None:
    rows = [j for j, form in enumerate(draw.forms) if form == "n"]
    if not rows:
        return None
    (i, k), j = draw.matrix(), int(draw.rng.choice(rows))
    return f"nk {k}", lambda m, v: (v[i].T * v[j]).T


def against_itself(draw: Draw) -> Made:
    i, k = draw.matrix()
    w = draw.weight(k)
    return (
        f"nk {k}",
        lambda m, v: v[i] * ops.tanh(m.weights[w].reshape(-1, 1) - 0.5 * m.weights[w]).sum(axis=0),
    )


def residual(draw: Draw) -> Made:
    (i, k), k2 = draw.matrix(), draw.width()
    a, b = draw.weight(k, k2), draw.weight(k2, k)
    function = SMOOTH[str(draw.rng.choice(list(SMOOTH)))]
    return f"nk {k}", lambda m, v: v[i] + function(v[i] @ m.weights[a]) @ m.weights[b]


def some_columns(draw: Draw) -> Made:
    i, k = draw.matrix()
    parts = [slice(None, None, -1), slice(0, None, 2), slice(k // 2, None), slice(0, 1)]
    part = parts[int(draw.rng.integers(len(parts)))]
    return f"nk {len(range(*part.indices(k)))}", lambda m, v: v[i][:, part]


def one_column(draw: Draw) -> Made:
    i, k = draw.matrix()
    j = int(draw.rng.integers(-k, k))
    return "n", lambda m, v: v[i][:, j]


def rows_in_reverse(draw: Draw) -> Made:
    i, k = draw.matrix()
    return f"nk {k}", lambda m, v: v[i][::-1]


def flat_and_back(draw: Draw) -> Made:
    i, k = draw.matrix()
    if draw.rng.random() < 0.5:
        return f"nk {k}", lambda m, v: (ops.sin(v[i].reshape(-1)) * 1.1).reshape(-1, k)
    return f"nk {k}", lambda m, v: (v[i].reshape(-1, 1, k) * 1.1).reshape(-1, k)


def pairs_of_columns(draw: Draw) -> Made | None:
    i, k = draw.matrix()
    if k % 2:
        return None
    return f"nk {k // 2}", lambda m, v: v[i].reshape(-1, k // 2, 2).sum(axis=-1)


def joined(draw: Draw) -> Made | None:
    (i, a), (j, b) = draw.matrix(), draw.matrix()
    if a + b > 8:
        return None
    return f"nk {a + b}", lambda m, v: ops.concat([v[i], v[j]], axis=-1)


def stacked(draw: Draw) -> Made:
    i, k = draw.matrix()
    return f"nk {k}", lambda m, v: ops.stack([v[i], ops.tanh(v[i])], axis=1).mean(axis=1)


def written_in_place(draw: Draw) -> Made:
    (i, k), way = draw.matrix(), int(draw.rng.integers(5))
    column = int(draw.rng.integers(k))

    def step(module: Tangle, values: list[Any]) -> Tensor:
        h = values[i] * 1.0
        if way == 0:
            h += 0.1 * h
        elif way == 1:
            h *= ops.sin(h)
        elif way == 2:
            h[:, column] = ops.cos(h[:, column])
        elif way == 3:
            h[:, : column + 1] += values[i][:, k - column - 1 :]
        else:
            h[0] = h[-1] * 0.5
        return h

    return f"nk {k}", step


def embedded(draw: Draw) -> Made:
    i, k = draw.matrix()
    w, column = draw.weight(5, k), int(draw.rng.integers(int(draw.forms[0].split()[1])))

    def step(module: Tangle, values: list[Any]) -> Tensor:
        # Of the input, which is not affected by rounding.
        rows = ops.astype(
            ops.remainder(ops.floor(ops.abs(values[0][:, column].detach()) * 3.0), 5.0), "int64"
        )
        return values[i] + ops.take(module.weights[w], rows, axis=0)

    return f"nk {k}", step


def tokens(draw: Draw) -> Made:
    """Attention among the numbers of a row."""
    (i, k), d = draw.matrix(), int(draw.rng.choice([1, 2, 4]))
    w, q, out = draw.weight(k, d), draw.weight(d, d), draw.weight(d)
    heads = 2 if d > 1 and draw.rng.random() < 0.5 else 1

    def step(module: Tangle, values: list[Any]) -> Tensor:
        x = values[i].reshape(-1, k, 1) * module.weights[w]
        parts = [
            ops.permute_dims(h.reshape(-1, k, heads, d // heads), (0, 2, 1, 3))
            for h in (x @ module.weights[q], x)
        ]
        scores = ops.softmax(parts[0] @ ops.permute_dims(parts[1], (0, 1, 3, 2)), axis=-1)
        mixed = ops.permute_dims(scores @ parts[1], (0, 2, 1, 3)).reshape(-1, k, d)
        return (mixed * module.weights[out]).sum(axis=-1)

    return f"nk {k}", step


def channels(draw: Draw) -> Made:
    """Treat rows as sequences of one channel."""
    (i, k), c = draw.matrix(), int(draw.rng.choice([1, 2, 3]))
    kinds = [
        lambda: nn.BatchNorm(c),
        lambda: nn.GroupNorm(1, c),
        lambda: nn.Identity(),
        lambda: nn.Dropout(0.3),
    ]
    w = draw.weight(c, 1, 3)
    norm = draw.layer(kinds[int(draw.rng.integers(len(kinds)))]())

    def step(module: Tangle, values: list[Any]) -> Tensor:
        h = module.layers[norm](ops.conv1d(values[i].reshape(-1, 1, k), module.weights[w], padding=1))
        return ops.tanh(h).mean(axis=1)

    return f"nk {k}", step


def normed_tokens(draw: Draw) -> Made:
    (i, k), d = draw.matrix(), int(draw.rng.choice([2, 3]))
    w, norm = draw.weight(k, d), draw.layer(nn.LayerNorm(d))
    function = SMOOTH[str(draw.rng.choice(list(SMOOTH)))]

    def step(module: Tangle, values: list[Any]) -> Tensor:
        return function(module.layers[norm](values[i].reshape(-1, k, 1) + module.weights[w])).mean(axis=-1)

    return f"nk {k}", step


KINDS = (
    linear, linear, linear, linear_transposed, linear_by_a_part, by_rows_that_belong_together, smooth, smooth,
    small_value, activation, activation, layer, layer, gain, row_statistic, column_statistic,
    against_itself, statistic_of_all, pair, pair, pair, pair_of_small_values, outer, from_both_sides,
    residual, some_columns, one_column, rows_in_reverse, flat_and_back, pairs_of_columns, joined, stacked,
    written_in_place, embedded, tokens, channels, normed_tokens,
)  # fmt: skip
# Those that have always had native code, whatever else is drawn.
NATIVE = (
    linear, linear, linear_transposed, smooth, small_value, activation, activation, layer, gain,
    row_statistic, column_statistic, pair, pair, pair_of_small_values, outer, residual,
    statistic_of_all,
)  # fmt: skip
