"""A fit over many workers: the estimator's own, but for where the rows are, and what trains on them."""

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet._constraints import is_whole, shown
from sknet._frames import is_collection
from sknet.callbacks import Callback
from sknet.dask._cluster import Cluster, MakeExchange, outside_of_tasks, waiting_client
from sknet.dask._collections import (
    Facts,
    Moments,
    Partition,
    facts_of,
    first_rows,
    held_out_rows,
    moments_of,
    moments_of_columns,
    naming_partition,
    partitions_of,
)
from sknet.dask._exchange import WorkerExchange
from sknet.dask._rank import Block, FitPlan, Scored, merged, new_score
from sknet.device import Device
from sknet.engine import Batches, Model, Score
from sknet.engine._loop import Outcome, Validation
from sknet.engine._programs import show_rows
from sknet.engine._remote import RemoteSteps, train_remotely
from sknet.estimators._fit import DataSet, FitArguments, Recipe
from sknet.estimators._fitting import fit_network, read_part
from sknet.estimators._scaling import InputScaling, units_of_moments
from sknet.estimators._training import (
    Divided,
    FitSource,
    Trainer,
    features_of,
    standardize,
    standardize_inputs,
)

if TYPE_CHECKING:
    import distributed

SEEDS = 2**31
SECONDS = 1.0  # that a block of steps takes, about
FIRST = 200  # rows that the process of the fit sees
REPEATED = 4  # times that each label is among them, so that they look like labels
FEWEST = 2  # rows of a validation


def fit(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    sync_every: int = 1,
    client: "distributed.Client | None" = None,
    exchange: MakeExchange = WorkerExchange,
    callbacks: "list[Callback] | None" = None,
) -> Any:
    """Fit an estimator on Dask collections, like ``estimator.fit(X, y)`` with further options.

    Parameters
    ----------
    estimator : MLPClassifier, MLPRegressor, NetClassifier, NetRegressor or one of `sknet.neural_network`
        The estimator to fit; afterwards it is like one that was fitted in this process.
    X : dask.array.Array or dask.dataframe.DataFrame of shape (n_samples, ...)
        Inputs. Each worker trains on its partitions.
    y : Dask collection or array of shape (n_samples,) or (n_samples, n_outputs)
        Targets, partitioned like X.
    sample_weight : Dask collection or array of shape (n_samples,), default=None
        Sample weights.
    sync_every : int, default=1
        1 averages the gradients of the workers in every step: the fit is that of one process on the same
        batches, up to rounding. With k > 1, each worker makes k steps on its own rows, with its share of the
        batch, before weights and the optimizer's state are averaged, which sends less and gives other
        results.
    client : Client, default=None
        Client of the cluster; None is the current one.
    exchange : callable, default=WorkerExchange
        ``exchange(worker, fit, rank, addresses)`` is called on each worker, and returns an `Exchange`.
    callbacks : list of Callback, default=None
        Called in this process.

    Returns
    -------
    estimator
        Fitted.

    Raises
    ------
    ValueError
        For estimators or parameters that cannot be fitted in parts, and as for `fit` of the estimator.
    TypeError
        For other estimators, and for inputs in memory.

    Examples
    --------
    >>> from sknet.dask import fit
    >>> fit(clf, X, y, sync_every=8)  # doctest: +SKIP
    """
    if not is_whole(sync_every):
        raise ValueError(
            f"The 'sync_every' parameter of fit must be an int >= 1. Got {shown(sync_every)} instead."
        )
    if not hasattr(type(estimator), "_fit_collections"):
        raise TypeError(
            "fit takes MLPClassifier, MLPRegressor, NetClassifier, NetRegressor or an estimator of "
            f"sknet.neural_network, got {type(estimator).__name__}: fit that of a pipeline on "
            "collections that are transformed already, and all others on what is in memory, X.compute()"
        )
    if not is_collection(X):
        raise TypeError(
            f"X must be a Dask collection, got {type(X).__name__}: fit what is in memory by "
            f"{type(estimator).__name__}.fit, or divide it, dask.array.from_array(X, chunks=...)"
        )
    options = {"sync_every": sync_every, "client": client, "exchange": exchange}
    if hasattr(estimator, "_target"):  # of a transformer: X itself, or y
        y = estimator._target(X, y)
    return estimator._fit_collections(FitArguments(X, y, sample_weight), callbacks=callbacks, **options)


