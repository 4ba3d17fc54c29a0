"""The base of the ensembles for tables: fitting members in folds, mixing, predicting, and summaries."""

import math
import re
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from sknet import nn, ops
from sknet._constraints import shown
from sknet._hints import ForeignAttributes
from sknet._parallel import blas_threads
from sknet._params import PlainNumbers, explained, explained_call, unknown_parameter, validate_parameters
from sknet._random import check_random_state
from sknet._validation import Interval, StrOptions, check_one_direction
from sknet.callbacks._scoring import naming_classes
from sknet.core import Tensor
from sknet.device import Device
from sknet.engine import History
from sknet.engine._inputs import row_weights
from sknet.engine._layer_outputs import output_shapes
from sknet.engine._model_copies import slim_model
from sknet.engine._scheduler import grouped, run_in_threads
from sknet.estimators import EstimatorSummary, LayerRow
from sknet.estimators._checks import check_weights, check_y, filled, weights_of_known, with_missing
from sknet.estimators._computation import Computation, bounds_of, n_offsets_of, outputs_of
from sknet.estimators._fit import check_scoring
from sknet.estimators._head_scoring import evaluated
from sknet.estimators._inputs import with_offset
from sknet.estimators._layers import check_steps
from sknet.estimators._offset import (
    adding_offset,
    check_offset,
    check_one_output,
    left_to_learn,
    standardize_targets,
)
from sknet.estimators._options import check_loss_of_logits
from sknet.estimators._summary import Summarized, summary_rows, with_values
from sknet.estimators._targets import refuse_ignored
from sknet.estimators._validation import naming
from sknet.exceptions import InvalidParameterError
from sknet.losses import LOSSES, Loss
from sknet.losses._wrappers import inside
from sknet.preprocessing import TableEncoder
from sknet.preprocessing._encoder import fit_encoder
from sknet.preprocessing._encodings import target_of
from sknet.preprocessing._schema import Schema, Table
from sknet.preprocessing._sums import find_sums
from sknet.tabular._budget import (
    LEAST_STEPS,
    Choice,
    Cost,
    Progress,
    StopNeedless,
    is_affordable,
    planned,
    warn_of_more,
)
from sknet.tabular._frozen import ENSEMBLE, FrozenTabular, Parts, check_ensemble
from sknet.tabular._importances import attributions, permutation_importances
from sknet.tabular._log_link import LogLinkTraining, mean_of, with_log_links
from sknet.tabular._members import (
    KINDS,
    MANY_ROWS,
    NEIGHBORS,
    OF_ALL_FOLDS,
    Fold,
    Job,
    Members,
    Setting,
    Task,
    folds_of,
    number_of_folds,
    numbered,
    setting_of,
)
from sknet.tabular._neighbors import (
    LEAST_ROWS,
    WIDEST,
    NeighborTraining,
    are_comparable,
    have_neighbors,
    of_all_folds,
    with_all_rows,
)
from sknet.tabular._predicting import Blend, Mix, Predicts, blended, counted, deciding, mixed, spans_of
from sknet.tabular._residuals import Left, Residuals, found_residuals, have_residuals
from sknet.tabular._training import Member, Rows, Trained, Training, encoded_rows, reads_codes

SECONDS = re.compile(r"(\d+(?:\.\d+)?) ?s")
MOST_WORK = 1000.0  # a multiple of the default that nobody waits for
CONSTRAINTS: dict[str, Any] = {
    "loss": "no_validation",  # names are checked by the function that looks them up, with a better message
    "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
    "columns": "no_validation",  # checked with the columns, with a better message
    "monotonic_cst": ["array-like", dict, None],
    "n_folds": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "members": [Interval(Integral, 1, 100_000, closed="both"), StrOptions({"auto"})],
    "budget": [Interval(Real, 0, MOST_WORK, closed="right"), str],
    "smooth": [Members, StrOptions({"auto"}), None],
    "sharp": [Members, StrOptions({"auto"}), None],
    "cv": ["cv_object"],
    "scoring": "no_validation",  # names are checked by the function that looks them up
    "n_jobs": [Integral, None],
    "device": [str, None],
    "random_state": ["random_state", np.random.Generator],
    "verbose": ["verbose", StrOptions({"auto", "bar"})],
}
Encoded = tuple[TableEncoder, Rows, Rows]

"""The encoder of a fold, and the rows for training and those held out."""

Begun = tuple[Encoded, Training]

"""A fold's rows, and the training of a first member that has begun, to measure it."""


