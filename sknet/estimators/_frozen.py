"""Frozen predictors: the part of a fitted estimator that prediction needs."""

import copy
import copyreg
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sknet._fields import ABOVE_ZERO, ABSENT, COUNT, Dtypes, Each, Named
from sknet._frames import (
    RowReader,
    are_numbers,
    is_frame,
    read_frame,
    refuse_collection,
    rows_of_records,
    with_columns,
)
from sknet._late import available_if, cached_property
from sknet._params import described_by
from sknet.core import Tensor, no_grad
from sknet.engine._inputs import arguments, computed_dtype, each_input
from sknet.engine._layer_outputs import Layer, detached, find_layer
from sknet.engine._network import Head, Network, Pass, SubPass, warn_of_overflow
from sknet.estimators._head_targets import HeadTargets, has_classes
from sknet.estimators._heads import (
    check_deviations,
    checked_codes,
    gives_deviations,
    gives_intervals,
    gives_probabilities,
    gives_quantiles,
    gives_sets,
    has_decoder,
)
from sknet.estimators._inputs import (
    Encoded,
    Inputs,
    RowsWithOffset,
    Sequences,
    forward_of,
    with_lengths,
    with_offset,
)
from sknet.estimators._offset import apply_offset
from sknet.estimators._portable import as_captured, pack, portable_loss, portable_module, unpack
from sknet.estimators._scaling import InputScaling
from sknet.estimators._targets import (
    DECODER,
    ArrayTargets,
    ClassEncoder,
    Prediction,
    RealTargets,
    conformal_sets,
    prediction_of,
)
from sknet.graphs import GraphModule
from sknet.losses import Loss
from sknet.losses._wrappers import without_offset
from sknet.nn import Module, Scope, run
from sknet.persistence import write_atomically

if TYPE_CHECKING:
    from sknet.engine import Model
    from sknet.estimators._layers import LayerOutput

KEPT = tuple(map(np.dtype, ("float32", "float64")))  # anything else becomes the dtype of the network
Targets = ClassEncoder | RealTargets | ArrayTargets