@outside_of_tasks()
def fit_collections(
    estimator: Any,
    given: FitArguments,
    *,
    incremental: bool = False,
    classes: Any = None,
    callbacks: Any = None,
    resume_from: Any = None,
    beside: Sequence[Callback] = (),
    sync_every: int = 1,
    client: "distributed.Client | None" = None,
    exchange: MakeExchange = WorkerExchange,
) -> None:
    _refuse(estimator, given, resume_from)
    client = waiting_client(client)
    parts = client.compute(partitions_of(given.X, given.y, given.sample_weight))
    counts_labels = not estimator._numeric_targets
    facts = client.gather([client.submit(facts_of, part, counts_labels) for part in parts])
    _check_agreement(facts)
    places = [number for number, fact in enumerate(facts) if fact.n_rows]
    if not places:
        raise ValueError("X has no rows: all of its partitions are empty")
    chosen, known = [parts[number] for number in places], [facts[number] for number in places]
    X, y = client.submit(first_rows, chosen[0], FIRST).result()
    if counts_labels:
        X, y = _with_all_labels(X, known)
    cluster = Cluster(client, chosen, [fact.n_rows for fact in known], exchange)
    trainer = WorkersTrainer(cluster, known, given, sync_every, places)
    try:
        fit_network(
            estimator,
            FitArguments(X, y),
            incremental=incremental,
            classes=classes,
            callbacks=callbacks,
            beside=beside,
            trainer=trainer,
        )
    finally:
        cluster.end()


def _refuse(estimator: Any, given: FitArguments, resume_from: Any) -> None:
    """Raise a ValueError for what cannot be done over workers."""
    name = type(estimator).__name__
    params = estimator.get_params(deep=False)
    refused = [
        ("n_members", params.get("n_members", 1) != 1, "fit members one by one, with a random_state each"),
        ("encoder", params.get("encoder") is not None, "encode the partitions first, by map_partitions"),
        ("optimizer='lbfgs'", estimator._is_full_batch(), "use one that goes step by step, such as Adam()"),
        ("sampler", params.get("sampler") is not None, "set class_weight, or give sample_weight"),
        ("validation_split", params.get("validation_split") is not None, "set early_stopping=True"),
        ("refit_on_all", params.get("refit_on_all"), "set refit_on_all=False"),
        ("calibrate", params.get("calibrate") is not None, "calibrate on rows in memory"),
        ("X_val", given.X_val is not None, "set early_stopping=True, which holds rows of each partition out"),
        ("several heads", isinstance(params.get("loss"), dict), "fit what is in memory, fit(X.compute())"),
        ("offset", given.offset is not None, "fit what is in memory, fit(X.compute())"),
        ("groups", given.groups is not None, "set early_stopping=True, which holds rows out at random"),
        ("resume_from", resume_from is not None, "set warm_start=True to go on from the fitted weights"),
        ("targets that are X", given.y is given.X, "fit what is in memory, fit(X.compute())"),
        ("y=None", given.y is None, "give the targets, as a collection that is divided as X is"),
        (
            "scoring",
            params.get("scoring") not in (None, "loss"),
            "set scoring=None or 'loss', and score later",
        ),
        (f"device={params.get('device')!r}", params.get("device") not in (None, "auto", "cpu"), "set 'cpu'"),
    ]
    for what, is_asked, instead in refused:
        if is_asked:
            raise ValueError(f"{name} does not support {what} in a fit of Dask collections: {instead}")


def _check_agreement(facts: Sequence[Facts]) -> None:
    """Raise a ValueError for partitions that do not fit the first, or that have more targets than rows."""
    for number, fact in enumerate(facts):
        if fact.kind == "sparse":
            raise ValueError(
                f"partition {number} of X is sparse, and a fit of Dask collections needs dense arrays: "
                "convert them, X.map_blocks(lambda x: x.toarray())"
            )
        if fact.n_rows != fact.n_targets:
            raise ValueError(
                f"partition {number} has {fact.n_rows} rows of X and {fact.n_targets} of y: divide both alike"
            )
        if fact.fault:
            raise ValueError(f"partition {number}: {fact.fault}")
        for name, what, mine, first in (
            ("X", "columns", fact.names, facts[0].names),
            ("X", "rows of shape", fact.shape, facts[0].shape),
            ("X", "dtype", fact.kind, facts[0].kind),
            ("y", "labels that are", fact.label_kind or facts[0].label_kind, facts[0].label_kind),
        ):
            if mine != first:
                raise ValueError(
                    f"the partitions of {name} do not agree: partition 0 has {what} {first}, and partition "
                    f"{number} has {what} {mine}"
                )
    if any(fact.n_rows for fact in facts) and not sum(fact.weight for fact in facts):
        raise ValueError("sample_weight: at least one weight must be positive, got zeros only")


