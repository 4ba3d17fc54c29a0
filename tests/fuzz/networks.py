"""Random small networks, trained in every way: each must agree with eager steps.

``python -m tests.fuzz.networks --cases 20000 --seed 0`` runs as many as requested and prints mismatches.
Eager steps are the reference. The plan that keeps every operation has to be bitwise identical, as long as
batches are C-contiguous; NumPy's plan may round differently. Native code has to be bitwise identical to
NumPy's plan, from the first step or from any later one on.
"""

import dataclasses
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.base import clone

from sknet import Model, nn
from sknet.engine import Batches
from sknet.engine._runners import CompiledSteps, EagerSteps, Steps
from sknet.exceptions import CaptureError, ShapeError
from sknet.optim import (
    EMA,
    SGD,
    SWA,
    Accumulate,
    Adam,
    AdamW,
    ClipNorm,
    ClipValue,
    Groups,
    Lion,
    Lookahead,
    RateFactors,
    Rprop,
    WeightDecay,
)
from sknet.optim.schedules import (
    CosineRestarts,
    CosLog,
    Exponential,
    FlatThenCosine,
    InverseScaling,
    InverseTime,
    Joined,
    Linear,
    OneCycle,
    Polynomial,
    WarmUp,
)
from tests.compile.native import ChangingSteps, InspectedSteps, left_by, trained
from tests.fuzz.command import run_kinds
from tests.fuzz.tangles import KINDS, NATIVE, Tangle
from tests.losses.test_contract import CASES as LOSS_CASES
from tests.losses.test_contract import probability
from tests.optim.helpers import with_eps
from tests.optim.test_contract import CASES as OPTIMIZERS

LOSSES = [case for case in LOSS_CASES if any(len(shape) == 2 for shape in case.shapes)]
COMBINED = [
    EMA(SGD(0.1), 0.9), SWA(Adam(0.05), start=2), Accumulate(SGD(0.1, momentum=0.5), 2),
    ClipNorm(SGD(0.1), 0.5), ClipValue(SGD(0.1), 0.01),
    WeightDecay(SGD(0.1, momentum=0.9), 0.1), Lookahead(SGD(0.1)),
    RateFactors(AdamW(0.05, weight_decay=CosLog(0.1, 2, 9)), {"*weights.0": 0.5}),
    Accumulate(ClipNorm(EMA(SGD(0.05), 0.8), 1.0), 2), Groups({"*weights.0": SGD(0.1), "*": Adam(0.01)}),
]  # fmt: skip
SCHEDULES = [
    InverseScaling(0.05), CosineRestarts(0.05, 3), Exponential(0.05, 0.8, unit="step"),
    Linear(0.05, n_steps=9), Polynomial(0.05, n_steps=7), OneCycle(0.05, n_steps=9), WarmUp(0.05, 4),
    Joined([0.01, Linear(0.05, n_steps=5)], [3]), FlatThenCosine(0.05, n_steps=8), CosLog(0.05, 2, 9),
    InverseTime(0.05, 3, 0.01),
]  # fmt: skip
LAYOUTS: dict[str, Callable[[np.ndarray], Any]] = {
    "C": lambda X: X,
    "F": np.asfortranarray,
    "every other column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "every other row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "in reverse": lambda X: X[::-1],
    "float32": lambda X: X.astype("float32"),
    "float64": lambda X: X.astype("float64"),
    "integers": lambda X: np.rint(2 * X).astype("int64"),
    "small integers": lambda X: np.rint(2 * X).astype("int8"),
    "read-only": lambda X: _read_only(X.copy()),
    "CSR": scipy.sparse.csr_array,
}
# Tolerance for rounding: relative to the largest number of an array, after a few steps of training.
TOLERANCE = {"float32": 2e-4, "float64": 1e-10}


@dataclasses.dataclass(frozen=True)
class Case:
    """All that a training needs; `module` makes a new module, with other last places if it gets a number."""

    seed: int
    module: Callable[[int], nn.Module]
    data: tuple[Any, np.ndarray, np.ndarray | None]
    settings: dict[str, Any]
    size: int
    epochs: int
    order: np.ndarray | None
    rows: np.ndarray | None
    layout: str

    @property
    def names(self) -> list[str]:
        """The steps of its module."""
        [tangle] = [module for module in self.module(0).modules() if isinstance(module, Tangle)]
        return tangle.names

    def __str__(self) -> str:
        settings = " ".join(f"{k}={v!r}" for k, v in self.settings.items())
        X, y, weight = self.data
        shuffled = "shuffled" if self.order is not None else "in order"
        return (
            f"seed {self.seed}: X {X.shape} {X.dtype} {self.layout}, y {y.shape} {y.dtype}, "
            f"{'weighted' if weight is not None else 'not weighted'}, batches of {self.size}, {shuffled}, "
            f"{settings}\n  {self.names}"
        )


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