class Frozen:
    """A network in evaluation mode, and a compiled pass for each kind of prediction.

    Parameters
    ----------
    model : Model
        A fitted network; its parameters and buffers are copied.
    inputs : int, Inputs or Encoded
        Columns of X, or a description of the inputs if they are not a table.
    label : str
        Name of the network.
    names : array of str, default=None
        Names of the columns of X, if there are any.
    scaling : InputScaling or None, default=None
        Means and deviations by which X is standardized.
    allows_nan : bool, default=False
        Whether the network reads missing values, NaN.
    """

    _kind: str
    _names: "tuple[str, ...] | None"
    _scaling: InputScaling | None = None
    _allows_nan = False
    _stored_fields = {
        "_loss": Loss,
        "_targets": Named("ClassEncoder", "RealTargets", "ArrayTargets"),
        "_inputs": [COUNT, Named("Inputs", "Encoded")],
        "_label": str,
        "_dtype": Dtypes("f"),
        "_module": Named("Module"),
        "_names": [Each((tuple,), str), None],
        "_scaling": [Named("InputScaling"), None, ABSENT],
        "_allows_nan": [bool, ABSENT],
    }
    _stored: ClassVar[tuple[str, ...]] = tuple(_stored_fields)

    def _check_stored(self) -> None:
        from sknet.estimators._stored import check_network, check_scaling  # predictions do without

        targets, loss, n_columns = self._targets, self._loss, getattr(self, "n_features_in_", None)
        if self._names is not None and len(self._names) != n_columns:
            raise ValueError(f"{n_columns} columns have {len(self._names)} names")
        n_outputs = targets.n_outputs * loss.outputs_per_target * len(getattr(loss, "losses", [loss]))
        check_scaling(self._scaling, self._inputs)
        check_network(self._module, self._inputs, self._dtype, targets, n_outputs)

    def __init__(
        self,
        model: "Model",
        targets: Targets,
        inputs: "int | Inputs | Encoded",
        label: str,
        *,
        names: Any = None,
        scaling: InputScaling | None = None,
        allows_nan: bool = False,
    ) -> None:
        self._dtype, self._allows_nan = model.dtype, allows_nan
        self._names, self._scaling = None if names is None else tuple(names), scaling
        self._loss: Any = model.loss_function  # which heads it has, depends on its class
        self._targets = targets
        self._inputs, self._label = inputs.frozen() if isinstance(inputs, Encoded) else inputs, label
        self._own(detached(model))

    def _own(self, module: Module) -> None:
        """Take over a module: its parameters become views of one array, an input of the programs."""
        self._module, self._network = module, Network.fixed(module, self._dtype)
        self._predictions: dict[str, Prediction] = {}

    @cached_property
    def _read_row(self) -> RowReader | None:
        return None if self._names is None else RowReader(self._names)

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X; networks with other inputs have no such attribute."""
        if isinstance(self._inputs, Encoded):
            return self._inputs.n_features
        if not isinstance(self._inputs, int):
            raise AttributeError(
                f"the inputs of this {type(self).__name__} are not a table: it has no columns"
            )
        return self._inputs

    @property
    def feature_names_in_(self) -> Any:
        """Names of the columns of X, if X in the fit had string names."""
        if self._names is None:
            raise AttributeError("X had no column names in the fit")
        return np.array(self._names, dtype=object)

    @property
    def nbytes(self) -> int:
        """Bytes of parameters and buffers."""
        buffers = [buffer.data.nbytes for _, buffer in self._module.named_buffers()]
        return int(self._network.flat.nbytes + sum(buffers))

    def _unchecked(self, X: Any, name: str) -> Any:
        """Return a prediction whose name determines its head; None where it takes `_predicted`."""
        if type(X) is np.ndarray and X.ndim == 2 and X.shape[1] == self._inputs:
            scaling = self._scaling
            return self._network.unchecked(X, name, units=None if scaling is None else scaling.of_table)
        return None

    def _answered(self, X: Any, kind: str, lengths: Any, offset: Any = None, coverage: Any = None) -> Any:
        """Return a kind of prediction, see `prediction_of`."""
        found = None
        try:
            name, head, result = self._predictions[kind]
        except KeyError:
            name, head, result = made = prediction_of(self, kind, coverage)
            if coverage is None:
                self._predictions[kind] = made
        if coverage is lengths is offset is None:
            found = self._unchecked(X, name)
        if found is None:
            found = self._predicted(with_offset(with_lengths(X, lengths), offset), name, head)
        return result(found)

    def _predicted(self, X: Any, name: str, head: Head | None = None, by: Pass = run) -> Any:
        if type(X) is RowsWithOffset:
            return apply_offset(self._loss, self._predicted(X.X, "raw"), X.offset, head, type(self).__name__)
        with np.errstate(all="ignore"):  # one warning at the end says more than NumPy's on the way
            X, scaling = self._checked(X), self._scaling
            read = X if scaling is None else scaling.scaled(X, self._dtype, is_lazy=by is run)
            result = self._network.compute(read, name, head, by)
            warn_of_overflow(result, X, type(self).__name__)
        return result

    def _checked(self, X: Any) -> Any:
        """Return the input as a 2-D array or CSR matrix of finite numbers, or the inputs that it takes."""
        if type(X) is not np.ndarray:
            refuse_collection(X, type(self).__name__)
        # What is standardized, is so in double precision.
        first = self._dtype if self._scaling is None else np.dtype(np.float64)
        if not isinstance(self._inputs, int):
            kinds: list[type] = [np.float32, np.float64]
            X = _in_order(X, self._names if isinstance(self._inputs, Inputs) else None)
            X = self._inputs.read(None, X, kinds if self._scaling is None else kinds[::-1], self._allows_nan)
            if isinstance(self._module, GraphModule) and isinstance(self._inputs, Inputs):
                X = as_captured(self._module, X)
            return X
        if isinstance(X, Sequences):
            raise TypeError(f"lengths= are for sequences, and this {type(self).__name__} takes a table")
        if type(X) is not np.ndarray:
            X = self._opened(X)
        if X.ndim != 2 or X.shape[1] != self._inputs or X.dtype.kind not in "biufO":
            raise ValueError(
                f"expected a 2-D array of numbers with {self.n_features_in_} columns, got {X.dtype} of shape "
                f"{X.shape}"
            )
        if X.dtype not in KEPT:
            X = X.astype(first)
        if not X.shape[0]:
            raise ValueError("expected at least one row, got none")
        values = X if type(X) is np.ndarray else X.data
        if not are_numbers(values, self._allows_nan):
            raise ValueError("Input X contains NaN or infinity: impute or drop such rows first")
        return X

    def _opened(self, X: Any) -> Any:
        if hasattr(X, "tocsr"):
            return X.tocsr()
        if not is_frame(X):
            return np.asarray(rows_of_records(X, self._names))
        row = None if self._read_row is None else self._read_row(X)
        if row is not None and all(type(value) is float for value in row):
            return np.array([row])
        X = read_frame(X, self._names, self.n_features_in_)
        try:
            first = self._dtype if self._scaling is None else np.dtype(np.float64)
            return X.array((first, *(dtype for dtype in KEPT if dtype != first)))
        except (ValueError, TypeError) as error:
            raise with_columns(error, X) from None

    # -- hidden activations ---------------------------------------------------------------------

    def transform(self, X: Any, layer: int | str = -2, *, lengths: Any = None) -> Any:
        """Return the output of a layer for X and its `lengths`, like the estimator's method."""
        found = self._layer(layer)
        return self._predicted(with_lengths(X, lengths), found.name, by=found)

    def layer(self, layer: int | str = -2) -> "LayerOutput":
        """Return a transformer whose output is that of a layer, like the estimator's method."""
        from sknet.estimators._layers import LayerOutput  # an estimator of scikit-learn

        return LayerOutput(self, layer).fit()

    def _layer(self, layer: int | str) -> Layer:
        inputs = self._inputs
        row = np.zeros((1, inputs)) if isinstance(inputs, int) else inputs.example

        def compute(by: Pass) -> Any:
            return by(self._module, Scope({}), self._example())

        return find_layer(layer, self._module, self, row, self._dtype, compute)

    def _example(self) -> Any:
        """Return arguments of the network: a row of zeros."""
        inputs = self._inputs
        row = np.zeros((1, inputs)) if isinstance(inputs, int) else inputs.example
        return arguments(each_input(lambda x: Tensor(x.astype(computed_dtype(x, self._dtype))), row))

    def _layer_shape(self, layer: int | str) -> tuple[int, ...]:
        return self._layer(layer).shape

    # -- as Python ------------------------------------------------------------------------------

    def to_python(
        self, path: str | os.PathLike[str], *, layer: int | str | None = None, coverage: float | None = None
    ) -> None:
        """Write a Python file with functions that do the same as the methods, and need only NumPy.

        Parameters
        ----------
        path : path-like
            The file to write: a module with `predict`, `predict_proba`, ..., which holds all parameters.
        layer : int or str, default=None
            The layer whose output the file's `transform` returns; with None, that of a transformer returns
            the code, and other predictors have no such function.
        coverage : float, default=None
            Coverage of the file's `predict_interval` or `predict_set`. None is 0.8 for intervals and 0.9 for
            sets; if the loss has learned quantiles of another coverage, the file has no such function.

        Warns
        -----
        UserWarning
            If the file takes only sequences of the length in the fit, though the network takes others.

        Raises
        ------
        CaptureError
            If the network computes something that depends on values, or that NumPy alone cannot.
        TypeError, ValueError
            If there is no such layer, or the loss has learned no interval of this coverage.

        Notes
        -----
        The file calls NumPy's functions on as many rows and in the same order as this predictor, so results
        are the same to the bit, except where SciPy's functions are replaced (`erf` and `erfc`, thus "gelu"),
        where BLAS adds a multiple in one pass, and where large products are split: these differ in the last
        digits, and so may sums over more steps than in the fit. Inputs may have other lengths than in the fit
        where this predictor takes others.
        """
        write_atomically(Path(path), [self.as_python(layer, coverage).encode()])

    def as_python(self, layer: Any = None, coverage: float | None = None, table: Any = None) -> str:
        """Return the text of the file that `to_python` writes; `table` writes the encoding of tables."""
        from sknet.estimators._python import python_file  # predictions do without

        return python_file(self, layer, coverage, table)

    @property
    def reads_tables(self) -> bool:
        """True if X is a table of any kinds of columns."""
        return isinstance(self._inputs, Encoded)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes, without classes of users as far as graphs replace them."""
        return self._portable()

    def _attributes(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._stored}

    def _portable(self) -> dict[str, Any]:
        """Return the attributes, without classes of users as far as graphs replace them."""
        example = self._example()
        module = portable_module(self._module, example, self._parts)
        loss = portable_loss(self._loss, lambda: run(self._module, Scope({}), example))
        return {**self._attributes(), "_module": module, "_loss": loss}

    def _parts(self) -> dict[str, tuple[Module, Any]]:
        """Return modules that are called on their own, with examples of their arguments, by path."""
        return {}

    def __reduce_ex__(self, protocol: Any) -> Any:
        state = self._portable()
        if state["_module"] is self._module and state["_loss"] is self._loss:
            return copyreg.__newobj__, (type(self),), state  # type: ignore[attr-defined]
        return _restored, (type(self), state, pack(self._module, self._loss, state["_module"]))

    def __deepcopy__(self, memo: dict[int, Any]) -> "Frozen":
        made: Frozen = type(self).__new__(type(self))
        made.__setstate__(copy.deepcopy(self._attributes(), memo))
        return made

    def __setstate__(self, state: dict[str, Any]) -> None:
        module = state.pop("_module")
        self.__dict__.update(state)
        self._own(module)  # into an array of its own: joblib may hand out read-only maps of a file

    def __repr__(self) -> str:
        found = without_offset(self._loss)
        loss = type(getattr(found, "loss", found)).__name__  # the one inside of a wrapping loss
        return f"{type(self).__name__}({self._label}, {loss}, {self._dtype})"


def _in_order(X: Any, names: "tuple[str, ...] | None") -> Any:
    """Return a frame of several inputs with the columns of the fit in order, if they had names."""
    if isinstance(X, Sequences):
        return Sequences(_in_order(X.X, names), X.lengths)
    return X if names is None or not is_frame(X) else read_frame(X, names, len(names)).ordered()


def _restored(cls: type[Frozen], state: dict[str, Any], packed: bytes | None) -> Frozen:
    """Return a predictor from a pickle: with the user's classes where they are, else with graphs."""
    made = cls.__new__(cls)
    module, loss = unpack(packed, state["_module"], state["_loss"])
    made.__setstate__({**state, "_module": module, "_loss": loss})
    return made


