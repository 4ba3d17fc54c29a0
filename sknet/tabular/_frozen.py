"""Frozen ensembles, without anything of a training, and checks of ensembles in files."""

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sknet._fields import ABSENT, COUNT, FINITE, Arrays, Each, Named, Texts, Together
from sknet.core import Tensor
from sknet.engine import History
from sknet.engine._model_copies import slim_model
from sknet.engine._network import predict_raw
from sknet.estimators._inputs import RowsWithOffset
from sknet.estimators._portable import portable_loss
from sknet.estimators._stored import check_labels_of, check_network
from sknet.estimators._targets import prediction_of
from sknet.losses import Loss
from sknet.losses._wrappers import without_offset
from sknet.persistence import write_atomically
from sknet.preprocessing._plan import FittedEncoder
from sknet.preprocessing._schema import Schema, Table
from sknet.tabular._members import NEIGHBORS
from sknet.tabular._predicting import Classifies, Counted, Mix, OfOneRow, Predicts, Regresses, blended
from sknet.tabular._training import Member


@dataclass(frozen=True)
class Parts:
    members: list[Counted]
    targets: Any
    loss: Loss
    _stored_fields = {
        "targets": Named("ClassEncoder", "RealTargets", "ArrayTargets"),
    }


class FrozenTabular(Predicts):
    _program: OfOneRow | None = None
    _stored_fields = {
        "_members": Each(list, Together(Member, FINITE)),
        "_encoder": FittedEncoder,
        "_targets": Named("ClassEncoder", "RealTargets", "ArrayTargets"),
        "_loss_function": Loss,
    }

    def _check_stored(self) -> None:
        if not self._members or self._encoder is not self._members[0][0].encoder:
            raise ValueError("its encoder is not that of its first member")

        members = [member for member, _ in self._members]
        check_members(members, self._targets, self._loss_function, self._encoder.n_features_in_)
        check_bounds(self)

    def __init__(self, parts: Parts) -> None:
        encoders = {id(member.encoder): FittedEncoder(member.encoder) for member, _ in parts.members}
        self._members = [
            (
                replace(
                    member,
                    encoder=encoders[id(member.encoder)],
                    model=slim_model(member.model),
                    history=History(),
                ),
                factor,
            )
            for member, factor in parts.members
        ]
        self._encoder = self._members[0][0].encoder
        self._targets, self._loss_function = parts.targets, parts.loss

    def _mixed(self, X: Any) -> np.ndarray:
        return self._mixed_rows(self._encoder.read(X))

    def _mixed_rows(self, table: Table) -> np.ndarray:
        return self._of_one_row(table) if _is_dense_row(table) else blended(self._members, table)

    def _answered(self, X: Any, kind: str, offset: Any = None, coverage: Any = None) -> Any:
        if offset is not None or coverage is not None or type(X) is RowsWithOffset:
            return super()._answered(X, kind, offset, coverage)
        table = self._encoder.read(X)
        if not _is_dense_row(table):
            return self._made(self._mixed_rows(table), kind)
        program = self._of_one_row
        known = program.predictions.get(kind)
        if known is None:
            known = program.predictions[kind] = prediction_of(self, kind)
        name, head, result = known
        return result(program(table, name, head))

    @property
    def _of_one_row(self) -> OfOneRow:
        program = self._program
        if program is None:
            program = self._program = OfOneRow(self._members)
        return program

    @property
    def n_features_in_(self) -> int:
        return int(self._encoder.n_features_in_)

    @property
    def feature_names_in_(self) -> Any:
        """Names of the columns of X, if X in the fit had string names."""
        return self._encoder.feature_names_in_

    @property
    def _loss(self) -> Loss:
        return self._loss_function

    reads_tables = True
    _kind: str

    def to_python(self, path: str | os.PathLike[str], *, coverage: float | None = None) -> None:
        """Write a Python file with functions that do the same as the methods, and need only NumPy.

        Parameters
        ----------
        path : path-like
            The file to write: a module with `predict`, `predict_proba`, ..., which holds all members and
            their encoders. Tables are arrays, lists of rows, data frames, or dicts of columns by name.
        coverage : float, default=None
            Coverage of the file's `predict_interval`. None is 0.8; if the loss has learned quantiles of
            another coverage, the file has no such function.

        Raises
        ------
        CaptureError
            If a level of a category is neither a string nor a number.
        ValueError
            If the loss has learned no interval of this coverage.

        Notes
        -----
        Results are the same to the bit, except that those with sparse encodings differ in the last digits.
        """
        write_atomically(Path(path), [self.as_python(None, coverage).encode()])

    def as_python(self, layer: Any = None, coverage: float | None = None, table: Any = None) -> str:
        """Return the text of the file that `to_python` writes; `table` writes the encoding of tables."""
        from sknet.tabular._python import ensemble_file  # predictions do without

        if layer is not None:
            raise TypeError(f"layer= names a layer of one network, and this is {self!r}")
        return ensemble_file(self, self._kind, coverage, table, vars(self).get("_bounds"))

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes, with graphs in place of a loss of the user's."""
        state = {name: value for name, value in vars(self).items() if name != "_program"}
        member, _ = self._members[0]
        row = np.zeros((1, member.encoder.n_features_out_), np.float32)
        loss = portable_loss(self._loss_function, lambda: Tensor(predict_raw(member.model, row)))
        if loss is self._loss_function:
            return state
        members = [
            (replace(each, model=slim_model(each.model, loss)), factor) for each, factor in self._members
        ]
        return {**state, "_members": members, "_loss_function": loss}

    def __repr__(self) -> str:
        found = without_offset(self._loss)
        loss = type(getattr(found, "loss", found)).__name__  # the one inside of a wrapping loss
        return f"{type(self).__name__}({len(self._members)} members, {loss})"


