"""Models in random sequences of everything that a user can do between steps.

A compiled model, an uncompiled twin, and a third one that is copied or pickled at random moments do
the same, and have to be bitwise identical in results, errors and state. A tape that was recorded before
memory was written gives the gradient it would have given then, or raises.

    python -m tests.fuzz.sequences --cases 20000 --seed 0
"""

import contextlib
import copy
import pickle
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from sknet import Model, nn
from sknet.exceptions import StateError
from sknet.losses import Huber, LogLoss, SquaredError
from tests.fuzz.actions import CLASSES, WIDTH, Act, Reader, Twin, check_tapes, drawn_optimizer
from tests.fuzz.command import run, wrong_in
from tests.fuzz.fits import ACTIONS
from tests.fuzz.same import assert_same

LONGEST = 14
SEVERAL = (
    "step",
    "epoch",
    "best_weights",
    "functional",
    "fit",
    "train",
)  # more weight on actions that cannot fail


class Case:
    """A sequence of actions, drawn from a seed, and three models that perform it."""

    def __init__(self, seed: int) -> None:
        rng = self._rng = np.random.default_rng([20260101, seed])
        self.seed = seed
        self.done: list[str] = []
        network, loss = self._network(rng), self._loss(rng)
        optimizer = drawn_optimizer(rng)
        settings = {
            "alpha": float(rng.choice([0.0, 0.01])),
            "dtype": str(rng.choice(["float32", "float64"])),
            "random_state": int(rng.integers(1000)),
        }
        mode = True if rng.random() < 0.4 else "auto"
        self.twins = [
            Twin(Model(network(), loss(), optimizer(), compile=each, **settings), takes_hooks=mode == "auto")
            for each in (mode, False, mode)
        ]

    @staticmethod
    def _network(rng: Generator) -> Callable[[], Any]:
        norm, dropout, reader = rng.random() < 0.4, rng.random() < 0.4, rng.random() < 0.7

        def made() -> Any:
            middle = [
                *([nn.BatchNorm(WIDTH)] if norm else []),
                *([Reader()] if reader else [nn.Tanh()]),
                *([nn.Dropout(0.3)] if dropout else []),
            ]
            return nn.Sequential(
                nn.Linear(WIDTH, WIDTH), *middle, nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)
            )

        return made

    @staticmethod
    def _loss(rng: Generator) -> Callable[[], Any]:
        return [LogLoss, SquaredError, Huber][int(rng.integers(3))]  # type: ignore[return-value]

    def run(self) -> None:
        """Go through the sequence.

        Raises
        ------
        AssertionError
            Where two models differ.
        """
        rng = self._rng
        names = list(ACTIONS)
        weights = np.array([ACTIONS[name][0] for name in names], float)
        for _ in range(int(rng.integers(4, LONGEST))):
            name = str(rng.choice(names, p=weights / weights.sum()))
            self.done.append(name)
            act = ACTIONS[name][1](rng)
            moves = rng.random() < 0.3
            outcomes = [self._outcome(act, twin) for twin in self.twins]
            for other in outcomes[1:]:
                assert_same(outcomes[0], other, "outcome")
            self._compare()
            with np.errstate(all="ignore"):  # of what has overflowed
                for twin in self.twins:
                    check_tapes(twin)
            if moves:
                self._move(rng)

    def _outcome(self, act: Act, twin: Twin) -> Any:
        before = known(twin.model)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", RuntimeWarning)  # of NumPy's, about what overflows
            if any(layer_has_hooks(layer) for layer in twin.net.modules()):
                warnings.filterwarnings("ignore", message="the training step is not compiled")
            try:
                return act(twin)
            except (AssertionError, Warning):
                raise
            except Exception as error:
                failed = f"{type(error).__name__}: {error}"
        if isinstance(before, dict) and self.done[-1] not in SEVERAL:
            assert_same(before, known(twin.model), f"after {failed}")
        return failed

    def _compare(self) -> None:
        first, *others = (known(twin.model) for twin in self.twins)
        for other in others:
            assert_same(first, other, "state")

    def _move(self, rng: Generator) -> None:
        """Continue the third model as a copy, or from a pickle."""
        twin, way = self.twins[2], int(rng.integers(3))
        hooked = any(layer_has_hooks(layer) for layer in twin.net.modules())
        if twin.handles or hooked:
            return
        self.done.append(("copy", "deepcopy", "pickle")[way])
        model = twin.model
        copied = (model.copy, lambda: copy.deepcopy(model), lambda: pickle.loads(pickle.dumps(model)))[way]
        with contextlib.suppress(StateError):  # a lazy layer has no values yet
            twin.model = copied()


def layer_has_hooks(layer: Any) -> bool:
    return "_hooks" in vars(layer)


def known(model: Model) -> Any:
    """Return a model's contents, or the reason why there are none: a lazy layer, or one of another model."""
    try:
        return contents(model)
    except StateError as error:
        return str(error)


def contents(model: Model) -> dict[str, Any]:
    """Return all state that training changes, and the module's parameters."""
    state = model.state
    shown = {name: parameter.data for name, parameter in model.module.named_parameters()}
    for name, array in model.parameters.items():
        assert np.shares_memory(array, shown[name]), f"{name} has two homes"
    found = {f"parameter {name}": np.array(array) for name, array in shown.items()}
    for slot, flat in state.optimizer.slots.items():
        for name, view in model.memory.layout.views(flat).items():
            found[f"{slot} of {name}"] = view
    found.update({f"buffer {name}": array for name, array in state.buffers.items()})
    found["progress"] = tuple(state.progress)[:5]
    found["drawn"] = model.random_state.get_state()[1].copy()
    return found


def mismatch(seed: int) -> str | None:
    """Run one case; return what went wrong, or None."""
    return wrong_in(Case, seed)


if __name__ == "__main__":
    sys.exit(run(mismatch, __doc__, cases=1000))
