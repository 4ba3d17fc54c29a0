"""MultiHeadNet: an estimator of networks with several heads, each with a loss of its own."""

from collections.abc import Callable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sknet._constraints import satisfies, shown
from sknet._fields import Each, Items
from sknet._frames import gaps_in
from sknet._hints import suggestion
from sknet._late import available_if
from sknet._params import described_by, store_parameters
from sknet._validation import Interval, StrOptions
from sknet.callbacks import Callback
from sknet.engine import Batches, Model, Score
from sknet.engine._layer_outputs import Chosen
from sknet.estimators._architecture import Architecture, WithHeads
from sknet.estimators._base import goes_in_steps
from sknet.estimators._checks import r2_of_seen
from sknet.estimators._classifier import class_weighted
from sknet.estimators._fit import FitArguments, Recipe, Request
from sknet.estimators._head_scoring import head_scorer
from sknet.estimators._head_targets import (
    HeadTargets,
    as_heads,
    has_classes,
    host_array,
    labels_of,
)
from sknet.estimators._inputs import follows_namespace, on_host, with_lengths
from sknet.estimators._layers import numbered
from sknet.estimators._members import MEMBERS
from sknet.estimators._net import MODULE, NetOptions
from sknet.estimators._options import CONSTRAINTS, DRAWS, SCALE_TARGET, NamedOptions, check_loss_of_logits
from sknet.estimators._sequences import SequenceFit
from sknet.estimators._targets import RealTargets
from sknet.exceptions import InvalidParameterError
from sknet.losses import Loss
from sknet.losses._wrappers import Heads
from sknet.optim import BaseOptimizer
from sknet.optim.schedules import Schedule

if TYPE_CHECKING:
    from sknet.estimators._frozen import FrozenMultiHeadNet
    from sknet.preprocessing import TableEncoder

OPTIONS: dict[str, Any] = {"loss_weights": [dict, None], "class_weight": [dict, None]}
SAMPLER: dict[str, Any] = {"sampler": [StrOptions({"weight"}), DRAWS, None]}  # classes are of heads
WEIGHT = Interval(Real, 0, None, closed="left")


