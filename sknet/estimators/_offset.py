"""Offsets: numbers that are added to the outputs of a network before the link of its loss."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sknet import ops
from sknet._constraints import shown
from sknet.core import Tensor, no_grad
from sknet.device import active, device_of
from sknet.engine import Score
from sknet.engine._network import Head
from sknet.engine._scores import Gathered, may_wait
from sknet.estimators._fit import DataSet, Request
from sknet.estimators._inputs import on_host
from sknet.estimators._scaling import Units
from sknet.estimators._targets import Tempered
from sknet.losses import Loss
from sknet.losses._wrappers import Heads, Standardized, WithOffset, has_offset


def check_offset(offset: Any, n_rows: int, n_outputs: int, name: str = "offset") -> Any:
    try:
        found = np.asarray(on_host(offset), np.float64)
        got = f"shape {found.shape}"
    except (TypeError, ValueError):
        found, got = np.zeros(()), shown(offset)
    shapes = [(n_rows, n_outputs), *([(n_rows,)] if n_outputs == 1 else [])]
    if found.shape in shapes:
        wrong = np.argwhere(~np.isfinite(found))
        if not len(wrong):
            return found.reshape(n_rows, n_outputs)
        place = tuple(wrong[0].tolist())
        got = f"{found[place]:g} at {name}[{', '.join(map(str, place))}]"
    raise ValueError(
        f"{name} is added to the outputs of the network, and must have finite numbers of shape "
        f"{' or '.join(map(str, shapes))}; got {got}"
    )


def apply_offset(loss: Any, output: Any, offset: Any, head: Head | None, caller: str) -> Any:
    """Return what a head makes of raw outputs with an offset."""
    if not has_offset(loss):
        raise ValueError(
            f"offset= is for a {caller} that was fitted with one, and this one was not: call "
            "fit(X, y, offset=...) first"
        )
    n_outputs = output.shape[1] // len(getattr(loss, "losses", [loss]))
    offset = check_offset(offset, len(output), n_outputs)
    with no_grad(), active(device_of(output)), np.errstate(all="ignore"):
        return shifted_head(loss, head)(Tensor(output), offset).data


def shifted_head(loss: Any, head: Head | None) -> Callable[[Tensor, Any], Tensor]:
    """Return a function of outputs and offsets that computes what a head makes of their sum."""

    def of_both(output: Tensor, offset: Any) -> Tensor:
        # In float32, outputs would lose digits beside large offsets.
        z, link, dtype = ops.astype(output, np.float64), head, output.dtype
        if isinstance(link, Tempered):  # known log odds are no less certain where a network is overconfident
            z, link = link.tempered(z, link.temperature), link.link
        shifted = loss.shifted(z, offset)
        if link is not None:
            shifted, dtype = link(shifted), link(Tensor(np.zeros((1, output.shape[1]), dtype))).dtype
        return ops.astype(shifted, dtype)

    return of_both


def head_of_both(loss: Any, head: Head | None) -> Callable[[tuple[Tensor, Tensor]], Tensor]:
    """Return a head of pairs of outputs and offsets, as `shifted_head` computes it."""
    of_both = shifted_head(loss, head)
    return lambda pair: of_both(*pair)


def split_outputs(loss: Any, output: Any, target: Any) -> tuple[Any, Any]:
    """Return outputs with their offset, and targets without; both as they are where a fit has none."""
    if not isinstance(loss, WithOffset):
        return output, target
    with no_grad(), active(device_of(output)):
        z, y = loss.split(Tensor(output), Tensor(target))
        return z.data, y.data


# -- fits --------------------------------------------------------------------------------------------


def take_offset(request: Request, rows: DataSet, loss: Loss) -> tuple[DataSet, Loss]:
    """Return the rows of a fit with their offset, and the loss that reads it; unchanged without an offset."""
    estimator, offset = request.estimator, request.given.offset
    before = estimator.model_.loss_function if request.continuing else None
    if request.continuing and has_offset(before) != (offset is not None):
        was, now = ("an offset", "none") if offset is None else ("no offset", "one")
        raise ValueError(
            f"this network was fitted with {was}, and the fit that continues has {now}: give offset= in each "
            "of them, 0 where there is none, or begin anew"
        )
    if offset is None:
        return rows, loss
    _check_kind(request, rows, loss)
    offset = check_offset(offset, len(rows.y), estimator._targets.n_outputs)
    if isinstance(before, WithOffset):
        return rows._replace(offset=offset), before.around(loss)
    return rows._replace(offset=offset), adding_offset(loss, rows.y, offset)


def adding_offset(loss: Loss, y: Any, offset: Any, units: Units | None = None) -> WithOffset:
    """Return a loss of outputs with an offset, for targets as `loss` reads them."""
    n = offset.shape[1]
    made = WithOffset(loss, 0 if y.ndim == 1 else y.shape[1], (0.0,) * n, (1.0,) * n)
    return made if units is None else made.around(loss, units.mean, units.scale)


def _check_kind(request: Request, rows: DataSet, loss: Loss) -> None:
    """Raise a ValueError for a fit whose outputs have no offset."""
    targets = request.estimator._targets
    if not request.recipe.strict:
        why = "predict has scikit-learn's arguments in sknet.neural_network: fit the estimator of sknet"
    elif isinstance(loss, Heads):
        why = "outputs of several heads have no common offset: fit an estimator for one head"
    elif rows.y.ndim > 2 or (getattr(targets, "have_positions", False) and rows.y.ndim > 1):
        why = f"it is added to one row of outputs for each row of X, and y has shape {rows.labels.shape}"
    else:
        check_one_output(request.recipe.loss, loss.outputs_per_target)
        return
    raise ValueError(f"offset cannot be given here, since {why}")


def check_one_output(loss: Loss, n_outputs: int) -> None:
    """Raise a ValueError for a loss with several outputs for each target, which have no common offset."""
    if n_outputs > 1:
        raise ValueError(
            f"offset cannot be given here, since {shown(loss)} has {n_outputs} outputs for a target: use a "
            "loss with one"
        )


def standardize_targets(
    targets: Any, loss: Loss, y: Any, weight: Any, offset: Any, advice: str = "set scale_target=False"
) -> Units | None:
    """Let targets learn their units, of y less an offset in that unit; return the units of the offset."""
    assert loss.scaling is not None
    shifts = loss.scaling.shifts
    targets.standardize(y - offset if shifts and offset is not None else y, weight, shifts=shifts)
    if offset is None:
        return None
    units = _offset_units(loss, offset, weight, targets.scale, advice)
    if shifts:
        targets.mean = targets.mean + units.mean
    return units


def _offset_units(loss: Loss, offset: Any, weight: Any, scale: Any, advice: str) -> Units:
    """Return the center and scale of offsets, for a loss of targets that are divided by a `scale`."""
    assert loss.scaling is not None
    z = np.linspace(-1.0, 1.0, 5).reshape(-1, 1)
    with no_grad():
        predicted = loss.predict(Tensor(z)).numpy()
    expected = z if loss.scaling.shifts else np.exp(z)
    if predicted.shape != z.shape or not np.allclose(predicted, expected):
        link = "its outputs" if loss.scaling.shifts else "exponentials of its outputs"
        raise ValueError(
            f"an offset of standardized targets needs a loss whose predictions are {link}, and those of "
            f"{shown(loss)} are not: {advice}"
        )
    weight = None if weight is None else np.abs(weight)
    if loss.scaling.shifts:
        return Units(np.average(offset, axis=0, weights=weight), scale)
    most = offset.max(axis=0)
    mean = np.average(np.exp(offset - most), axis=0, weights=weight)
    return Units(most + np.log(mean), np.ones_like(scale))


def left_to_learn(loss: WithOffset, y: Any) -> Any:
    """Return residuals of targets with offsets, or minus the gradient of the loss at outputs of 0."""
    width = max(loss.n_columns, 1)
    if isinstance(loss.loss, Standardized) and loss.loss.shifts:
        return (y[:, :width] - y[:, width:]) * np.asarray(loss.loss.scale)
    z = Tensor(np.zeros((len(y), y.shape[1] - width)), requires_grad=True)
    with np.errstate(all="ignore"):
        loss.values(z, Tensor(y)).sum().backward()
    assert z.grad is not None
    return -z.grad


class OffsetScore(Score):
    """A score of outputs to which offsets are added first, of targets that have them as further columns."""

    may_wait = False  # as the score inside

    def __init__(self, score: Score, loss: WithOffset) -> None:
        self._score, self._loss = score, loss
        self.may_wait, self.reads_outputs = may_wait(score), score.reads_outputs

    def _split(self, output: Any, target: Any) -> tuple[Any, Any]:
        z, y = split_outputs(self._loss, output, target)
        if isinstance(self._score, Gathered):
            # Scorers read predictions, which are made of outputs as `predict` has them.
            with no_grad(), active(device_of(z)):
                z = self._loss.uncentered(Tensor(z)).data
        return z, y

    def add(self, output: Any, target: Any, weight: Any, rows: Any = None) -> None:
        self._score.add(*self._split(output, target), weight, rows)

    def of_epochs(
        self, n_epochs: int, output: Any, target: Any, sizes: Sequence[int] | None = None
    ) -> "list[Score] | None":
        found = self._score.of_epochs(n_epochs, *self._split(output, target), sizes)
        return None if found is None else [OffsetScore(each, self._loss) for each in found]

    def result(self) -> float:
        return self._score.result()

    def results(self) -> dict[str, float]:
        return self._score.results()

    def state(self) -> dict[str, Any]:
        return self._score.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._score.load_state(state)