class BaseTabular(ForeignAttributes, PlainNumbers, Predicts, Summarized):
    """Abstract base of the ensembles for tables.

    Parameters
    ----------
    categorical_features : "from_dtype", array-like of str, int or bool, or None, default="from_dtype"
        Columns that are categories; as for `TableEncoder`.
    columns : dict of str or int to str, default=None
        Kinds of columns where they are not to be found from dtypes and texts; as for `TableEncoder`.
    monotonic_cst : array-like of shape (n_features,), dict of str to int, or None, default=None
        For each column of X, or by its name, 1 if predictions must not fall where it rises, -1 if they must
        not rise, and 0 (or no entry) for no constraint: of a classifier, which must have two classes, the
        probability of the second. It holds for every input, up to rounding; columns of categories, dates
        and texts have no order, nor do missing values.
    n_folds : int or "auto", default="auto"
        Number of folds: 3, or 4 for fewer than 1,000 rows or several classes without neighbors; but 3 also
        where it is the folds or weights that leave too few rows for neighbors. Each holds out a disjoint
        tenth of the rows (more of few rows, and a twentieth of 5,000 to 50,000 rows) from its members.
    budget : float or str, default=1.0
        Work, as a multiple of the default; or seconds, such as ``"30s"``, estimated from first epochs, for
        at most ten times the default work and at least one network of 30 updates.
    smooth, sharp : Members, "auto" or None, default="auto"
        Training of the members of a kind; nested parameters are set as ``sharp__epochs``. None omits it.
    cv : splitter, iterable of (training, held-out) rows, or None, default=None
        Custom folds, instead of `n_folds`.
    n_jobs : int or None, default=None
        Threads that train members; None or -1 uses all cores. Results do not depend on it.
    device : str or None, default="cpu"
        Device to train members on: "cpu" (or None), "cuda", "cuda:1".
    random_state : int, RandomState, Generator or None, default=None
        Draws folds, initial weights, order of rows and dropout.
    scoring : str, callable or None, default=None
        Scorer of `oof_score_`: a name of scikit-learn, a scorer, or a callable (estimator, X, y); None is
        accuracy, or R2.
    verbose : bool, int, "bar" or "auto", default="auto"
        Print a line for each fitted member, with the time that is left; "auto" only after 5 seconds, in
        terminals and notebooks; "bar" shows a progress bar instead, which needs tqdm.

    Attributes
    ----------
    encoder_ : list of TableEncoder
        The encoder of each fold and kind, and one of neighbors for all folds.
    members_ : list of Member
        The networks, each with its `kind`, ``fold``, `encoder`, `model` and ``history``.
    mix_ : dict of str to float
        Weight of each kind, without one that is left out, such as neighbors that would have the weight 0;
        of a regressor, that of neighbors is the factor of what they add, and the others sum to 1.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Permutation importances: the increase of the loss of held-out rows if a column has the values of other
        rows, as shares of the sum over the columns.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number and names of the features; names only if X had string names.
    """

    __metadata_request__fit = {"groups": False}  # as of networks
    _numeric_targets: bool
    _targets_may_be_missing = True
    _of_networks = "members_"
    columns: Any
    monotonic_cst: Any
    scoring: Any
    _stored_fields = ENSEMBLE

    def _check_stored(self) -> None:
        if "members_" in vars(self):
            check_ensemble(self)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = explained(cls.__init__)  # type: ignore[method-assign]

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also nested ones such as ``sharp__epochs``.

        Parameters
        ----------
        **params : dict
            New values. If a nested parameter is set, "auto" becomes a `Members`, and the name of a
            loss becomes the loss.

        Returns
        -------
        self
            The estimator.

        Raises
        ------
        ValueError
            If there is no parameter with this name; the message suggests the right one.
        """
        names = self._get_param_names()
        for name in params:
            if name.partition("__")[0] not in names:
                raise unknown_parameter(self, name.partition("__")[0])
        inside = {name.partition("__")[0] for name in params if "__" in name}
        if NEIGHBORS in inside:
            nested = sorted(name for name in params if name.startswith(f"{NEIGHBORS}__"))
            raise ValueError(
                f"Invalid parameter {nested[0]!r} for {type(self).__name__}: neighbors has no parameters of "
                "its own. It must be 'auto' or None"
            )
        for kind in inside & {*KINDS}:
            if isinstance(params.get(kind, getattr(self, kind)), str):
                params[kind] = Members()
        loss = params.get("loss", getattr(self, "loss", None))
        if "loss" in inside and isinstance(loss, str) and loss in LOSSES:
            params["loss"] = LOSSES[loss]()
        super().set_params(**params)
        return self

    # -- hooks for subclasses --------------------------------------------------------------------------

    @abstractmethod
    def _new_targets(self, y: Any, loss: Loss) -> Any:
        """Return a new encoder of targets for a loss."""

    @abstractmethod
    def _take_targets(self, y: Any) -> None:
        """Set the fitted attributes that describe the targets."""

    @abstractmethod
    def _take_oof(self, y: Any, outputs: Any, rows: np.ndarray, weight: Any) -> None:
        """Set out-of-fold predictions and score."""

    def _weights(self, y: Any, sample_weight: Any, table: Table) -> Any:
        """Return the weights of rows, or of targets if some are missing, or None."""
        weight = check_weights(sample_weight, table.numbers, np.float32, y=y)
        return self._weighted(y, weights_of_known(y, weight, np.float32))

    def _weighted(self, y: Any, weight: Any) -> Any:
        """Return sample weights multiplied by those of the classes."""
        return weight

    # -- fitting ----------------------------------------------------------------------------------------

    @explained_call
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        groups: Any = None,
        offset: Any = None,
        offset_val: Any = None,
    ) -> Self:
        """Fit the ensemble.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            A raw table: a frame of pandas, polars or any library with the dataframe interchange protocol.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets. If a row has several targets or labels, some of them may be missing (NaN).
        sample_weight : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Weights of samples, or of targets; None for equal weights.
        X_val, y_val : frame or array-like, and array-like, default=None
            Rows that are held out instead of folds of X: all members are trained on all rows of X, and
            `oof_prediction_` and `oof_score_` are those of these rows.
        sample_weight_val : array-like, default=None
            Sample weights of `X_val`; None for equal weights.
        groups : array-like of shape (n_samples,), default=None
            Groups of the rows: all rows of a group are in the same fold.
        offset : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Numbers added to the outputs before the link of the loss, such as the logarithm of an exposure
            for ``"poisson"`` or log odds for ``"log_loss"``. Predictions then need it as well, and without
            it add 0; they are not kept within the range of the targets.
        offset_val : array-like of shape (n_val,) or (n_val, n_outputs), default=None
            Offset of `X_val`, given if `offset` is.

        Returns
        -------
        self
            The fitted estimator. A fit that fails leaves it unchanged.

        Raises
        ------
        ValueError, TypeError
            If a column cannot be read (the message names it), or targets or weights cannot be used.
        """
        validate_parameters(self)
        state = self.__dict__
        before = dict(state)
        try:
            validation = self._validation(X_val, y_val, sample_weight_val, offset_val, groups)
            if validation is not None and (offset is None) != (offset_val is None):
                known, unknown = ("offset_val", "offset") if offset is None else ("offset", "offset_val")
                raise ValueError(
                    f"{known} is given without {unknown}: rows of X and of X_val need one, or none does"
                )
            self._fit(X, y, sample_weight, groups, offset, validation)
        except BaseException:
            state.clear()
            state.update(before)
            raise
        return self

    def _validation(
        self, X: Any, y: Any, weight: Any, offset: Any, groups: Any
    ) -> "tuple[Any, Any, Any, Any] | None":
        """Return the rows that are held out instead of folds, if some are given."""
        given = {"X_val": X, "y_val": y, "sample_weight_val": weight, "offset_val": offset}
        names = [name for name, value in given.items() if value is not None]
        if names and (X is None or y is None):
            raise ValueError(f"X_val and y_val belong together, got only {' and '.join(names)}")
        if X is None:
            return None
        if groups is not None or self.cv is not None:
            what = "groups" if self.cv is None else "cv"
            raise ValueError(f"{what} has no effect: X_val holds rows out instead of folds. Give one of both")
        return X, y, weight, offset

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any, offset: Any, validation: Any) -> None:
        began = time.monotonic()
        random_state = check_random_state(self.random_state)
        schema, table = Schema.learn(self, X, self.categorical_features, self.columns)
        y = check_y(self, y, table.n_rows, numeric=self._numeric_targets)
        loss = check_loss_of_logits(self.loss, type(self).__name__)
        refuse_ignored(loss, f"by {type(self).__name__}")
        self._targets = targets = self._new_targets(filled(y), loss)
        weight = self._weights(y, sample_weight, table)
        y = filled(y)
        if offset is not None:
            check_one_output(loss, loss.outputs_per_target)
            offset = check_offset(offset, len(y), targets.n_outputs)
        task = self._task(schema, table, y, weight, loss, offset)
        del table  # which has a copy where there are sums
        n_folds = number_of_folds(self.n_folds, targets.task, task.table.n_rows, NEIGHBORS in task.settings)
        if validation is None:
            stratify = y if targets.task in ("binary", "multiclass", "ordinal") and y.ndim == 1 else None
            folds = folds_of(self.cv, n_folds, y, stratify, groups, random_state)
        else:
            X = validation[0]
            task, y, fold = self._with_validation(task, y, *validation)
            folds = [fold] * n_folds
        known, _ = of_all_folds(folds, task.table.n_rows)
        n_known = len(known) if task.weight is None else np.count_nonzero(task.weight[known] > 0)
        if n_known < LEAST_ROWS:
            task.settings.pop(NEIGHBORS, None)
        # Validation rows are compared too, and there may be very many.
        is_small = bool(n_known >= LEAST_ROWS) and are_comparable(task.table)
        task = replace(
            task,
            adds_residuals=task.adds_residuals and is_small,
            groups=None if groups is None else numbered(groups, len(y)),
        )
        task = _with_sums(with_log_links(task, folds), known)
        jobs = self._jobs(task, folds, random_state)
        # Members are trained in parallel, each in one thread; in a group, Ctrl-C ends all of them.
        with blas_threads(1), grouped(1):
            begun: dict[Any, Begun] = {}
            jobs, settings = self._within_budget(task, jobs, began, begun)
            task = replace(task, settings=settings)
            task, jobs, trained = self._run(task, jobs, begun)
            residuals = self._mix_up(task, jobs, trained, y, X)
        with blas_threads(1), grouped(1):
            self.feature_importances_ = permutation_importances(
                task, jobs, self.members_, self._mix, self.n_jobs
            )
        if residuals is None:
            self.members_ = [with_all_rows(member, folds, task) for member in self.members_]
        else:
            networks = [member for member in self.members_ if member.kind != NEIGHBORS]
            self.members_ = [*networks, residuals.member]

    def _with_validation(
        self, task: Task, y: np.ndarray, X_val: Any, y_val: Any, weight_val: Any, offset_val: Any
    ) -> tuple[Task, np.ndarray, Fold]:
        """Return a task and targets with validation rows behind those of the training, and their fold."""
        with naming("X_val and y_val do not fit X and y"):
            table = task.schema.read(self, X_val)
            y_val = check_y(self, y_val, table.n_rows, numeric=self._numeric_targets)
            weight = self._weights(y_val, weight_val, table)
            y_val = filled(y_val)
            encoded = self._targets.encode(y_val)
            offset = task.offset
            if offset is not None:
                own = check_offset(offset_val, len(y_val), offset.shape[1], "offset_val")
                loss: Any = task.loss  # which adds offsets
                encoded = loss.joined(encoded, own)
                offset = np.concatenate([offset, own])
            task.loss.check_target(encoded, n_outputs=self._targets.n_outputs)
        weights = [
            np.ones(len(each), np.float32) if x is None else x
            for x, each in ((task.weight, y), (weight, y_val))
        ]
        if {x.ndim for x in weights} == {1, 2}:
            weights = [np.broadcast_to(x.reshape(len(x), -1), (len(x), y.shape[1])) for x in weights]
        joined = replace(
            task,
            table=task.table.joined(table),
            y=np.concatenate([task.y, encoded]),
            weight=None if task.weight is None and weight is None else np.concatenate(weights),
            offset=offset,
        )
        rows = np.arange(len(y) + len(y_val))
        return joined, np.concatenate([y, y_val]), (rows[: len(y)], rows[len(y) :])

    def _task(self, schema: Schema, table: Table, y: Any, weight: Any, loss: Loss, offset: Any) -> Task:
        """Return the data and settings that all members share."""
        targets, units = self._targets, None
        if targets.task == "regression" and loss.scaling is not None:
            loss.check_target(y, n_outputs=targets.n_outputs)
            columns = y.reshape(len(y), -1)
            units = standardize_targets(targets, loss, columns, weight, offset, "give it no scaling")
            targets.check_reported(loss)
        encoded, mean = targets.encode(y), None
        if self._numeric_targets and offset is None and not getattr(self, "extrapolate", False):
            mean = mean_of(targets, y, weight, loss)
        loss = targets.trained(loss)
        loss.check_target(encoded, n_outputs=targets.n_outputs)
        kind = "regression" if self._numeric_targets else "classification"
        n_outputs = targets.n_outputs * loss.outputs_per_target
        directions = schema.directions(self, self.monotonic_cst)
        kinds = [name for name in KINDS if getattr(self, name, None) is not None]
        if not {*kinds} - {NEIGHBORS}:
            raise ValueError("smooth=None and sharp=None leave no members: at least one must not be None")
        is_free = directions is None and offset is None
        adds_residuals = is_free and NEIGHBORS in kinds and have_residuals(targets, loss, table, self.budget)
        if not (is_free and have_neighbors(targets.task, encoded, loss, table)):
            kinds = [name for name in kinds if name != NEIGHBORS]
        of_all = targets.task, table.numbers.shape, self.members, NEIGHBORS in kinds
        settings = {name: setting_of(name, getattr(self, name), *of_all) for name in kinds}
        if directions is not None:
            check_one_direction(targets.task, loss)
        if offset is None:
            target = target_of(y, kind)
        else:
            loss = adding_offset(loss, encoded, offset, units)
            encoded = loss.joined(encoded, offset)
            left = left_to_learn(loss, encoded)
            left = np.where(weight > 0, left, 0.0) if np.ndim(weight) == 2 else left
            target = target_of(left, "regression")
        return Task(
            *(schema, table, target, encoded, weight, loss, n_outputs, settings),
            *(directions, offset, mean, adds_residuals),
        )

    def _jobs(self, task: Task, folds: list[Fold], random_state: Any) -> list[Job]:
        """Return the jobs, longest first; seeds do not depend on that order."""
        jobs = []
        for kind, setting in task.settings.items():
            own = [of_all_folds(folds, task.table.n_rows)] if kind in OF_ALL_FOLDS else folds
            for i, rows in enumerate(own):
                seeds = random_state.randint(np.iinfo(np.int32).max, size=1 + setting.per_fold)
                jobs.append(Job(kind, i, rows, tuple(seeds.tolist())))
        return sorted(jobs, key=lambda job: -sum(task.settings[job.kind].hidden_layer_sizes))

    def _within_budget(
        self, task: Task, jobs: list[Job], began: float, begun: "dict[Any, Begun]"
    ) -> tuple[list[Job], dict[str, Setting]]:
        """Return jobs and settings for the budget; in seconds, members of each kind are begun."""
        if not isinstance(self.budget, str):
            return jobs, {kind: each.times(float(self.budget)) for kind, each in task.settings.items()}
        found = SECONDS.fullmatch(self.budget)
        if found is None or not float(found[1]):
            raise InvalidParameterError(
                f"The 'budget' parameter of {type(self).__name__} must be a multiple of the default work, a "
                f"number above 0, or seconds, such as '30s'. Got {shown(self.budget)} instead."
            )
        seconds = float(found[1])
        costs: dict[str, Cost] = {}
        for kind in task.settings:
            job = next(job for job in jobs if job.kind == kind)
            left = seconds - (time.monotonic() - began)
            if not is_affordable(job, task.settings, costs, left):
                break
            costs[kind] = self._measured(task, job, left, begun)
        gone = time.monotonic() - began
        jobs, settings = planned(jobs, task.settings, costs, seconds - gone, self.n_jobs)
        warn_of_more(jobs, settings, costs, gone, seconds, self.n_jobs)
        return jobs, settings

    def _measured(self, task: Task, job: Job, left: float, begun: "dict[Any, Begun]") -> Cost:
        """Begin to train the first member of a job, for two epochs at most; return what that took."""
        started = time.monotonic()
        rows = self._encoded(task, job)
        encoded = time.monotonic()
        training = self._training(task, job, rows, job.seeds[1])
        begun[job.kind, job.fold] = rows, training
        training.begin(1)
        first = time.monotonic()
        if training.n_batches >= LEAST_STEPS and first - encoded > left / 10:
            return Cost(encoded - started, first - encoded, done=1)  # a second one would tell little more
        training.begin(1)
        epoch = time.monotonic() - first
        return Cost(encoded - started, epoch, max(first - encoded - epoch, 0.0), done=2)

    def _run(
        self, task: Task, jobs: list[Job], begun: "dict[Any, Begun]"
    ) -> "tuple[Task, list[Job], list[list[Trained]]]":
        """Train all members, in threads; return them with their jobs, without a kind that is needless."""
        every = [task.settings[job.kind] for job in jobs for _ in range(task.settings[job.kind].per_fold)]
        progress, choice = Progress(self.verbose, every), Choice(task, jobs, self._by_error())
        ordered = choice.ordered(jobs)
        fits = [partial(self._trained, task, job, begun, progress, choice) for job in ordered]
        notes = [
            f"in the {job.kind} of {job._place}"
            if job._is_of_all_folds
            else f"in the {job.kind} members of {job._place}, counted from 0"
            for job in ordered
        ]
        try:
            trained = run_in_threads(fits, self.n_jobs, notes)
        finally:
            progress.close()
        if choice.is_needless:
            settings = {kind: x for kind, x in task.settings.items() if kind != choice.kind}
            task, jobs = replace(task, settings=settings), [x for x in jobs if x.kind != choice.kind]
        found = {id(job): each for job, each in zip(ordered, trained, strict=True)}
        return task, jobs, [found[id(job)] for job in jobs]

    def _fitted_encoder(self, task: Task, job: Job, setting: Setting) -> Any:
        """Return the encoder of a kind in one fold, and encodings of training rows that differ."""
        random_state = np.random.RandomState(job.seeds[0])
        unfitted = TableEncoder(
            self.categorical_features,
            columns=self.columns,
            piecewise=setting.piecewise,
            n_bins=setting.n_bins,
            value_means=not job._is_of_all_folds,
            target_type="regression" if self._numeric_targets else "classification",
            sparse_output=task.schema.is_sparse,
        )
        return fit_encoder(
            unfitted, self, task.schema, task.table, task.target, random_state, job.rows[0], task.directions
        )

    def _encoded(self, task: Task, job: Job) -> "Encoded":
        """Return the encoder of a kind in one fold, and rows encoded for that fold."""
        training, held_out = job.rows
        encoder, fitted = self._fitted_encoder(task, job, task.settings[job.kind])
        is_host = self.device is None or Device(self.device).kind == "cpu"
        is_coded = is_host and reads_codes(task.table) and not job._is_of_all_folds
        blocks = encoder.plan.blocks if is_coded else ()
        known = encoded_rows(encoder, task.table, training, fitted, blocks)
        beside = 0 if task.schema.is_sparse else known.nbytes
        inputs = known, encoded_rows(encoder, task.table, held_out, None, blocks, beside)
        own, others = (
            Rows(X, task.y[chosen], None if task.weight is None else task.weight[chosen], blocks)
            for X, chosen in zip(inputs, job.rows, strict=True)
        )
        return encoder, own, others

    def _training(self, task: Task, job: Job, rows: "Encoded", seed: int) -> Training:
        """Return the training of a member, which has not begun."""
        encoder, own, others = rows
        setting, device = task.settings[job.kind], self.device or "cpu"
        if job._is_of_all_folds:
            return NeighborTraining(setting, own, others, task.loss, task.n_outputs, seed, device=device)
        train: Any = Training
        if setting.log_link:
            assert task.mean is not None
            train = partial(LogLinkTraining, task.mean)
        return train(
            setting,
            own,
            others,
            task.loss,
            task.n_outputs,
            seed,
            one_hot=encoder.plan.one_hot,
            directions=encoder.plan.directions(task.directions),
            device=device,
        )

    def _trained(
        self, task: Task, job: Job, begun: "dict[Any, Begun]", progress: Progress, choice: Choice
    ) -> list[Trained]:
        """Train the members of one kind in one fold, unless they are needless."""
        setting, found, may_drop = task.settings[job.kind], [], choice.may_drop(job)
        rows, training = begun.pop((job.kind, job.fold), (None, None))
        callbacks = *progress.callbacks(setting), *((StopNeedless(choice),) if may_drop else ())
        for seed in job.seeds[1 : 1 + setting.per_fold]:
            if may_drop and choice.is_needless:
                break
            rows = self._encoded(task, job) if rows is None else rows
            encoder, own, others = rows
            began = time.monotonic()
            training = self._training(task, job, rows, seed) if training is None else training
            progress.begun(setting, training.done)
            model, history = training.finish(setting.epochs, callbacks)
            training = None
            if may_drop and choice.is_needless:
                break
            member = Member(job.kind, job.fold, encoder, model, history)
            progress.ended(member, setting, time.monotonic() - began)
            of_own = member.outputs_of_trained(own) if task.adds_residuals else None
            found.append(Trained(member, member.outputs(others), of_own))
        if len(found) < setting.per_fold:
            progress.dropped([setting] * (setting.per_fold - len(found)))
        choice.see(job, [each.outputs for each in found])
        return found

    def _residuals(
        self,
        task: Task,
        jobs: list[Job],
        trained: list[list[Trained]],
        mix: Mix,
        rows: np.ndarray,
        mixed: Any,
    ) -> Residuals | None:
        """Return members that add residuals of similar rows to outputs for held-out `rows`, if they gain."""
        folds = [job.rows for job in {job.fold: job for job in jobs}.values()]
        known, _ = of_all_folds(folds, task.table.n_rows)
        setting = setting_of(NEIGHBORS, "auto", "regression", task.table.numbers.shape, "auto")
        encoder, _ = self._fitted_encoder(task, Job(NEIGHBORS, 0, (known, rows), jobs[0].seeds), setting)
        if encoder.plan.width > WIDEST:
            return None
        return found_residuals(Left(task, encoder, jobs, trained, mix), rows, mixed, task)

    def _mix_up(
        self, task: Task, jobs: list[Job], trained: list[list[Trained]], y: Any, X: Any
    ) -> Residuals | None:
        """Set the fitted attributes: members and their mix, and the score of held-out rows, some of `X`.

        The members that add residuals, if there are some, are those of the folds.
        """
        n_rows = task.table.n_rows
        counts = {kind: np.zeros((n_rows, 1), dtype=np.int64) for kind in task.settings}
        outputs = {kind: np.zeros((n_rows, task.n_outputs)) for kind in task.settings}
        for job, members in zip(jobs, trained, strict=True):
            _, held_out = job.rows
            # With a repeated splitter, rows have several outputs.
            outputs[job.kind][held_out] += np.mean([each.outputs for each in members], axis=0)
            counts[job.kind][held_out] += 1
        rows = np.flatnonzero(next(iter(counts.values())))
        known = {kind: output[rows] / counts[kind][rows] for kind, output in outputs.items()}
        weight = deciding(None if task.weight is None else task.weight[rows])
        mix = mixed(known, task.y[rows], weight, task.loss, self._by_error())
        # Members of all folds would hold the rows of the fit for nothing.
        mix = mix.without({kind for kind in OF_ALL_FOLDS if mix.weights.get(kind) == 0.0})
        residuals = None
        if task.adds_residuals:
            residuals = self._residuals(task, jobs, trained, mix, rows, mix.of(known))
        chosen = [own for job, own in zip(jobs, trained, strict=True) if job.kind in mix.weights]
        self.members_ = [each.member for own in chosen for each in own]
        self.encoder_ = [own[0].member.encoder for own in chosen]
        if residuals is not None:
            mix = mix.plus(NEIGHBORS, residuals.factor)
            known[NEIGHBORS] = residuals.outputs
            self.members_ += residuals.of_folds
            self.encoder_.append(residuals.member.encoder)
        self._schema, self._loss_function = task.schema, task.loss
        self._mix, self.mix_, self.temperature_ = mix, mix.weights, mix.temperatures
        n_own = len(task.target.y)  # validation rows are behind these
        first = n_own if n_own < len(y) else 0
        self._take_targets(y[:n_own])
        found = with_offset(
            mix.of(known).astype(np.float32), None if task.offset is None else task.offset[rows]
        )
        self._take_oof(y, found, rows, weight)
        self.oof_prediction_ = self.oof_prediction_[first:]
        if self.scoring is not None:
            is_of_targets = weight is not None and weight.ndim == 2
            seen = with_missing(y[rows], weight == 0) if is_of_targets else y[rows]
            self.oof_score_ = self._scored(found, X, rows - first, seen, row_weights(weight))
        return residuals

    def _scored(self, outputs: Any, X: Any, rows: np.ndarray, y: Any, weight: Any) -> float:
        """Return what `scoring` says of the outputs for held-out rows."""
        name = type(self).__name__
        scorers = check_scoring(self.scoring, name).scorers or ()
        if len(scorers) != 1:
            raise InvalidParameterError(
                f"The 'scoring' parameter of {name} must be one scorer, its name, or None. Got "
                f"{shown(self.scoring)} instead."
            )
        other = type(self).__new__(type(self))
        other.__dict__.update(vars(self), _outputs=lambda X: outputs)
        X = _safe_indexing(X, rows) if scorers[0].looks_at_inputs else None
        with naming_classes(
            getattr(self, "classes_", None), y, "held-out rows", "a larger budget or X_val and y_val"
        ):
            [value] = evaluated(scorers, other, X, y, weight, "held-out rows").values()
        return value

    def _by_error(self) -> bool:
        return False

    def integrated_gradients(
        self, X: Any, baseline: Any = None, target: Any = None, n_steps: int = 50
    ) -> np.ndarray:
        """Attribute the difference between an output and its value at a baseline to the columns.

        The contributions of all encoded features of a column are summed. Those of a row sum to the difference
        of the outputs, up to a quadrature error that falls with `n_steps`.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            With the columns of the fit.
        baseline : frame or array-like of shape (1, n_features) or (n_samples, n_features), default=None
            Uninformative rows, such as a typical one; with None all encodings are 0: the medians of numbers,
            and no level of a category.
        target : label, int or array-like of shape (n_samples,), default=None
            The output: a class label for a classifier, otherwise the index of an output or of a label; an
            array has one for each row. None is the predicted class of each row, or the only output.
        n_steps : int, default=50
            Quadrature points on each line, at most 1,000.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Contributions to logits for a classifier, to predictions for a regressor.

        Raises
        ------
        ValueError
            If there is no such output, or `target` is None and there are several.
        """
        check_is_fitted(self)
        check_steps(self, n_steps)
        rows, chosen = self._schema.read(self, X), self._chosen(X, target)
        begin = None if baseline is None else self._schema.read(self, baseline)
        if begin is not None and begin.n_rows not in (1, rows.n_rows):
            raise ValueError(f"baseline must have one row, or the {rows.n_rows} of X, got {begin.n_rows}")
        members = counted(self.members_, self._mix)
        return attributions(members, self._schema, (rows, begin), self._loss_function, chosen, n_steps)

    @abstractmethod
    def _chosen(self, X: Any, target: Any) -> Any:
        """Return which output of each row is meant."""

    def slim(self) -> Self:
        """Return a smaller copy without training state, which makes the same predictions.

        Its members have no history, and `oof_prediction_` has no rows.

        Returns
        -------
        estimator
            The fitted copy; this estimator is unchanged.

        Raises
        ------
        NotFittedError
            If this estimator is not fitted.
        """
        check_is_fitted(self)
        other = type(self).__new__(type(self))
        other.__dict__.update(vars(self), oof_prediction_=self.oof_prediction_[:0].copy())
        other.members_ = [
            replace(member, model=slim_model(member.model), history=History()) for member in self.members_
        ]
        return other

    # -- prediction -----------------------------------------------------------------------------------------

    verbose: bool | int | str
    members_: list[Member]
    oof_prediction_: np.ndarray
    oof_score_: float
    feature_importances_: np.ndarray
    _schema: Schema
    _mix: Mix
    _targets: Any
    _loss_function: Loss

    def _mixed(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return blended(counted(self.members_, self._mix), self._schema.read(self, X))

    @property
    def history_(self) -> History:  # type: ignore[override]
        """Mean losses of the training of each kind of members, by epoch."""
        check_is_fitted(self)
        return _losses(_by_kind(self.members_, self._mix))

    def _summary(self) -> EstimatorSummary:
        columns, widths = self._schema, sorted({encoder.plan.width for encoder in self.encoder_})
        n_numbers = sum(bool(feature.number_names) for feature in columns.features)
        n_categories = len(columns.categories)
        facts = {
            "columns": f"{_counted(n_numbers, 'number')} and {_counted(n_categories, 'category')}, which "
            f"become {' to '.join(map(str, sorted({widths[0], widths[-1]})))} inputs",
            **({"read as": "; ".join(columns.notes)} if columns.notes else {}),
            **({"sums": ", ".join(columns.names[-len(columns.sums) :])} if columns.sums else {}),
            **inside(self._loss_function)[1],
            "score out of folds": f"{self.oof_score_:.4g}",
        }
        return summary_of(type(self).__name__, self.members_, self._mix, self._loss_function, facts)

    def _frozen_parts(self) -> Parts:
        check_is_fitted(self)
        return Parts(counted(self.members_, self._mix), self._targets, self._loss_function)

    @property
    def _loss(self) -> Loss | None:
        """The loss of the fit; before a fit, the parameter; None if that is missing or invalid."""
        if self.__sklearn_is_fitted__():
            return self._loss_function
        loss = self.loss
        loss = LOSSES[loss]() if isinstance(loss, str) and loss in LOSSES else loss
        return loss if isinstance(loss, Loss) else None

    def __sklearn_is_fitted__(self) -> bool:
        return "members_" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        return tags


def _with_sums(task: Task, rows: np.ndarray) -> Task:
    """Return a task whose table has sums of numbers, found on some rows, which all folds train on."""
    if task.table.n_rows >= MANY_ROWS:  # whose copies would take too much memory
        return task
    multiply = any(setting.log_link for setting in task.settings.values())
    # Numbers of very large targets are shifted, so that they have no logarithms.
    y = task.y / task.mean + 1.0 if multiply and task.mean is not None else task.target.numbers
    with blas_threads(1):
        sums = find_sums(task.schema, task.table, y, rows, task.directions, multiply)
    if not sums:
        return task
    schema, table = task.schema.extended(task.table, sums)
    directions = task.directions
    if directions is not None:
        directions = np.append(directions, np.zeros(len(sums), directions.dtype))
    return replace(task, schema=schema, table=table, directions=directions)


def _counted(n: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{n} {what}" if n == 1 else f"{n} {what.removesuffix('y')}{'ies' if what.endswith('y') else 's'}"


def is_ensemble(model: Any) -> bool:
    """Tell whether `ensemble_computation` knows what a model computes."""
    return isinstance(model, (BaseTabular, FrozenTabular))


def ensemble_computation(
    ensemble: Any, *, raw_scores: bool = False, takes_offset: bool = True, coverage: Any = None
) -> Computation:
    if not isinstance(ensemble, FrozenTabular):
        check_is_fitted(ensemble)
        ensemble = ensemble.freeze()
    members = ensemble._members
    encoders, spans = spans_of(members)
    module = Blend(members, spans).eval()
    n_offsets = n_offsets_of(ensemble) if takes_offset else 0
    outputs, labels = outputs_of(ensemble, raw_scores, takes_offset=n_offsets > 0)
    if "variable" in outputs:
        head, (lowest, highest) = outputs["variable"], ensemble._bounds

        def clipped(output: Any) -> Tensor:
            found = head(output)
            bounds = [np.asarray(bound, found.dtype) for bound in (lowest, highest)]
            return ops.minimum(ops.maximum(found, Tensor(bounds[0])), Tensor(bounds[1]))

        outputs = {"variable": clipped}
    if coverage is not None:
        outputs |= bounds_of(ensemble, coverage, takes_offset=n_offsets > 0)
    width = sum(encoder.n_features_out_ for encoder in encoders)
    inputs = {"X": np.zeros((1, width), np.float32)}
    return Computation(module, nn.run, inputs, False, outputs, labels, encoders, n_offsets=n_offsets)


def summary_of(
    title: str, members: Sequence[Member], mix: Mix, loss: Loss, facts: Mapping[str, str]
) -> EstimatorSummary:
    kinds = _by_kind(members, mix)
    optimizers = {kind: with_values(found[0].model.optimizer) for kind, found in kinds.items()}
    model = members[0].model
    return EstimatorSummary(
        title,
        [row for kind, found in kinds.items() for row in _rows(kind, found)],
        with_values(inside(loss)[0]),
        "; ".join(f"{kind}: {said}" for kind, said in optimizers.items()),
        {
            "members": "; ".join(f"{kind}: {_counts(found, mix, kind)}" for kind, found in kinds.items()),
            **facts,
            "computes in": f"{model.dtype} on {model.device}",
        },
        _losses(kinds),
        None,
    )


def _by_kind(members: Sequence[Member], mix: Mix) -> dict[str, list[Member]]:
    return {kind: [member for member in members if member.kind == kind] for kind in mix.weights}


def _rows(kind: str, members: Sequence[Member]) -> Iterator[LayerRow]:
    """Yield the rows of one kind of members, which have the same layers and perhaps other widths."""
    first = members[0]
    example = np.zeros((1, first.encoder.plan.width), first.model.dtype)
    every = [list(summary_rows(first.model.module, output_shapes(first.model, example)))]
    every += [list(summary_rows(member.model.module, {})) for member in members[1:]]
    for alike in zip(*every, strict=True):
        row = alike[0]
        yield row._replace(
            path=f"{kind}.{row.path}" if row.path else kind,
            text=row.text if row.path else f"{len(members)} x {row.text}",
            parameters=sum(each.parameters for each in alike),
            trained=sum(each.trained for each in alike),
        )


def _counts(members: Sequence[Member], mix: Mix, kind: str) -> str:
    n_folds = len({member.fold for member in members})
    folds = f"in {n_folds} folds" if n_folds > 1 else "in one fold"
    folds = f"of {members[0]._place}" if members[0]._is_of_all_folds else folds
    said = f"{len(members)} {folds}, weight {mix.weights[kind]:.2g}"
    temperature = mix.temperatures[kind]
    return said if temperature == 1.0 else f"{said}, temperature {temperature:.3g}"


def _losses(kinds: Mapping[str, Sequence[Member]]) -> History:
    """Return the mean training loss of each kind by epoch."""
    curves: dict[str, Any] = {
        f"{kind} loss": np.mean([member.history["loss"] for member in members], axis=0).tolist()
        for kind, members in kinds.items()
        if members[0].history  # slim ones have none
    }
    longest = max(map(len, curves.values()), default=0)
    return History({name: [*curve, *[math.nan] * (longest - len(curve))] for name, curve in curves.items()})