@described_by(Frozen)
class FrozenClassifier(Frozen):
    """Classifier that only predicts: small, picklable, and without training state.

    Made by ``MLPClassifier.freeze()``. It has compiled forward passes for 1 to 16 and for 32, 64, ... rows,
    of which any number of rows is composed: it suits services that predict a few rows at a time.

    Parameters
    ----------
    targets : ClassEncoder
        The labels.
    temperature : float, tuple of float or None, default=None
        Divisor of the outputs that calibrates the probabilities.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MLPClassifier(optimizer="lbfgs", max_iter=500, random_state=0).fit(X, y)
    >>> frozen = clf.freeze()
    >>> frozen
    FrozenClassifier(4-100-3, relu, LogLoss, float64)
    >>> bool((frozen.predict(X) == clf.predict(X)).all())
    True
    """

    _targets: ClassEncoder
    _kind = "classifier"
    _stored_fields = {
        "_targets": Named("ClassEncoder"),
        "_temperature": [ABOVE_ZERO, Each((tuple,), [ABOVE_ZERO, Each((tuple, list), ABOVE_ZERO)]), None],
    }
    _stored = (*Frozen._stored, "_temperature")

    def __init__(
        self,
        model: "Model",
        targets: ClassEncoder,
        inputs: "int | Inputs | Encoded",
        label: str,
        temperature: Any = None,
        *,
        names: Any = None,
        scaling: InputScaling | None = None,
        allows_nan: bool = False,
    ) -> None:
        super().__init__(model, targets, inputs, label, names=names, scaling=scaling, allows_nan=allows_nan)
        self._temperature = temperature

    @property
    def classes_(self) -> Any:
        """The labels, sorted."""
        return self._targets.classes

    def decision_function(self, X: Any, *, lengths: Any = None, offset: Any = None) -> Any:
        """Return raw outputs for X, `lengths` and `offset`, like the estimator's method."""
        return self._answered(X, "decisions", lengths, offset)

    def predict(self, X: Any, *, lengths: Any = None, offset: Any = None) -> Any:
        """Return labels for X, `lengths` and `offset`, like the estimator's method."""
        return self._answered(X, "labels", lengths, offset)

    @available_if(gives_probabilities)
    def predict_proba(self, X: Any, *, lengths: Any = None, offset: Any = None) -> Any:
        """Return probabilities for X, `lengths` and `offset`, like the estimator's method."""
        return self._answered(X, "probabilities", lengths, offset)

    @available_if(gives_probabilities)
    def predict_log_proba(self, X: Any, *, lengths: Any = None, offset: Any = None) -> Any:
        """Return log probabilities for X, `lengths` and `offset`, like the estimator's method."""
        return self._answered(X, "log_probabilities", lengths, offset)

    @available_if(gives_sets)
    def predict_set(self, X: Any, coverage: float = 0.9, *, lengths: Any = None, offset: Any = None) -> Any:
        """Return sets of classes that cover a share `coverage` of rows, like the estimator's method."""
        probable = self.predict_proba(X, lengths=lengths, offset=offset)
        return conformal_sets(self._targets, probable, coverage)