@described_by(NamedOptions)
class MultiHeadNet(NetOptions, SequenceFit):
    """Network with several heads for targets of different kinds, each with its own loss.

    A head with a loss for classes is a classifier, any other a regressor. Targets are a dict of arrays, or a
    data frame with columns, by the names of the heads; predictions are returned in the same form.

    Parameters
    ----------
    module : ModuleFactory, type of Module, callable or Module
        The network. It returns a dict by the names of the heads, a tuple in the order of `loss`, or one array
        that has the columns of all heads. A factory, ``nn.ModuleFactory(MyNet, hidden=64)``, or a class
        builds it in `fit`; its argument ``n_outputs`` is a dict of the numbers of outputs that the heads
        need.
    loss : dict of str to str, Loss or callable
        The loss of each head: "log_loss" and others for classes, "squared_error" and others for numbers; see
        `sknet.losses`. A function ``(y_true, output)`` reads numbers.
    loss_weights : dict of str to float, or None, default=None
        Factors of the losses of heads in their sum; 1 for heads that are not named.
    scale_target : bool or "auto", default="auto"
        Standardize the targets of each regression, so that the losses have similar sizes. Predictions are in
        the targets' own units; the loss that is reported is the sum that is minimized. "auto" standardizes
        for heads whose loss allows it.
    sampler : "weight", callable or None, default=None
        Draw the rows of an epoch with replacement, as many as there are: "weight" draws them in proportion to
        their weights, which then do not multiply the loss; a function ``(y, sample_weight)``, with a dict or
        frame y as in `fit`, returns the relative frequency of each row. None takes each row once.
    class_weight : dict or None, default=None
        Weights of the classes of each head, as a dict or "balanced", by the names of the heads.
    scoring : str, callable, list, dict or None, default=None
        Metrics of each epoch besides the loss: a dict of scorers by the names of heads, such as ``{"price":
        "r2", "kind": "accuracy"}``, or scorers ``(estimator, X, y)``. None is the mean of the heads' scores,
        R2 and accuracies; "loss" is no metric but the loss.
    n_members : int, default=1
        Networks of an ensemble, which are fitted together from seeds drawn by `random_state`, and whose
        predictions and probabilities are averaged.

    Attributes
    ----------
    classes_ : dict of ndarray
        The sorted labels of each head with classes.
    histories_ : list of History
        Histories of the members, if there are several; `history_` and attributes derived from it have their
        means.
    n_outputs_ : int
        Number of outputs of the network, of all heads together.

    Notes
    -----
    Some targets of a head may be missing (NaN or None). A missing target has the weight 0, and a row has the
    mean weight of its targets.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MultiHeadNet, nn
    >>> class Net(nn.Module):
    ...     def __init__(self, n_features, n_outputs, hidden=32):
    ...         self.trunk = nn.Sequential(nn.Linear(n_features, hidden), nn.ReLU())
    ...         self.width = nn.Linear(hidden, n_outputs["width"])
    ...         self.kind = nn.Linear(hidden, n_outputs["kind"])
    ...
    ...     def forward(self, x):
    ...         x = self.trunk(x)
    ...         return {"width": self.width(x), "kind": self.kind(x)}
    >>> X, y = load_iris(return_X_y=True)
    >>> X, y = X[:, :3], {"width": X[:, 3], "kind": y}
    >>> losses = {"width": "squared_error", "kind": "log_loss"}
    >>> net = MultiHeadNet(Net, losses, lr=0.01, tol=1e-3, random_state=0)
    >>> net.fit(X, y).score(X, y) > 0.9
    True
    >>> {name: found.shape for name, found in net.predict(X[:5]).items()}
    {'width': (5,), 'kind': (5,)}
    >>> net.predict_proba(X[:5])["kind"].shape
    (5, 3)
    """

    _parameter_constraints = CONSTRAINTS | OPTIONS | SCALE_TARGET | SAMPLER | MODULE | MEMBERS
    _numeric_targets = True
    _targets_of_any_rank = False
    _targets: HeadTargets
    _stored_fields = {"classes_": Items(str, [np.ndarray, Each(list, np.ndarray)])}

    def __init__(
        self,
        module: Any,
        loss: "Mapping[str, str | Loss | Callable[..., Any]]",
        *,
        loss_weights: Mapping[str, float] | None = None,
        encoder: "str | TableEncoder | None" = None,
        optimizer: str | BaseOptimizer = "adam",
        lr: "float | Schedule | None" = None,
        alpha: float = 1e-4,
        batch_size: int | str = "auto",
        max_iter: int = 200,
        shuffle: bool = True,
        scale_inputs: bool = True,
        scale_target: bool | str = "auto",
        sampler: Any = None,
        class_weight: Any = None,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.1,
        validation_split: Any = None,
        scoring: Any = None,
        monitor: str | None = None,
        refit_on_all: bool = False,
        n_iter_no_change: float = 10,
        tol: float = 1e-4,
        frozen: "str | list[str] | None" = None,
        warm_start: bool = False,
        verbose: bool | int | str = False,
        callbacks: list[Callback] | None = None,
        n_members: int = 1,
        bootstrap: bool = False,
        device: str | None = "auto",
        dtype: Any = "auto",
        random_state: Any = None,
    ) -> None:
        store_parameters(self, locals())

    # -- parameters ---------------------------------------------------------------------------------

    def _described(self) -> Architecture:
        return WithHeads(super()._described())

    def _checked_loss(self) -> Heads:
        caller = type(self).__name__
        given = self.loss
        if not isinstance(given, Mapping) or not given or not all(_is_name(name) for name in given):
            raise InvalidParameterError(
                f"The 'loss' parameter of {caller} must be a dict with the name and the loss of each head, "
                "such as {'price': 'squared_error', 'kind': 'log_loss'}; names are texts without '__'. Got "
                f"{shown(given)} instead."
            )
        losses = {
            name: check_loss_of_logits(each, f"{caller}, head {name!r}") for name, each in given.items()
        }
        for name, each in losses.items():
            for option, advice in (
                ("ignore_index", "leave such targets missing, None"),
                ("class_weight", f"set class_weight={{{name!r}: ...}} of the estimator"),
            ):
                if getattr(each, option, None) is not None:
                    raise ValueError(
                        f"{each!r} of the head {name!r}: {option} is not supported here, {advice}"
                    )
        return Heads(losses, _weights_of(self.loss_weights, losses, caller))

    # -- targets ------------------------------------------------------------------------------------

    def _numbered(self, request: Request, y: Any, reset: bool) -> Any:
        caller = type(self).__name__
        if y is None:
            raise ValueError(
                f"This {caller} estimator requires y to be passed, but the target y is None: a dict or frame "
                "with a target for each head"
            )
        if reset:
            loss: Any = request.recipe.loss
            self._check_scaled(loss)
            self._targets = HeadTargets(y, loss, request.recipe.scale_target, request.classes, caller)
        return self._targets.read(y, caller)

    def _recipe(self) -> Recipe:
        found, scoring = super()._recipe(), self.scoring
        if isinstance(scoring, Mapping) and scoring.keys() <= self.loss.keys():
            found = found._replace(scoring={name: head_scorer(name, one) for name, one in scoring.items()})
        return found

    @property
    def _loss(self) -> Loss | None:
        if self.__sklearn_is_fitted__():
            return self.model_.loss_function
        try:
            return self._checked_loss()
        except (TypeError, ValueError):  # which the fit says
            return None

    def _check_scaled(self, loss: Heads) -> None:
        """Raise a ValueError if targets shall be standardized for a loss that does not allow it."""
        for name, each in loss.heads.items() if self.scale_target is True else ():
            if "regression" in each.tasks and each.scaling is None:
                raise ValueError(
                    f"scale_target=True does not fit {each!r} of the head {name!r}, which does not say how "
                    "it changes with the unit of its targets: set scale_target='auto', which leaves them"
                )

    def _given(self, y: Any) -> Any:
        return self._targets.given(y)

    def _new_targets(self, recipe: Recipe, y: Any, classes: Any) -> HeadTargets:
        return self._targets  # learned when y was read

    def _score_of(self, batches: Batches, model: Model) -> Callable[[], Score]:
        return self._targets.new_score(batches, model.loss_function)

    def _take_targets(self) -> None:
        self.classes_ = self._targets.classes

    def _weighted(self, recipe: Recipe, y: Any, weight: Any, incremental: bool, like: Any = None) -> Any:
        if not recipe.class_weight:
            return weight
        _check_known("class_weight", recipe.class_weight, self.loss, type(self).__name__)
        targets, table = self._targets, y.reshape(len(y), -1)
        found = np.ones(table.shape)
        for name, own in recipe.class_weight.items():
            if incremental and own == "balanced":
                raise ValueError(
                    f"class_weight={{{name!r}: 'balanced'}} needs all of y, and partial_fit sees a part: "
                    "give the weights of the classes as a dict"
                )
            targets.part(found, name)[:] *= _of_classes(targets, name, own, table, like)
        found = found[:, 0] if y.ndim == 1 else found
        if weight is None:
            return found
        return (found * (weight if weight.ndim == found.ndim else weight[:, np.newaxis])).astype(weight.dtype)

    @available_if(goes_in_steps)
    def partial_fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        classes: Any = None,
        *,
        lengths: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        lengths_val: Any = None,
    ) -> Self:
        """Train for one epoch on a part of the data, continuing from the current state.

        Parameters
        ----------
        X, y, sample_weight, lengths
            A part of the rows, as for `fit`.
        classes : dict of array-like, default=None
            In the first call: all labels that can occur, by the names of the heads with classes.
        X_val, y_val, sample_weight_val, lengths_val
            As for `fit`.

        Returns
        -------
        self
            The estimator.
        """
        self._check_classes(classes)
        return self._fit_part(
            FitArguments(
                with_lengths(X, lengths),
                y,
                sample_weight,
                with_lengths(X_val, lengths_val),
                y_val,
                sample_weight_val,
            ),
            classes,
        )

    def _check_classes(self, classes: Any) -> None:
        if classes is not None and not isinstance(classes, Mapping):
            raise ValueError(
                "classes must be a dict of the labels that will occur, by the names of heads, got "
                f"{shown(classes)}"
            )
        if self.__sklearn_is_fitted__():
            for name, labels in (classes or {}).items():
                if name in self.classes_ and self._targets.heads[name].unlike(labels):
                    raise ValueError(
                        f"classes[{name!r}] are not those of the call before, {self.classes_[name]!r}"
                    )
            return
        losses = self._checked_loss().heads
        missing = [name for name, loss in losses.items() if "regression" not in loss.tasks]
        missing = [name for name in missing if name not in (classes or {})]
        if missing:
            raise ValueError(
                "classes must be passed on the first call to partial_fit, all labels that will occur by the "
                f"names of heads: classes={{{missing[0]!r}: [...]}}; missing are {missing}"
            )

    # -- predictions --------------------------------------------------------------------------------

    @follows_namespace
    def predict(self, X: Any, *, lengths: Any = None) -> Any:
        """Predict the targets of all heads.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...), sparse matrix, data frame, or dict of arrays
            Inputs, as for `fit`.
        lengths : array-like of shape (n_samples,), dtype=int, default=None
            Number of steps of each sequence in X that are not padding.

        Returns
        -------
        dict of ndarray, or data frame
            In the form of y in `fit`: the most probable label of heads with classes, and the estimate (mean,
            median, ...) that belongs to the loss of other heads.
        """
        found = self._answered(with_lengths(X, lengths), "labels")
        return self._targets.contained(found, getattr(X, "index", None) if hasattr(X, "iloc") else None)

    @available_if(has_classes)
    @follows_namespace
    @described_by(predict)
    def predict_proba(self, X: Any, *, lengths: Any = None) -> Any:
        """Predict the probabilities of heads with classes.

        Returns
        -------
        dict of ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        return self._answered(with_lengths(X, lengths), "probabilities")

    def _chosen(self, X: Any, target: Any) -> Chosen:
        return numbered(self, X, target, self._targets.n_outputs, None)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, lengths: Any = None) -> float:
        """Return the mean of the scores of all heads: accuracies, and R2 of regressions.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...), sparse matrix, data frame, or dict of arrays
            Inputs, as for `fit`.
        y : dict of array-like, or data frame
            Targets of all heads; missing ones are not scored.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.
        lengths : array-like of shape (n_samples,), dtype=int, default=None
            Number of steps of each sequence in X that are not padding.

        Returns
        -------
        float
            At most 1. Heads of times and events have the concordance index, see `Cox.score`; other heads
            whose targets only the loss can read are left out.

        Raises
        ------
        ValueError
            If y does not have the heads, or none of them can be scored.
        """
        return float(np.mean(list(self.scores(X, y, sample_weight, lengths=lengths).values())))

    @described_by(score)
    def scores(self, X: Any, y: Any, sample_weight: Any = None, *, lengths: Any = None) -> dict[str, float]:
        """Return the score of each head: its accuracy, or R2 of a regression.

        Returns
        -------
        dict of float
            Scores by the names of the heads.
        """
        check_is_fitted(self)
        caller, targets = type(self).__name__, self._targets
        given = as_heads(y, list(targets.heads), caller, targets.frame)[0]
        predicted = self._answered(with_lengths(X, lengths), "labels")
        weight = None if sample_weight is None else np.asarray(on_host(sample_weight), np.float64)
        found = {}
        for name, each in targets.heads.items():
            score: Any = _r2 if isinstance(each, RealTargets) else _accuracy
            if not getattr(each, "are_predicted", True):
                score = targets.own_score(self.model_.loss_function, name)
            if score is None:
                continue
            try:
                found[name] = float(score(host_array(given[name], name), on_host(predicted[name]), weight))
            except ValueError as error:
                raise ValueError(f"head {name!r}: {error}") from error
        if not found:
            raise ValueError(f"no head of this {caller} predicts what y holds: there is nothing to score")
        return found

    def freeze(self) -> "FrozenMultiHeadNet":
        """Return a predictor without training state: small, picklable, and fast for single rows.

        Returns
        -------
        FrozenMultiHeadNet
            A copy of the parameters as they are now.
        """
        check_is_fitted(self)
        from sknet.estimators._frozen import FrozenMultiHeadNet  # fits do without it

        return self._frozen_as(FrozenMultiHeadNet)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = tags.target_tags.multi_output = True
        return tags


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and bool(name) and "__" not in name


def _check_known(parameter: str, given: Any, heads: Mapping[str, Any], caller: str) -> None:
    """Raise an InvalidParameterError for heads that have no loss."""
    unknown = [name for name in given if name not in heads]
    if unknown:
        raise InvalidParameterError(
            f"The {parameter!r} parameter of {caller} names the head {shown(unknown[0])}, which has no loss"
            f"{suggestion(str(unknown[0]), list(heads))} The heads are {list(heads)}."
        )


def _weights_of(given: Any, losses: Mapping[str, Loss], caller: str) -> dict[str, float]:
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise InvalidParameterError(
            f"The 'loss_weights' parameter of {caller} must be a dict of numbers by the names of heads, or "
            f"None. Got {shown(given)} instead."
        )
    _check_known("loss_weights", given, losses, caller)
    for name, weight in given.items():
        if isinstance(weight, bool) or not satisfies(weight, WEIGHT) or not np.isfinite(weight):
            raise InvalidParameterError(
                f"The 'loss_weights' parameter of {caller} must have finite numbers of at least 0, got "
                f"{shown(weight)} for {name!r}."
            )
    found = {name: float(given.get(name, 1.0)) for name in losses}
    if not any(found.values()):
        raise InvalidParameterError(f"The 'loss_weights' parameter of {caller} must not be all zeros.")
    return found


def _of_classes(targets: HeadTargets, name: str, class_weight: Any, table: Any, like: Any) -> Any:
    """Return the weights of the classes of a head's targets, for each of its columns."""
    of_head = targets.heads[name]
    if isinstance(of_head, RealTargets):
        raise ValueError(f"class_weight names the head {name!r}, which has no classes")
    rows = [targets.part(each, name) for each in (table, table if like is None else like)]
    if rows[0].shape[1] > 1:
        labels = [part if of_head.task == "multilabel" else labels_of(of_head, part) for part in rows]
        return class_weighted(class_weight, of_head, labels[0], None, labels[1])[:, np.newaxis]
    seen = [~np.isnan(part[:, 0]) for part in rows]
    labels = [labels_of(of_head, part[is_seen]) for part, is_seen in zip(rows, seen, strict=True)]
    found = np.ones(rows[0].shape)
    found[seen[0], 0] = class_weighted(class_weight, of_head, labels[0], None, labels[1])
    return found


def _accuracy(y: Any, predicted: Any, weight: Any) -> float:
    """Return the share of rows with all labels right that are there."""
    seen = ~gaps_in(y)
    right = ((np.asarray(y == predicted)) | ~seen).reshape(len(y), -1).all(axis=1)
    counts = seen.reshape(len(y), -1).mean(axis=1)
    return float(np.average(right, weights=counts if weight is None else counts * weight))


def _r2(y: Any, predicted: Any, weight: Any) -> float:
    from sklearn.metrics import r2_score  # it loads half of scikit-learn

    seen = ~gaps_in(y)
    if not seen.all() and y.ndim == 2:
        counts = seen if weight is None else seen * weight[:, np.newaxis]
        return r2_of_seen(y, predicted, counts.astype(np.float64))
    if not seen.all():
        y, predicted, weight = y[seen], predicted[seen], None if weight is None else weight[seen]
    return float(r2_score(y.astype(np.float64), predicted, sample_weight=weight))
