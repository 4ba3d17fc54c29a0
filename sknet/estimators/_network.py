"""The network of a fit, new or taken up, and the inputs and targets that it is checked against."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.random import RandomState
from sklearn.utils.validation import _check_feature_names

from sknet import nn, ops
from sknet._constraints import shown
from sknet._hints import suggestion
from sknet._params import same
from sknet._validation import check_one_direction, directions_of
from sknet.core import Tensor, no_grad
from sknet.device import active, arrays_in, device_of, to_device
from sknet.engine import Model
from sknet.engine._checks import last_layer
from sknet.engine._inputs import any_sparse, each_input, first_input, n_rows
from sknet.engine._network import predict_raw
from sknet.engine._optimizer import minimises_alike
from sknet.estimators._checks import (
    INTEGERS,
    check_X,
    check_X_y,
    check_y,
    filled,
    naming_columns,
    rank_of,
    weights_of_known,
    without_padding,
)
from sknet.estimators._fit import EARLIER, Data, DataSet, Network, Request
from sknet.estimators._inputs import (
    Encoded,
    Inputs,
    are_inputs,
    as_host,
    check_one_input,
    looks_for_missing,
    missing_in,
    numbers_as_array,
    read_inputs,
    with_own_lengths,
)
from sknet.estimators._offset import take_offset
from sknet.estimators._targets import (
    ArrayTargets,
    ClassEncoder,
    ColumnTargets,
    PositionTargets,
    RealTargets,
    check_columns,
)
from sknet.exceptions import InvalidParameterError, ShapeError
from sknet.losses import Loss
from sknet.losses._wrappers import Heads
from sknet.nn._module import hold_statistics, with_statistics

ROWS = 5  # by which a loss is asked whether it takes outputs of a shape
DOUBLE_FIRST: list[type] = [np.float64, np.float32]  # integers and objects become the first


def checked_inputs(request: Request, X: Any, y: Any, *, reset: bool | None = None) -> tuple[Any, Any]:
    """Return checked inputs and targets: a table, or the inputs of a custom network."""
    estimator, recipe, architecture = request.estimator, request.recipe, request.recipe.architecture
    dtypes, numeric = recipe.accepted_dtypes(), estimator._numeric_targets
    reset = not request.continuing if reset is None else reset
    is_reconstructed = y is X
    y = estimator._numbered(request, y, reset)
    if not reset and (estimator._input_scaling is not None or recipe.scale_inputs):
        dtypes = DOUBLE_FIRST

    def targets(X: Any) -> Any:
        if is_reconstructed:
            return reconstructed(estimator, X)
        return check_y(estimator, y, n_rows(X), numeric=numeric, any_rank=estimator._targets_of_any_rank)

    if not reset and estimator._inputs is not None:
        X = estimator._inputs.read(estimator, X, dtypes)
        return X, targets(X)
    if architecture.is_foreign and reset:
        X = with_own_lengths(X, architecture.forward)
    if architecture.is_foreign and are_inputs(X, architecture.forward):
        X = read_inputs(estimator, X, architecture.forward, dtypes, reset=reset)
        return X, targets(X)
    check_one_input(architecture.forward)
    kept, given = dtypes, X
    if reset and (architecture.is_foreign or recipe.scale_inputs):
        kept, X = [*dtypes, *INTEGERS], numbers_as_array(X)
    if not is_reconstructed and estimator._targets_of_any_rank and rank_of(y) > 2:
        X = check_X(estimator, as_host(X), kept, reset=reset)
        y = targets(X)
    else:
        X, y = check_X_y(estimator, X, y, kept, reset=reset, numeric=numeric)
    if hasattr(given, "columns") and reset:
        _check_feature_names(estimator, given, reset=True)
    return X, y


def reconstructed(estimator: Any, X: Any) -> Any:
    """Return what a network learns to return that is trained to return its inputs."""
    if not isinstance(X, dict):
        return X
    inputs = [name for name in X if name != "lengths"]
    if len(inputs) > 1:
        raise ValueError(
            f"{type(estimator).__name__} reconstructs one input, and X has {inputs}: set target='y', and "
            "give what the network shall return as y"
        )
    return X[inputs[0]]


def take_model(data: Data) -> Network:
    """Return a new network, or the fitted one, with its owner."""
    request = data.request
    estimator, recipe, saved = request.estimator, request.recipe, request.saved
    if request.continuing:
        _check_network(request, data.loss)
        rows, loss = take_offset(request, data.rows, data.loss)
        # partial_fit trains the model in place, and is undone if it fails; fit trains a copy, so that
        # a failure has no effect.
        model = estimator.model_ if request.incremental else estimator.model_.copy()
        estimator._frozen = freeze(model.module, recipe.frozen, estimator._frozen)
        if recipe.dtype != "auto":
            model.precision = recipe.dtype
        hyper = recipe.optimizer, loss, recipe.alpha
        if not (request.incremental and minimises_alike(model, *hyper)):
            model.adopt(*hyper)
        return Network(data, model, rows, loss)
    estimator._architecture = recipe.architecture
    estimator._lasting = recipe.lasting_parameters()
    table, dtype = data.table, request.dtype(data.rows.X)
    random_state = recipe.random_state if table is None else table.random_state
    network, rows, loss = _new_network(data, dtype)
    if request.given.offset is not None:
        rows, loss = take_offset(request, rows, loss)
    model = Model(
        network,
        loss=loss,
        optimizer=recipe.optimizer,
        alpha=recipe.alpha,
        dtype=dtype if recipe.dtype == "auto" else recipe.dtype,
        device=device_of(first_input(rows.X)) if recipe.device == "auto" else recipe.device,
        # What a resumed fit draws is in its checkpoint: NumPy's global state is nothing to it.
        random_state=RandomState() if saved and random_state is None else random_state,
        copy=recipe.architecture.is_foreign,  # else it was built for this fit
    )
    if recipe.architecture.is_foreign and any_sparse(rows.X):
        check_sparse_inputs(model.materialize(rows.X), rows.X, rows.dtypes)
    return Network(data, model, rows, loss, began=None if table is None else table.began)


def _new_network(data: Data, dtype: Any) -> tuple[nn.Module, DataSet, Loss]:
    """Return the network, which has as many outputs as the targets need, and what it learns by."""
    request, rows, loss = data.request, data.rows, data.loss
    recipe, estimator, X = request.recipe, request.estimator, rows.X
    architecture = recipe.architecture
    network = _built(data, loss)
    estimator._inputs = estimator._input_scaling = None
    estimator.__dict__.pop("_allows_nan", None)
    if architecture.is_foreign:
        inputs, shape = Inputs.of(network, X, dtype, architecture.forward)
        estimator._allows_nan = _takes_missing(estimator, network, X, dtype, inputs.dtypes(X, dtype))
        if _has_an_output_for_each_class(estimator._targets, rows.labels, shape):
            ignored = getattr(recipe.loss, "ignore_index", None)
            estimator._targets = PositionTargets(filled(rows.labels), request.classes, ignored)
            rows, loss = encode_targets(request, rows)
            network = _built(data, loss)
            inputs, shape = Inputs.of(network, X, dtype, architecture.forward)
            row = rows.labels.shape[1:]
            if shape is not None and row == shape[1:] != shape[:-1]:
                network, shape = nn.Sequential(network, nn.ChannelsLast()), (*row, shape[0])
        rows = rows._replace(dtypes=inputs.dtypes(X, dtype))
        estimator._inputs = None if inputs.is_table else inputs
        targets, n_outputs = estimator._targets, _n_outputs(estimator, loss)
        if isinstance(targets, ArrayTargets):
            targets.meet(network, shape, rows.labels)
            rows, loss = encode_targets(request, rows)
            shape = None
        elif isinstance(targets, RealTargets) and _reads_columns(request, rows.y, dtype, n_outputs, shape):
            targets.read_by_loss(shape[0] if shape else 1)
            n_outputs = _n_outputs(estimator, loss)
        if shape == () and n_outputs == 1:
            network = nn.Sequential(network, nn.Unflatten(0, (-1, 1)))  # targets and predictions have columns
        needs = f"{targets.n_outputs} target(s) and {type(loss).__name__}()"
        check_outputs(network, shape, n_outputs, needs, is_class=targets.task != "regression")
    if isinstance(estimator._targets, ColumnTargets):
        check_columns(recipe.loss)
    if data.table is not None:
        estimator._inputs = Encoded(data.table.encoder)
    estimator._frozen = freeze(network, recipe.frozen)
    return network, rows, loss


def _reads_columns(
    request: Request, y: Any, dtype: Any, n_outputs: int, shape: "tuple[int, ...] | None"
) -> bool:
    """Tell whether a user's loss takes other outputs than one for each column of y."""
    loss = request.recipe.loss
    are_inputs = request.given.y is request.given.X
    if are_inputs or shape is None or len(shape) > 1 or (shape or (1,)) == (n_outputs,):
        return False
    if type(loss).__module__.startswith("sknet.") or loss.outputs_per_target > 1:  # which says so itself
        return False
    try:
        with no_grad(), np.errstate(all="ignore"):
            some = y[:ROWS].astype(dtype)
            values = loss.values(Tensor(np.zeros((len(some), *(shape or (1,))), dtype)), Tensor(some))
    except Exception:  # whatever a loss raises for outputs of another shape
        return False
    return bool(values.shape == (len(some),))