@described_by(Frozen)
class FrozenTransformer(Frozen):
    """Transformer that only transforms: small, picklable, and without training state.

    Made by ``Autoencoder.freeze()``. It has compiled forward passes for 1 to 16 and for 32, 64, ... rows, of
    which any number of rows is composed: it suits services that predict a few rows at a time.

    Parameters
    ----------
    targets : RealTargets or ArrayTargets
        Targets of the network.
    code : int or str
        The layer whose output `transform` returns.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import Autoencoder
    >>> X, _ = load_iris(return_X_y=True)
    >>> coder = Autoencoder((8, 2), tol=0.1, random_state=0).fit(X)
    >>> coder.freeze().transform(X[:3]).shape
    (3, 2)
    """

    _targets: RealTargets | ArrayTargets
    _kind = "transformer"
    _stored_fields = {"_code": [int, str]}
    _stored = (*Frozen._stored, "_code")

    def __init__(
        self,
        model: "Model",
        targets: RealTargets | ArrayTargets,
        inputs: "int | Inputs | Encoded",
        label: str,
        code: Any,
        *,
        names: Any = None,
        scaling: InputScaling | None = None,
        allows_nan: bool = False,
    ) -> None:
        super().__init__(model, targets, inputs, label, names=names, scaling=scaling, allows_nan=allows_nan)
        self._code = code

    def transform(self, X: Any, layer: int | str | None = None, *, lengths: Any = None) -> Any:
        """Return the code or the output of a layer for X and `lengths`, like the estimator's method."""
        return super().transform(X, self._code if layer is None else layer, lengths=lengths)

    @available_if(has_decoder)
    def inverse_transform(self, X: Any, *, lengths: Any = None) -> Any:
        """Decode codes `X` of rows with these `lengths`, like the estimator's method."""
        shape, has_steps = self._layer_shape(self._code), not isinstance(self._inputs, int)
        codes = checked_codes(self, with_lengths(X, lengths), shape, has_steps=has_steps)
        with np.errstate(all="ignore"):
            _, head, result = prediction_of(self, DECODER)
            return result(self._network.compute(codes, DECODER, head, SubPass(DECODER)))

    def _coder(self) -> Module:
        return self._module

    def _parts(self) -> dict[str, tuple[Module, Any]]:
        decoder = dict(self._module.named_children()).get(DECODER)
        if decoder is None:
            return {}
        example = self._example()
        with no_grad():
            codes = self._layer(self._code)(self._module, Scope({}), example)
        takes_lengths = (
            isinstance(example, dict) and "lengths" in (forward_of(decoder) or {}).keys() & example
        )
        if not takes_lengths:
            return {DECODER: (decoder, (codes,))}
        name = next(iter(forward_of(decoder) or {}))
        return {DECODER: (decoder, {name: codes, "lengths": example["lengths"]})}

    def layer(self, layer: int | str | None = None) -> "LayerOutput":
        """Return a transformer whose output is that of a layer, the code by default."""
        return super().layer(self._code if layer is None else layer)