# -- drawing ------------------------------------------------------------------------------------


def draw(seed: int) -> Case:
    """Return the case of a seed."""
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(["float32", "float64"], p=[0.3, 0.7]))
    loss = LOSSES[int(rng.integers(len(LOSSES)))]
    widths = [shape[1] for shape in loss.shapes if len(shape) == 2]
    n, n_features, n_outputs = int(rng.integers(1, 13)), int(rng.integers(1, 6)), int(rng.choice(widths))
    layout = str(rng.choice(list(LAYOUTS), p=[0.3] + [0.07] * (len(LAYOUTS) - 1)))
    X = LAYOUTS[layout](rng.normal(size=(n, n_features)).astype(dtype))
    y = loss.target(rng, (n, n_outputs))
    if y.dtype.kind == "f" and rng.random() < 0.8:
        y = y.astype(dtype)
    size = int(rng.choice([1, 2, 3, 4, 5, 8, 16]))
    rows = rng.permutation(n)[: max(n // 2, 1)] if rng.random() < 0.15 else None
    used = n if rows is None else len(rows)
    return Case(
        seed,
        _module(rng, n_features, n_outputs, dtype, loss.output is probability, layout == "CSR"),
        (X, y, _weight(rng, n, used % size or min(size, used), dtype)),
        {
            "loss": loss.loss,
            "optimizer": _optimizer(rng),
            "alpha": float(rng.choice([0.0, 0.01])),
            "dtype": dtype,
        },
        size,
        int(rng.integers(1, 4)),
        rng.permutation(used) if rng.random() < 0.5 else None,
        rows,
        layout,
    )


def _weight(rng: np.random.Generator, n: int, smallest: int, dtype: str) -> np.ndarray | None:
    kind = rng.choice(["none", "floats", "ones", "some zero", "float64"], p=[0.5, 0.15, 0.1, 0.15, 0.1])
    if kind == "none":
        return None
    weight = np.ones(n) if kind == "ones" else rng.uniform(0.2, 2.0, n)
    if kind == "some zero":
        weight[rng.permutation(n)[: smallest - 1]] = 0  # never all of a batch
    return weight if kind == "float64" else weight.astype(dtype)


def _optimizer(rng: np.random.Generator) -> Any:
    known = [case.optimizer for case in OPTIMIZERS]
    if rng.random() < 0.3:
        return with_eps(COMBINED[int(rng.integers(len(COMBINED)))], 1e-3)
    found = with_eps(known[int(rng.integers(len(known)))], 1e-3)
    if rng.random() < 0.4 and not isinstance(found, Groups):
        found.set_params(lr=clone(SCHEDULES[int(rng.integers(len(SCHEDULES)))]))
    return found


def _module(
    rng: np.random.Generator, n_features: int, n_outputs: int, dtype: str, probable: bool, sparse: bool
) -> Callable[[int], nn.Module]:
    kinds = NATIVE if rng.random() < 0.7 else KINDS
    width = int(rng.integers(1, 6)) if sparse else n_features
    seed, size = int(rng.integers(2**31)), int(rng.integers(1, 9))

    def make(shaken: int = 0) -> nn.Module:
        tangle: nn.Module = Tangle(seed, width, n_outputs, size, dtype, kinds, shaken)
        before = [nn.Linear(n_features, width)] if sparse else []
        after = [nn.Sigmoid()] if probable else []
        return nn.Sequential(*before, tangle, *after) if before or after else tangle

    return make


# -- training and comparing ---------------------------------------------------------------------


class Result(NamedTuple):
    """What training leaves, by name."""

    arrays: dict[str, np.ndarray]
    steps: Steps


def train(case: Case, kind: type[Steps], shaken: int = 0) -> Result:
    """Train a fresh model by steps of some kind."""
    settings = {
        **case.settings,
        "optimizer": clone(case.settings["optimizer"]),
        "compile": kind is not EagerSteps,
    }
    model, losses, outputs, steps = trained(
        kind, case.module(shaken), *case.data, size=case.size, epochs=case.epochs, order=case.order,
        rows=case.rows, check_finite=False, **settings,
    )  # fmt: skip
    return Result({"losses": losses, "outputs": outputs} | left_by(model), steps)


def step_by_step(case: Case, compiled: bool) -> dict[str, np.ndarray]:
    """Train by `Model.step`, batch by batch."""
    settings = {**case.settings, "optimizer": clone(case.settings["optimizer"])}
    model = Model(case.module(0), random_state=0, compile=compiled, **settings)
    batches = Batches(*case.data, case.size, model.dtype, model.device, case.rows)
    losses = []
    with np.errstate(all="ignore"):
        for _ in range(case.epochs):
            with model.epoch():
                for chosen, _ in batches.parts(case.order):
                    X, y, weight = batches.take(chosen)
                    # BLAS may round differently for another layout, and a program reads C-contiguous slots.
                    X = X if scipy.sparse.issparse(X) else np.ascontiguousarray(X)
                    losses.append(model.step(X, y, weight).loss)
    return {"losses": np.array(losses)} | left_by(model)


def difference(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> tuple[float, str]:
    """Return the largest difference, relative to the largest number of its array (or 1), and its location."""
    assert list(found) == list(expected), (list(found), list(expected))
    largest, where = 0.0, ""
    for name, array in expected.items():
        mine = found[name]
        assert (mine.shape, mine.dtype) == (array.shape, array.dtype), (
            name,
            mine.shape,
            mine.dtype,
            array.dtype,
        )
        if array.size == 0:
            continue
        with np.errstate(all="ignore"):
            a, b = mine.astype(float), array.astype(float)
            gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
            gap = np.where(np.isnan(gap), np.inf, gap).max() / max(
                1.0, np.abs(b[np.isfinite(b)]).max(initial=0)
            )
        if gap > largest:
            largest, where = float(gap), name
    return largest, where


def is_tame(arrays: dict[str, np.ndarray]) -> bool:
    """Tell whether all numbers can be compared up to rounding."""
    return all(np.isfinite(x).all() and np.abs(x.astype(float)).max(initial=0) < 1e6 for x in arrays.values())


def sensitivity(case: Case, expected: dict[str, np.ndarray]) -> float:
    """Return how much eager training differs if parameters and weights differ in their last places."""
    return max(
        difference(train(_shaken(case, number), EagerSteps, number).arrays, expected)[0]
        for number in range(1, 6)
    )


def _shaken(case: Case, number: int) -> Case:
    """Return the case with other last places of its weights."""
    X, y, weight = case.data
    last = np.finfo(case.settings["dtype"]).eps * np.random.default_rng(number).uniform(-1, 1, len(y))
    moved = (np.ones(len(y), case.settings["dtype"]) if weight is None else weight) * (1 + last)
    return dataclasses.replace(case, data=(X, y, moved.astype(case.settings["dtype"])))


def problems(case: Case) -> Iterator[tuple[str, str]]:
    """Train in every way; yield the kind of each mismatch, and a sentence."""
    tolerance = TOLERANCE[case.settings["dtype"]]
    try:
        expected = train(case, EagerSteps).arrays
    except ShapeError:  # of a norm over a batch of one row
        yield "skipped", "a batch is too small"
        return
    if not is_tame(expected):
        yield "skipped", "the numbers are not finite, or large"
        return
    if "written_in_place" in case.names and (reason := _refused(case)) is not None:
        yield "not captured", reason
        return
    gap, where = difference(step_by_step(case, True), step_by_step(case, False))
    if gap:
        yield "bits", f"a compiled step is not the eager one to the last bit: {gap:.1e} in {where}"
    planned = train(case, CompiledSteps).arrays
    gap, where = difference(planned, expected)
    if gap > tolerance:
        by_rounding = sensitivity(case, expected)
        is_wrong = gap > 100 * by_rounding and not _is_of_signs(case)
        kind = "CompiledSteps" if is_wrong else "ill-conditioned"
        yield kind, f"{gap:.1e} in {where}, by rounding {by_rounding:.1e}"
    if case.layout == "CSR":
        return
    for steps in (InspectedSteps, ChangingSteps):
        native = train(case, steps)
        gap, where = difference(native.arrays, planned)
        if gap:
            yield steps.__name__, f"{gap:.1e} in {where}: not the bits of NumPy's plan"
        if not isinstance(native.steps, InspectedSteps) or None in native.steps.runs:
            yield "not native", case.layout


def _is_of_signs(case: Case) -> bool:
    """Tell whether steps agree except for an optimizer that uses the sign of what may be rounding."""
    if not isinstance(case.settings["optimizer"], (Lion, Rprop)):
        return False
    plain = dataclasses.replace(case, settings={**case.settings, "optimizer": SGD(0.01)})
    gap, _ = difference(train(plain, CompiledSteps).arrays, train(plain, EagerSteps).arrays)
    return gap <= TOLERANCE[case.settings["dtype"]]


def _refused(case: Case) -> str | None:
    """Return why a change in place cannot be captured: one of what no gradient goes through."""
    try:
        train(case, CompiledSteps)
    except CaptureError as error:
        if "is changed in place" not in str(error):
            raise
        return str(error)
    return None


def checked(seed: int) -> list[tuple[str, str]]:
    """Return what is wrong with the case of a seed, and what to count."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return list(problems(draw(seed)))
        except Exception as error:
            return [(f"raised {type(error).__name__}", traceback.format_exc(limit=-6))]


if __name__ == "__main__":
    sys.exit(run_kinds(checked, lambda seed: str(draw(seed)), __doc__, {}))