def _takes_missing(estimator: Any, network: nn.Module, X: Any, dtype: Any, dtypes: Any) -> bool:
    """Tell whether a network reads NaN; raise a ValueError if there are some and it does not."""
    said = getattr(network, "allow_nan", None)
    if said or estimator.__sklearn_tags__().input_tags.allow_nan:
        return True
    if said is None and looks_for_missing(
        network, X, dtype, dtypes
    ):  # whether or not some are missing in these rows
        return True
    missing = missing_in(X)
    if missing is None:
        return False
    is_table = not isinstance(X, dict) and X.ndim == 2
    with naming_columns(estimator if is_table else None, X):
        raise ValueError(
            f"{missing} contains NaN, and {type(network).__name__} does not say that it takes missing "
            "values: let it look for them, as by ops.isnan, or set its attribute allow_nan = True; or impute "
            "or drop such rows first"
        )


def _built(data: Data, loss: Loss) -> nn.Module:
    """Return a new network, with outputs for each of several heads, and monotonic where that is demanded."""
    (estimator, recipe, *_), table = data.request, data.table
    cst = recipe.monotonic_cst
    directions = None if table is None else table.directions
    if table is None and cst is not None:
        directions = directions_of(estimator, cst)
    if directions is not None:
        check_one_direction(estimator._targets.task, loss)
    n_outputs = getattr(loss, "outputs", None) or _n_outputs(estimator, loss)
    architecture: Any = recipe.architecture
    more = {} if directions is None else {"directions": directions}
    return architecture.build(data.rows.X, n_outputs, **more)