@described_by(Frozen)
class FrozenRegressor(Frozen):
    """Regressor that only predicts: small, picklable, and without training state.

    Made by ``MLPRegressor.freeze()``. It has compiled forward passes for 1 to 16 and for 32, 64, ... rows, of
    which any number of rows is composed: it suits services that predict a few rows at a time.

    Parameters
    ----------
    targets : RealTargets
        The number of outputs.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from sknet import MLPRegressor
    >>> X, y = make_regression(100, 5, random_state=0)
    >>> reg = MLPRegressor((8,), optimizer="lbfgs", max_iter=1000, random_state=0).fit(X, y)
    >>> bool((reg.freeze().predict(X[:1]) == reg.predict(X[:1])).all())
    True
    """

    _targets: RealTargets
    _kind = "regressor"
    _stored_fields = {"_targets": Named("RealTargets", "ArrayTargets")}

    def predict(self, X: Any, return_std: bool = False, *, lengths: Any = None, offset: Any = None) -> Any:
        """Return predictions for X, `lengths` and `offset`; if `return_std`, also standard deviations."""
        found = self._answered(X, "means", lengths, offset)
        if not return_std:
            return found
        check_deviations(self._loss)
        return found, self.predict_std(X, lengths=lengths, offset=offset)

    @available_if(gives_deviations)
    def predict_std(self, X: Any, *, lengths: Any = None, offset: Any = None) -> Any:
        """Return standard deviations for X, `lengths` and `offset`, like the estimator's method."""
        return self._answered(X, "deviations", lengths, offset)

    @available_if(gives_quantiles)
    def predict_quantiles(self, X: Any, *, lengths: Any = None, offset: Any = None) -> Any:
        """Return every quantile for X, `lengths` and `offset`, like the estimator's method."""
        return self._answered(X, "quantiles", lengths, offset)

    @available_if(gives_intervals)
    def predict_interval(
        self, X: Any, coverage: float = 0.8, *, lengths: Any = None, offset: Any = None
    ) -> Any:
        """Return lower and upper bounds of targets with this `coverage`, like the estimator's method."""
        return self._answered(X, "interval", lengths, offset, coverage)


