"""Random small programs to which rewriting rules apply, on extreme operands: eager against compiled.

    python -m tests.fuzz.rewriting --cases 20000 --seed 0

A case is a number, which determines the program and its operands. Compiled with ``exact=True`` results
have to be bitwise identical to eager ones (except for the sign of a zero from a sum); otherwise they have
to be possible results of the eager operations with different rounding (`tests.fuzz.extremes`).
"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from sknet import Tensor, ops
from sknet.compile import capture
from sknet.core import gradients
from tests.fuzz.command import run
from tests.fuzz.extremes import INTEGERS, check, operand

__all__ = ["Case", "made", "mismatches"]

MATRICES = ((4, 6), (4, 6), (4, 6), (4, 6), (4, 6), (4, 6), (1, 6), (4, 1), (0, 6), (3, 2))
NUMBERS = ["0.0", "-0.0", "1.0", "-1.0", "1", "2", "0.5", "2.0", "-3.0", "0.3", "1e-3", "7.0", "1e6", "0.25"]
WILD = ["1e30", "1e-30", "1e300", "1e-300", "np.inf", "-np.inf", "np.nan", "True", "65504.0", "6e-8"]
WHOLE = ["0", "1", "2", "3", "-1", "7", "100", "255", "True", "0.5", "-3.0"]
DTYPES = ("float32", "float32", "float64", "float64", "float16", "integer")

# Templates: {a}, {b}, ... are earlier values, {c}, {d} are numbers, {k} is an array of constants.
COMMON = """
{a} + {b}
{a} - {b}
{a} * {b}
-{a}
-{a}
-({a} - {b})
-({a} * {c})
-({c} * {a})
{a} + (-{b})
{a} - (-{b})
{c} + (-{a})
{c} - (-{a})
(-{a}).astype('int64') + {b}
{b} - (-{a}).astype('float64')
{c} * {a}
{a} + {c}
{a} - {c}
{c} - {a}
-({a} * {b})
-((-{a}) * {b})
ops.where({a} > {c}, {b}, 0)
ops.where({a} < {b}, 0, {a})
{a}.sum(-1, keepdims=True)
ops.reshape(ops.reshape({a}, (-1,)), {a}.shape)
ops.broadcast_to({a}, {shape})
{a} * {k}
{a} + {k}
ops.maximum({a}, {b})
{a} * 1
{a} - 0
{a} + 0
ops.concat([ops.reshape({a}, (-1,)), ops.reshape({b}, (-1,))])
ops.broadcast_to({a}, {shape}) * {c}
-ops.broadcast_to({a}, {shape})
{a}.astype('{dtype}')
ops.abs({a})
ops.square({a})
ops.max({a}, axis=-1, keepdims=True)
{a}.reshape(*{a}.shape, 1).sum(-1)
{a} ** 2
ops.relu({a})
ops.take_along_axis({m}, {i}, -1)
{a} - {a}
ops.minimum({a}, {c})
""".strip().split("\n")
REAL = """
{a} / {b}
{a} / {c}
{c} / {a}
-({a} / {b})
-({a} / {c})
-({c} / {a})
-({a} / ({b} - {a}))
ops.exp({a})
ops.log({a})
ops.exp({a} - ops.log({b}))
{a} * {c} * {d}
{a} * {c} / {d}
{a} / {c} * {d}
{a} / {c} / {d}
{a} * {b} * {c}
({c} * {a}) / {b}
({c} * {a}) * {b}
{a} ** 0.5
ops.sqrt({a})
ops.softmax({m})
ops.log_softmax({m})
ops.exp(ops.log_softmax({m}))
ops.softmax({m}) * {b}
ops.softmax({m}) * {c}
ops.exp({m} - ops.logsumexp({m}, -1, keepdims=True))
({a} * {b}).sum()
({m} - ops.max({m}, axis=-1, keepdims=True))
ops.exp({m} - ops.log(ops.exp({m}).sum(-1, keepdims=True)))
{a} + {c} * {b}
{a} - {c} * {b}
{m}.reshape(-1) + {c} * {n}.reshape(-1)
{m}.reshape(-1) - {a}.sum() * {n}.reshape(-1)
({m} @ ops.permute_dims({n}, (1, 0))) + {c} * ops.square(x0 @ x0.T)
ops.permute_dims({m}, (1, 0))
ops.permute_dims({m}, (1, 0)) * 1
{a} @ {b}
{a} @ {k}
{a} @ ops.permute_dims({a}, (1, 0))
ops.permute_dims({m}, (1, 0)) @ {k}
{k} @ ops.permute_dims({m}, (1, 0))
{a}.sum() / {c}
ops.take_along_axis(ops.log_softmax({m}), {i}, -1)
-ops.take_along_axis(ops.log_softmax({m}), {i}, -1).mean()
ops.take_along_axis({m} - ops.log({a}), {i}, -1)
ops.abs({a}) ** 0.5
{a} ** 0.5
-{a} ** 0.5
({a} * {b}) * {b}
({a} * {c}) * ({b} * {d})
ops.sigmoid({a})
ops.tanh({a})
{a} * {a}
1.0 / {a}
({m} * {n}).sum(-1)
{m}.sum(0) * {c}
ops.expm1({a})
""".strip().split("\n")


@dataclass(frozen=True)
class Case:
    """A program as text, and operands."""

    lines: tuple[str, ...]
    outputs: tuple[str, ...]
    gradient: bool
    arrays: dict[str, np.ndarray]
    constants: dict[str, Any]

    @property
    def source(self) -> str:
        """The program as a function that returns a list."""
        names = list(self.arrays)
        returned = f"[{', '.join(self.outputs)}]"
        if self.gradient:
            leaves = [name for name, x in self.arrays.items() if x.dtype.kind == "f"]
            mark = [f"{name}.requires_grad = True" for name in leaves]
            returned = f"gradients({self.outputs[0]}.sum(), [{', '.join(leaves)}])"
        else:
            mark = []
        body = "\n    ".join([*mark, *self.lines, f"return {returned}"])
        return f"def program({', '.join(names)}):\n    {body}\n"

    def function(self) -> Any:
        """Return the program."""
        namespace = {"np": np, "ops": ops, "gradients": gradients, **self.constants}
        exec(self.source, namespace)
        return namespace["program"]


def made(number: int, seed: int = 0) -> Case:
    """Return a case: operations are drawn, and those that raise are left out."""
    rng = np.random.default_rng([seed, number])
    dtype = str(rng.choice(DTYPES))
    is_real = dtype != "integer"
    dtype = dtype if is_real else str(rng.choice(INTEGERS))
    shape = MATRICES[rng.integers(len(MATRICES))]
    fitting = (shape, shape, (shape[0], 1), shape[1:], (1, shape[1]), ())
    shapes = [shape, *[fitting[i] for i in rng.integers(len(fitting), size=rng.integers(0, 3))]]
    tame = float(rng.choice([0.0, 0.3, 0.8]))
    arrays = {f"x{i}": operand(rng, shape, dtype, tame) for i, shape in enumerate(shapes)}
    constants: dict[str, Any] = {"i": rng.integers(-shape[1], shape[1], (shape[0], 1))}
    for i in range(2):
        value = operand(rng, fitting[rng.integers(len(fitting))], dtype, 0.5)
        is_uniform = value.size and rng.random() < 0.6
        constants[f"k{i}"] = np.full_like(value, value.flat[0]) if is_uniform else value
    writer = _Writer(rng, dtype, is_real, arrays, constants)
    lines = writer.lines()
    made_here = list(writer.values)[len(arrays) :]
    outputs = made_here[-1:] + [name for name in made_here[:-1] if rng.random() < 0.15]
    last = writer.values[outputs[0]] if outputs else None
    gradient = bool(is_real and last is not None and last.dtype.kind == "f" and rng.random() < 0.3)
    return Case(tuple(lines), tuple(outputs or list(arrays)[:1]), gradient, arrays, constants)


class _Writer:
    """Draws the lines of a program, and computes them as it goes."""

    def __init__(
        self,
        rng: np.random.Generator,
        dtype: str,
        is_real: bool,
        arrays: dict[str, Any],
        constants: dict[str, Any],
    ) -> None:
        self._rng, self._dtype, self._constants = rng, dtype, constants
        self._shape = arrays["x0"].shape
        self._templates = [*COMMON, *REAL] if is_real else COMMON
        self._numbers = NUMBERS if is_real else WHOLE
        self.values: dict[str, Tensor] = {name: Tensor(x) for name, x in arrays.items()}

    def lines(self) -> list[str]:
        found = []
        for _ in range(self._rng.integers(2, 8)):
            text = self._filled(str(self._rng.choice(self._templates)))
            value = self._computed(text)
            if value is not None:
                name = f"v{len(found)}"
                self.values[name] = value
                found.append(f"{name} = {text}")
        return found

    def _filled(self, template: str) -> str:
        names = list(self.values)
        recent = names[-1] if self._rng.random() < 0.6 else str(self._rng.choice(names))
        matrices = [name for name in names if self.values[name].shape == self._shape]
        wild = self._numbers is NUMBERS and self._rng.random() < 0.15
        numbers = WILD if wild else self._numbers
        c, d = (str(self._rng.choice(numbers)) for _ in range(2))
        first, second = (recent, str(self._rng.choice(names)))
        if self._rng.random() < 0.3:
            first, second = second, first
        return template.format(
            a=first, b=second, c=c, d=d, i="i", dtype=self._dtype, k=f"k{self._rng.integers(2)}",
            shape=self._shape, m=matrices[-1], n=str(self._rng.choice(matrices)),
        )  # fmt: skip

    def _computed(self, text: str) -> Tensor | None:
        try:
            with np.errstate(all="ignore"):
                value = eval(text, {"np": np, "ops": ops, **self._constants, **self.values})
        except (TypeError, ValueError, OverflowError, IndexError):
            return None  # operations that raise eagerly are left out of the program
        is_small = isinstance(value, Tensor) and value.size <= 96 and value.ndim <= 2
        return value if is_small else None


def mismatches(case: Case, number: int = 0) -> list[str]:
    """Return what is wrong with a case, in words."""
    function, arrays = case.function(), list(case.arrays.values())
    try:
        with np.errstate(all="ignore"):
            function(*map(Tensor, arrays))
    except (TypeError, ValueError, OverflowError) as error:
        return [f"eager: {type(error).__name__}: {error}"] if not case.gradient else []
    found = []
    for exact in (True, False):
        try:
            wrong = check(function, capture(function, *arrays), arrays, exact=exact, seed=number)
        except Exception as error:  # any error is wrong
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            found.append(f"{'exact' if exact else 'relaxed'}: {wrong}")
    return found


def mismatch(number: int) -> str | None:
    """Return what is wrong with a case, and the case; None if nothing is."""
    case = made(number)
    found = mismatches(case, number)
    shown = {name: (x.dtype.name, x.shape) for name, x in case.arrays.items()}
    return f"-- case {number}: {shown}\n{case.source}" + "\n".join(found) if found else None


if __name__ == "__main__":
    sys.exit(run(mismatch, __doc__, cases=1000))