def _n_outputs(estimator: Any, loss: Loss) -> int:
    return estimator._targets.n_outputs * loss.outputs_per_target


def _has_an_output_for_each_class(targets: Any, labels: Any, shape: tuple[int, ...] | None) -> bool:
    """Tell whether a network has two outputs for two classes, or outputs for each position of a sequence."""
    if shape is None or not isinstance(targets, ClassEncoder) or targets.task == "ordinal":
        return False
    if labels.ndim == 1:
        return targets.task == "binary" and shape == (2,)
    return len(shape) > 1 and labels.shape[1:] in (shape[:-1], shape[1:])


def weights_of(request: Request, X: Any, labels: Any, weight: Any, like: Any = None) -> Any:
    """Return the weights of rows, or of targets, with those of their classes; 0 of what is missing."""
    weight = weights_of_known(labels, weight, request.dtype(X))
    return request.estimator._weighted(request.recipe, labels, weight, request.incremental, like)


def encode_targets(request: Request, rows: DataSet) -> tuple[DataSet, Loss]:
    estimator, recipe = request.estimator, request.recipe
    targets = estimator._targets
    y = targets.encode(filled(rows.labels))
    loss = targets.trained(recipe.loss)
    loss.check_target(y, n_outputs=targets.n_outputs)
    weight = weights_of(request, rows.X, rows.labels, rows.sample_weight)
    if weight is not None and weight.ndim == 2:
        _check_whole_targets(targets, loss, rows.labels, weight)
    weight = without_padding(targets, rows.X, y, weight, request.dtype(rows.X))
    return rows._replace(y=y, weight=weight), loss


def _check_whole_targets(targets: Any, loss: Any, labels: Any, weight: Any) -> None:
    """Raise a ValueError if weights differ, or some are missing, of columns of y that are one target."""
    parts = {"y": (loss, weight, labels)}
    if isinstance(loss, Heads):
        weights = targets.weights(weight)
        parts = {f"y[{k!r}]": (loss.heads[k], weights[k], targets.part(labels, k)) for k in loss.heads}
    for name, (own, weights_of_own, part) in parts.items():
        if own.columns_per_target > 1 and (
            np.isnan(part).any() or (weights_of_own != weights_of_own[:, :1]).any()
        ):
            raise ValueError(
                f"{own!r} reads {own.columns_per_target} columns of {name} as one target: none may be "
                "missing, and weights are of rows"
            )