@described_by(Frozen)
class FrozenMultiHeadNet(Frozen):
    """Network with several heads that only predicts: small, picklable, and without training state.

    Made by ``MultiHeadNet.freeze()``. It has compiled forward passes for 1 to 16 and for 32, 64, ... rows, of
    which any number of rows is composed: it suits services that predict a few rows at a time.

    Parameters
    ----------
    targets : HeadTargets
        The heads.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MultiHeadNet, nn
    >>> X, y = load_iris(return_X_y=True)
    >>> network = nn.Sequential(nn.LazyLinear(16), nn.ReLU(), nn.LazyLinear(4))  # columns of both heads
    >>> net = MultiHeadNet(network, {"width": "squared_error", "kind": "log_loss"}, tol=0.01, random_state=0)
    >>> frozen = net.fit(X[:, :3], {"width": X[:, 3], "kind": y}).freeze()
    >>> bool((frozen.predict(X[:9, :3])["kind"] == net.predict(X[:9, :3])["kind"]).all())
    True
    """

    _targets: HeadTargets
    _kind = "multihead"
    _stored_fields = {"_targets": Named("HeadTargets")}

    @property
    def classes_(self) -> Any:
        """The sorted labels of each head with classes."""
        return self._targets.classes

    def predict(self, X: Any, *, lengths: Any = None) -> Any:
        """Return predictions by head for X and its `lengths`, like the estimator's method."""
        found = self._answered(X, "labels", lengths)
        return self._targets.contained(found, getattr(X, "index", None) if hasattr(X, "iloc") else None)

    @available_if(has_classes)
    def predict_proba(self, X: Any, *, lengths: Any = None) -> Any:
        """Return probabilities by head for X and its `lengths`, like the estimator's method."""
        return self._answered(X, "probabilities", lengths)