def _with_all_labels(X: Any, facts: Sequence[Facts]) -> tuple[Any, Any]:
    """Return rows like X whose targets are all labels that occur."""
    every = np.concatenate([fact.labels for fact in facts])
    labels = np.unique(every, axis=None if every.ndim == 1 else 0)
    y = np.concatenate([labels] * REPEATED)
    rows = np.arange(max(len(y), len(X)))
    y, places = y[rows % len(y)], rows % len(X)
    return (X.iloc[places] if hasattr(X, "iloc") else X[places]), y


class WorkersTrainer(Trainer):
    def __init__(
        self,
        cluster: Cluster,
        facts: Sequence[Facts],
        given: FitArguments,
        sync_every: int,
        places: Sequence[int],
    ) -> None:
        self.cluster, self._facts, self._given = cluster, facts, given
        self._sync_every, self._places = sync_every, places
        self._plan: FitPlan

    def divide(self, network: Any) -> Divided:
        request, model = network.request, network.model
        recipe, estimator = request.recipe, request.estimator
        seed = int(model.random_state.randint(SEEDS))
        fraction = recipe.validation_fraction if recipe.early_stopping else 0.0
        rows = standardize_inputs(network, lambda: self._input_scaling(network, seed, fraction))
        loss, moments = network.loss, self._moments(estimator, seed, fraction)
        if moments[0] is not None:
            _, loss = standardize(network, rows._replace(y=_two_rows(moments[0]), weight=None))
            rows = rows._replace(y=estimator._targets.encode(rows.labels))
        is_own = network.scoring.scorers is None
        standing = [_standing(estimator, each) if is_own else None for each in moments]
        training = DataSet(rows.X, rows.labels, None, rows.y, dtypes=rows.dtypes)
        self._plan = self._planned(network, seed, fraction, standing[0])
        held_out = validation = None
        if recipe.early_stopping:
            held_out = _RemoteData(*training)
            validation = _Validation(self.cluster, estimator, standing[1])
        return loss, training, held_out, training.batches(model, len(rows.y)), validation

    def _moments(self, estimator: Any, seed: int, fraction: float) -> list[Moments | None]:
        """Return the moments of the targets of a regression, for training rows and for held-out rows."""
        if not estimator._numeric_targets:
            return [None, None]
        client = self.cluster.client
        found = client.gather(
            [
                client.submit(moments_of, part, number, seed, fraction)
                for number, part in enumerate(self.cluster.parts)
            ]
        )
        return [reduce(Moments.joined, each) for each in zip(*found, strict=True)]

    def _input_scaling(self, network: Any, seed: int, fraction: float) -> InputScaling | None:
        """Return means and deviations of the inputs of the rows that are trained on."""
        features = features_of(network)
        if not features:
            return None
        client, axes = self.cluster.client, {name: axis for name, (_, axis) in features.items()}
        estimator, recipe = self._remote(network)
        read = partial(read_part, estimator, recipe, dtype=np.dtype(np.float64), dtypes=network.rows.dtypes)
        of_parts = client.gather(
            [
                client.submit(input_moments_of, part, number, place, seed, fraction, read, axes)
                for number, (part, place) in enumerate(zip(self.cluster.parts, self._places, strict=True))
            ]
        )
        found = {}
        for name, (x, axis) in features.items():
            moments = reduce(Moments.joined, [each[name] for each in of_parts])
            variance = moments.squares / moments.weight
            found[name] = units_of_moments(moments.mean, variance, x.ndim, axis, name)
        return InputScaling(found)

    def n_rows(self, given: FitArguments) -> int:
        return sum(self.cluster.sizes)

    def total_weight(self, given: FitArguments) -> float:
        return self.n_rows(given)  # weights are on the workers

    def _planned(self, network: Any, seed: int, fraction: float, standing: Any) -> FitPlan:
        sizes = self.cluster.sizes
        held_out = [len(held_out_rows(n, fraction, seed=seed, partition=i)) for i, n in enumerate(sizes)]
        if fraction and sum(held_out) < FEWEST:
            raise ValueError(
                "The validation set is too small. Increase 'validation_fraction' or the size of your dataset."
            )
        n_rows = sum(sizes) - sum(held_out)
        estimator, recipe = self._remote(network)
        batch_size = self.batch_size(recipe, n_rows)
        return FitPlan(
            estimator,
            recipe,
            seed,
            batch_size,
            -(-n_rows // batch_size),
            n_rows,
            fraction,
            self._sync_every,
            network.rows.dtypes,
            standing,
            self._places,
        )

    def _remote(self, network: Any) -> tuple[Any, Recipe]:
        """Return the estimator and the recipe that workers read rows by."""
        estimator, recipe = network.request.estimator, network.request.recipe
        weight = self._class_weight(recipe.class_weight)
        return _bare(estimator), recipe._replace(callbacks=(), class_weight=weight)

    def _class_weight(self, class_weight: Any) -> Any:
        """Return the weights of classes as numbers: a partition does not know how often each occurs."""
        if class_weight != "balanced":
            return class_weight
        if self._facts[0].labels.ndim > 1:
            raise ValueError(
                "class_weight='balanced' for several labels a row is not supported in a fit of Dask "
                "collections: give the weights as dicts, or as sample_weight"
            )
        counts: dict[Any, int] = {}
        for fact in self._facts:
            for label, count in zip(fact.labels.tolist(), fact.counts.tolist(), strict=True):
                counts[label] = counts.get(label, 0) + count
        n_rows = sum(counts.values())
        return {label: n_rows / (len(counts) * count) for label, count in counts.items()}

    def train(self, training: Any, callbacks: Sequence[Callback], lasts: bool = False) -> Outcome:
        self._check_blocks(callbacks)
        model, rows, settings = training.network.model, training.training, training.request.settings
        show_rows(model, rows.n_samples, training.batches.inputs)
        steps = WorkersSteps(model, self.cluster, self._plan)
        source, history = FitSource(training, self._given.rows), training.history
        return train_remotely(
            model, steps, history, settings, steps.new_score, training.validation, callbacks, source
        )

    def _check_blocks(self, callbacks: Sequence[Callback]) -> None:
        """Raise a ValueError if a callback asks for shorter blocks than workers make on their own."""
        most = min(self._plan.sync_every, self._plan.n_batches)
        for callback in callbacks:
            asked = callback.steps_per_block
            if asked is not None and asked < most:
                raise ValueError(
                    f"{type(callback).__name__} asks for blocks of {asked} steps, and with sync_every="
                    f"{self._sync_every} this process sees the model after {most} at the earliest: set "
                    f"sync_every={asked}, or a larger steps_per_block"
                )


def _bare(estimator: Any) -> Any:
    """Return a copy of an estimator that reads rows, without its fitted network."""
    bare = copy.copy(estimator)
    for name in ("model_", "callbacks_", "history_"):
        bare.__dict__.pop(name, None)
    bare.callbacks = None
    return bare


def input_moments_of(
    part: Partition,
    number: int,
    place: int,
    seed: int,
    fraction: float,
    read: Callable[..., DataSet],
    axes: Mapping[str, Any],
) -> dict[str, Moments]:
    """Return the moments of the inputs of the rows of a part that are trained on."""
    with naming_partition(place):
        rows = read(FitArguments(*part))
    training = np.setdiff1d(
        np.arange(rows.n_samples), held_out_rows(rows.n_samples, fraction, seed=seed, partition=number)
    )
    weight = np.ones(len(training)) if rows.weight is None else np.asarray(rows.weight, np.float64)[training]
    named = rows.X if isinstance(rows.X, dict) else {"X": rows.X}
    return {
        name: moments_of_rows(named[name][training].astype(np.float64), weight, axis)
        for name, axis in axes.items()
    }


def moments_of_rows(x: Any, weight: Any, axis: int | None) -> Moments:
    """Return the moments of the features of some rows, which are along an axis."""
    columns = x.reshape(-1, 1) if axis is None else np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])
    return moments_of_columns(columns, np.repeat(weight, len(columns) // max(len(x), 1)))


def _two_rows(moments: Moments) -> Any:
    """Return two rows that have the mean and the deviation of many."""
    deviation = np.sqrt(moments.squares / moments.weight)
    return np.stack([moments.mean - deviation, moments.mean + deviation])


def _standing(estimator: Any, moments: "Moments | None") -> Batches:
    """Return two rows whose targets vary as much as those of all."""
    y, weight = np.zeros((2, estimator._targets.n_outputs)), np.ones(2)
    if moments is not None and moments.weight:
        y = estimator._targets.encode(_two_rows(moments))
        weight = np.full(2, moments.weight / 2)
    return Batches(np.zeros((2, 1)), y, weight, 2, np.dtype(np.float64), Device("cpu"))


class _RemoteData(DataSet):
    """Placeholder for rows that workers hold out."""

    def digests(self) -> list[Any]:
        return [object()]  # like no others: each fit draws its own


class Merged(Score):
    """The score of the rows of all workers."""

    reads_outputs = False

    def __init__(self, score: Score | None) -> None:
        self._score, self._states = score, list[dict[str, Any]]()

    def merge(self, states: Sequence[Any]) -> None:
        self._states += [state for state in states if state is not None]

    def add(self, output: Any, target: Any, weight: Any, rows: Any = None) -> None:
        """Do nothing: workers see the outputs."""

    def result(self) -> float:
        return self.results().get("score", float("nan"))

    def results(self) -> dict[str, float]:
        if self._score is None or not self._states:
            return {}
        self._score.load_state(merged(self._states))
        return self._score.results()

    def state(self) -> dict[str, Any]:
        return {"states": list(self._states)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._states = list(state["states"])


class _Validation(Validation):
    """Held-out rows of all workers."""

    def __init__(self, cluster: Cluster, estimator: Any, standing: Batches | None) -> None:
        self._cluster, self._estimator, self._standing = cluster, estimator, standing

    def evaluate(self, model: Any) -> dict[str, float]:
        found: list[Scored] = self._cluster.all_do("evaluate", model)
        score = Merged(new_score(self._estimator, self._standing, model))
        score.merge([each.score for each in found])
        weight = sum(each.weight for each in found)
        loss = sum(each.loss for each in found) / weight if weight else float("nan")
        return {"loss": loss, **score.results()}


class WorkersSteps(RemoteSteps):
    """Steps that workers make together; after each block the model here is like theirs."""

    def __init__(self, model: Model, cluster: Cluster, plan: FitPlan) -> None:
        self.n_batches = plan.n_batches
        self._model, self._cluster, self._plan = model, cluster, plan
        self._per_step = SECONDS  # so that the first block has one step
        self._known: Any = None  # what the workers have; they begin with the first epoch

    def new_score(self) -> Merged:
        """Return an empty score, to which the following blocks are added."""
        self.score = Merged(new_score(self._plan.estimator, self._plan.standing, self._model))
        return self.score

    def refresh(self) -> None:
        if self._known is None or not self._is_theirs():
            self._cluster.begin(self._plan, self._model)
            self._note()

    def _is_theirs(self) -> bool:
        """Tell whether the model here is still that of the workers: a callback may have changed it."""
        model, (flat, buffers, *others) = self._model, self._known
        optimizer, loss, alpha, shapes = others
        same = optimizer is model.optimizer and loss is model.loss_function and alpha == model.alpha
        same = same and shapes == model.memory.layout.shapes and buffers.keys() == model.buffers.keys()
        same = same and np.array_equal(flat, model.memory.packed())
        return same and all(np.array_equal(buffers[name], x) for name, x in model.buffers.items())

    def _note(self) -> None:
        model = self._model
        self._known = (
            model.memory.packed(),
            {name: np.array(array) for name, array in model.buffers.items()},
            model.optimizer,
            model.loss_function,
            model.alpha,
            model.memory.layout.shapes,
        )

    def run(self, epoch: int, first: int, most: int) -> Sequence["tuple[float | None, int]"]:
        model, count = self._model, max(1, min(int(SECONDS / self._per_step), most))
        every = self._plan.sync_every
        if first + count < self.n_batches:  # to where workers agree, or the length of blocks would matter
            count = min(max(count // every, 1) * every, self.n_batches - first)
        started = time.perf_counter()
        blocks: list[Block] = self._cluster.all_do("run", model, epoch, first, count, model.progress)
        # The exchange numbers its ranks in an order of its own: the state is that of its rank 0.
        block, state = next((each, each.state) for each in blocks if each.state is not None)
        self._per_step = (time.perf_counter() - started) / len(block.rows)
        model.load(state)
        self._note()
        self.score.merge([each.score for each in blocks])
        losses = iter(block.losses.tolist())
        learned = zip(block.learned.tolist(), block.rows.tolist(), strict=True)
        return [(next(losses) if is_learned else None, n_rows) for is_learned, n_rows in learned]
