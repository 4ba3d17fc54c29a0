"""A first fit on a table that an encoder reads: it is fitted on the rows that are trained on."""

from typing import Any

import numpy as np
import scipy.sparse
from numpy.random import RandomState
from sklearn.base import clone

from sknet._random import RandomSnapshot, check_random_state
from sknet.estimators._checks import check_y, filled
from sknet.estimators._fit import EncodedTable, Request
from sknet.estimators._inputs import check_one_input, check_table, note_namespace
from sknet.estimators._network import reconstructed
from sknet.estimators._validation import split_rows
from sknet.preprocessing import TableEncoder
from sknet.preprocessing._encoder import fit_encoder
from sknet.preprocessing._encodings import Target, target_of
from sknet.preprocessing._schema import Schema, Table


def encode_rows(request: Request) -> tuple[Any, Any, EncodedTable]:
    """Hold rows out, fit the encoder on the others, and return all of them encoded, and targets."""
    estimator, recipe, given = request.estimator, request.recipe, request.given
    check_one_input(recipe.architecture.forward)
    note_namespace(estimator, given.X)
    encoder = _encoder_of(request)
    X = check_table(given.X)
    schema, table = Schema.learn(estimator, X, encoder.categorical_features, encoder.columns)
    is_reconstructed = given.y is given.X
    labels = None if is_reconstructed else _labels(request, table.n_rows)
    random_state = _random_state(request)
    began = RandomSnapshot(random_state)
    split = _split(request, table, labels, random_state)
    target = None if labels is None else _target(filled(labels), encoder.target_type)
    own = encoder.random_state
    draws = random_state if own is None else check_random_state(own)
    directions = schema.directions(estimator, recipe.monotonic_cst)
    fitted, X = _encoded(estimator, encoder, schema, table, target, split[0], draws, directions)
    y = _dense(reconstructed(estimator, X)) if is_reconstructed else labels
    return X, y, EncodedTable(fitted, split, random_state, began, fitted.plan.directions(directions))


def _encoder_of(request: Request) -> TableEncoder:
    """Return the encoder with what is known here: the kind of the targets, and the network's precision."""
    encoder: TableEncoder = clone(request.recipe.encoder)
    if encoder.target_type == "auto":
        encoder.target_type = "regression" if request.estimator._numeric_targets else "classification"
    # A frame has a dtype for each column, and is computed with in the smaller precision.
    is_double = str(getattr(request.given.X, "dtype", "")).endswith("float64")
    auto = "float64" if is_double else "float32"
    encoder.dtype = auto if request.recipe.dtype == "auto" else request.recipe.array_dtype
    return encoder


def _labels(request: Request, n_rows: int) -> Any:
    estimator = request.estimator
    return check_y(
        estimator,
        estimator._numbered(request, request.given.y, True),
        n_rows,
        numeric=estimator._numeric_targets,
        any_rank=estimator._targets_of_any_rank,
    )


def _random_state(request: Request) -> RandomState:
    """Return what draws the split, the encoder and the weights; as the fit began that is resumed."""
    seed, saved = request.recipe.random_state, request.saved
    if saved is None:
        return check_random_state(seed)
    found = RandomState() if seed is None else check_random_state(seed)
    found.set_state(saved.state["began"]["random_state"])
    return found


def _split(request: Request, table: Table, labels: Any, random_state: RandomState) -> tuple[Any, Any]:
    """Return the rows to train on and those held out; None where all are trained on."""

    def binary() -> Any:
        if labels is None:
            return None
        targets = request.estimator._new_targets(request.recipe, labels, request.classes)
        return targets.encode(labels) if targets.task == "binary" else None

    y = table.numbers if labels is None else labels
    return split_rows(request, request.given.X, y, binary, random_state)


def _target(labels: np.ndarray, target_type: str) -> Target:
    """Return what the encoder looks at; axes after the first are one."""
    return target_of(labels.reshape(len(labels), -1) if labels.ndim > 2 else labels, target_type)


def _encoded(
    estimator: Any,
    encoder: TableEncoder,
    schema: Schema,
    table: Table,
    target: Target | None,
    training: Any,
    random_state: RandomState,
    directions: Any,
) -> tuple[TableEncoder, Any]:
    """Return an encoder that is fitted on the training rows, and all rows encoded, in their order."""
    if training is None:
        fitted, outputs = fit_encoder(
            encoder, estimator, schema, table, target, random_state, None, directions
        )
        return fitted, fitted.encode(table, outputs)
    own = np.unique(training)
    others = np.setdiff1d(np.arange(table.n_rows), own)
    rows, seen = table.take(own), None if target is None else target.take(own)
    fitted, outputs = fit_encoder(encoder, estimator, schema, rows, seen, random_state, None, directions)
    parts = fitted.encode(rows, outputs), fitted.encode(table.take(others))
    order = np.argsort(np.concatenate([own, others]))
    if scipy.sparse.issparse(parts[0]):
        return fitted, scipy.sparse.vstack(parts, format="csr")[order]
    return fitted, np.concatenate(parts)[order]


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else X