class FrozenTabularClassifier(Classifies, FrozenTabular):
    """Ensemble that only classifies: small, picklable, and without training state.

    Made by ``TabularClassifier.freeze()``. For a single row all encoders are one, and all members one
    program, which is compiled at the first.

    Parameters
    ----------
    parts : Parts
        Parts of a fitted ensemble.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet.tabular import TabularClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = TabularClassifier(n_folds=2, budget=0.2, random_state=0).fit(X, y)
    >>> frozen = clf.freeze()
    >>> bool((frozen.predict_proba(X[:1]) == clf.predict_proba(X[:1])).all())
    True
    """

    _kind = "classifier"

    @property
    def classes_(self) -> Any:
        """The labels, sorted."""
        return self._targets.classes


class FrozenTabularRegressor(Regresses, FrozenTabular):
    """Ensemble that only predicts numbers: small, picklable, and without training state.

    Made by ``TabularRegressor.freeze()``. For a single row all encoders are one, and all members one
    program, which is compiled at the first.

    Parameters
    ----------
    parts : Parts
        Parts of a fitted ensemble.
    bounds : pair of float or ndarray
        Smallest and largest prediction.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from sknet.tabular import TabularRegressor
    >>> X, y = make_regression(100, 5, random_state=0)
    >>> reg = TabularRegressor(n_folds=2, budget=0.2, random_state=0).fit(X, y)
    >>> bool((reg.freeze().predict(X[:1]) == reg.predict(X[:1])).all())
    True
    """

    _kind = "regressor"
    _stored_fields = {
        "_bounds": [Together(float, float), Together(Arrays("f", "n_outputs"), Arrays("f", "n_outputs"))],
    }

    def __init__(self, parts: Parts, bounds: tuple[Any, Any]) -> None:
        super().__init__(parts)
        self._bounds = bounds


def _is_dense_row(table: Table) -> bool:
    return table.n_rows == 1 and table.sparse is None


ENSEMBLE: Mapping[str, Any] = {
    "n_features_in_": COUNT,
    "feature_names_in_": [Texts("n_features_in_"), ABSENT],
    "_targets": Named("ClassEncoder", "RealTargets", "ArrayTargets"),
    "_schema": Schema,
    "_loss_function": Loss,
    "members_": Each(list, Member),
    "encoder_": Each(list, Named("TableEncoder", "FittedEncoder", fitted="_plan")),
    "_mix": Mix,
    "mix_": dict[str, float],
    "temperature_": dict[str, float],
    "oof_score_": float,
    "feature_importances_": [Arrays("f", "n_features_in_"), ABSENT],
    "oof_prediction_": [Arrays("biufOUS", "n_rows"), Arrays("fiu", "n_rows", "n_outputs")],
}


def check_ensemble(ensemble: Any) -> None:
    """Raise a ValueError if fitted attributes contradict each other."""
    check_labels_of(ensemble)
    check_members(ensemble.members_, ensemble._targets, ensemble._loss_function, ensemble.n_features_in_)
    _check_mix(ensemble)


def check_members(members: Iterable[Member], targets: Any, loss: Loss, n_features: int) -> None:
    """Raise a ValueError unless each network takes what its encoder returns and returns what targets need."""
    n_outputs = targets.n_outputs * loss.outputs_per_target
    for member in members:
        encoder, model = member.encoder, member.model
        if encoder.n_features_in_ != n_features:
            raise ValueError(f"a member reads {encoder.n_features_in_} columns, and a table has {n_features}")
        check_network(model.module, encoder.n_features_out_, model.dtype, targets, n_outputs)


def _check_mix(ensemble: Any) -> None:
    """Raise a ValueError if members are not mixed as the attributes say."""
    mix, kinds = ensemble._mix, {member.kind for member in ensemble.members_}
    if not kinds or not kinds == mix.weights.keys() == mix.temperatures.keys():
        raise ValueError(f"members of the kinds {sorted(kinds)} are mixed as {mix.weights}")
    if ensemble.mix_ != mix.weights or ensemble.temperature_ != mix.temperatures:
        raise ValueError(f"mix_ and temperature_ are {ensemble.mix_} and {ensemble.temperature_}, not {mix}")
    added = mix.weights.get(NEIGHBORS, 0.0) if ensemble._numeric_targets else 0.0
    if not math.isclose(sum(mix.weights.values()) - added, 1.0):
        raise ValueError(f"the weights of kinds must sum to 1, and are {mix.weights}")
    encoders = {id(encoder) for encoder in ensemble.encoder_}
    if not all(id(member.encoder) in encoders for member in ensemble.members_):
        raise ValueError("encoder_ lacks that of a member")


def check_bounds(ensemble: Any) -> None:
    """Raise a ValueError unless a prediction may be between two bounds for each target."""
    if "_bounds" not in vars(ensemble):
        return
    lowest, highest = map(np.asarray, ensemble._bounds)
    if not (lowest <= highest).all() or (lowest.ndim and len(lowest) != ensemble._targets.n_outputs):
        raise ValueError(f"predictions of {ensemble._targets.n_outputs} targets cannot be within its bounds")