def _check_network(request: Request, loss: Loss) -> None:
    """Raise a ValueError if a continued fit asks for another network than the fitted one."""
    estimator, recipe = request.estimator, request.recipe
    n_outputs = _n_outputs(estimator, loss)
    if n_outputs != estimator.n_outputs_:
        raise ValueError(
            f"{recipe.loss!r} needs {n_outputs} output(s), and the network that was fitted has "
            f"{estimator.n_outputs_}: a fit that continues cannot change it. Set warm_start=False and "
            "call fit for a new network."
        )
    for name, value in recipe.lasting_parameters().items():
        if value is estimator._lasting.get(name):
            continue
        before = estimator._lasting.get(name, EARLIER.get(name))
        if name == "dtype" and arrays_in(value) == arrays_in(before):
            continue  # weights of one dtype can be trained with products of any precision
        if not same(value, before):
            now = getattr(estimator, name, None) if value is None else value
            raise ValueError(
                f"{name} was {before!r} when this network was fitted and is {now!r} now: a fit that "
                "continues cannot change it. Set warm_start=False and call fit for a new network."
            )


def check_outputs(
    network: nn.Module, shape: tuple[int, ...] | None, n_outputs: int, needs: str, is_class: bool
) -> None:
    """Raise a ShapeError if a network returns another number of outputs than needed."""
    found = None if shape is None else shape[-1] if shape else 1
    if found is None or found == n_outputs:
        return
    path, last = last_layer(network)
    where = f"; its last layer is {path!r}: {last!r}" if path else ""
    of_two = "Only binary classification is supported. " if found == 1 and is_class else ""
    raise ShapeError(
        f"{of_two}{type(network).__name__} returns {found} output(s) for each row, and {needs} need "
        f"{n_outputs}{where}. Let the constructor take n_outputs, or give the layer that number"
    )


def check_patterns(frozen: Any, caller: str) -> tuple[str, ...]:
    if frozen is None:
        return ()
    patterns = [frozen] if isinstance(frozen, str) else frozen
    if not isinstance(patterns, (list, tuple)) or not all(isinstance(each, str) for each in patterns):
        raise InvalidParameterError(
            f"The 'frozen' parameter of {caller} must be a pattern of names of parameters, such as "
            f"'body.*', or a list of those. Got {shown(frozen)} instead."
        )
    return tuple(patterns)


def freeze(network: nn.Module, patterns: Sequence[str], before: Iterable[str] = ()) -> tuple[str, ...]:
    """Freeze the parameters whose names match a pattern, and thaw those that did before."""
    before = frozenset(before)
    if not patterns and not before:
        return ()  # a lazy layer has no names of parameters yet
    network = getattr(network, "forwards_to", network)
    known, statistics = dict(network.own_parameters()), with_statistics(network)
    chosen: dict[str, None] = {}
    for pattern in patterns:
        names = [*known, *(name for _, _, buffers in statistics for name in buffers)]
        found = [name for name in names if fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")]
        if not found:
            places = [path for path, _ in network.named_modules() if path]
            raise InvalidParameterError(
                f"frozen={shown(pattern)} matches no parameter of the network"
                f"{suggestion(pattern, [*places, *known])} Its parameters are {list(known)}."
            )
        chosen.update(dict.fromkeys(found))
    trained = {name for name, p in known.items() if p.requires_grad or name in before}
    if chosen and not trained.difference(chosen):
        raise InvalidParameterError(
            f"frozen={shown(list(patterns))} leaves no parameter to train, of {list(known)}"
        )
    for name, parameter in known.items():
        if name in chosen or name in before:
            parameter.requires_grad = name not in chosen
    for module, own, buffers in statistics:
        is_frozen = (bool(own) and own <= chosen.keys()) or not chosen.keys().isdisjoint(buffers)
        if is_frozen or not before.isdisjoint((*own, *buffers)):
            hold_statistics(module, is_frozen)
    return tuple(chosen)


def check_sparse_inputs(model: Model, X: Any, dtypes: Any) -> None:
    """Raise a TypeError that names an input which the network reads as an array only."""

    def placed(x: Any, dtype: Any) -> Any:
        return to_device(x[:1].astype(dtype), model.device)

    row = each_input(placed, X, dtypes)
    named = row if isinstance(row, dict) else {"X": row}
    dense = {
        name: to_device(x.toarray(), model.device) if ops.is_sparse(x) else x for name, x in named.items()
    }
    for name in filter(lambda name: ops.is_sparse(named[name]), named):
        error = _error(model, {**dense, name: named[name]}, row)
        if error is not None and _error(model, dense, row) is None:
            raise TypeError(
                f"the network cannot read input {name!r} as a sparse matrix: {error}. Only a product, as in "
                f"nn.Linear, reads one; give {name!r} as an array, .toarray()"
            ) from error


def _error(model: Model, named: dict[str, Any], row: Any) -> Exception | None:
    try:
        with active(model.device, model.precision):
            predict_raw(model, named if isinstance(row, dict) else named["X"])
    except Exception as error:
        return error
    return None
