"""Training one member: its network, its rows, and the fit on all rows but those that its fold holds out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sknet import nn, ops
from sknet._config import native_core
from sknet._fields import ABSENT, COUNT, Named
from sknet.callbacks import Callback, EarlyStopping
from sknet.core import Tensor, no_grad
from sknet.device import to_host
from sknet.engine import Batches, History, Model, Score
from sknet.engine._batches import ComputedRows
from sknet.engine._loop import Settings, Validation, train
from sknet.engine._model_copies import slim_model
from sknet.engine._network import Predictor, chunk_rows_of, network_of, predict_rows
from sknet.estimators._architecture import after_linear, linear_layer
from sknet.losses import LogLoss, Loss
from sknet.losses._wrappers import WithOffset
from sknet.ops import is_sparse
from sknet.ops._codes import Blocks, coded_matmul, codes_of, decoded
from sknet.optim import BaseOptimizer
from sknet.preprocessing._encodings import Crossed
from sknet.preprocessing._native import NativeRows
from sknet.preprocessing._schema import Table
from sknet.tabular._members import OfKind, Setting, are_in

if TYPE_CHECKING:
    from sknet.preprocessing import TableEncoder
    from sknet.preprocessing._plan import FittedEncoder


class LevelVectors(nn.Module):
    """Learned vectors of levels, instead of one-hot columns."""

    def __init__(self, n_features: int, spans: Sequence[tuple[int, int]]) -> None:
        lengths = [round(1.6 * (stop - start) ** 0.56) for start, stop in spans]
        draw = nn.init.Normal(1.0)
        pairs = zip(spans, lengths, strict=True)
        self.tables = nn.ModuleList(*[nn.Linear(b - a, n, bias=False, init=draw) for (a, b), n in pairs])
        self.spans, self.n_features = tuple(spans), n_features
        self.has_vector = np.zeros(n_features, bool)
        for start, stop in spans:
            self.has_vector[start:stop] = True
        is_vector: list[bool] = []
        at = 0
        for (start, stop), length in zip(spans, lengths, strict=True):
            is_vector += [False] * (start - at) + [True] * length
            at = stop
        self.is_vector = np.array(is_vector + [False] * (n_features - at))

    @property
    def width(self) -> int:
        """Columns of the output, in which a vector stands where the columns of its category stood."""
        return len(self.is_vector)

    def forward(self, x: Any) -> Tensor:
        parts, at = [], 0
        for table, (start, stop) in zip(self.tables, self.spans, strict=True):
            parts += [x[..., at:start], table(x[..., start:stop])]
            at = stop
        return ops.concat([*parts, x[..., at:]], axis=-1)

    def weights(self, weight: Any, factors: Any = None) -> Tensor:
        """Return the weights of the input, of shape (n_features, n), that those of the output make."""
        # Each part is multiplied by its factors, if there are any, to be written to its place at once.

        def part(start: int, stop: int | None) -> Any:
            return weight[start:stop] if factors is None else weight[start:stop] * factors[start:stop]

        parts, at, place = [], 0, 0
        for table, (start, stop) in zip(self.tables, self.spans, strict=True):
            first = place + start - at
            last = first + table.out_features
            parts += [part(place, first), table.weight @ part(first, last)]
            at, place = stop, last
        return ops.concat([*parts, part(place, None)])

    def directions(self, of_inputs: np.ndarray) -> np.ndarray:
        """Return the directions of the columns of the output."""
        found = np.zeros(self.width, of_inputs.dtype)
        found[~self.is_vector] = of_inputs[~self.has_vector]
        return found


LEAST = 2.0  # of `FromData`: rows of rare two-valued columns would lead to outputs of hundreds, by dropout


class TabularNet(nn.Module):
    """A perceptron in the neural tangent parametrization, for rows of encoded tables."""

    _stored_fields = {
        "vectors": [Named("Module"), None],
        "scale": [Named("Scale"), None],
        "body": Named("Sequential"),
        "skip": Named("Linear"),
        "link": [Named("ExpLink"), None, ABSENT],
    }

    # Set after the training, where members are trained by outputs before a link.
    link: "Callable[[Tensor], Tensor] | None" = None

    # Set in training only, while rows are given by codes.
    blocks: Blocks = ()

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        hidden_layer_sizes: Sequence[int],
        dropout: float,
        scales: bool = True,
        spans: Sequence[tuple[int, int]] = (),
        directions: "np.ndarray | None" = None,
    ) -> None:
        self.vectors = LevelVectors(n_features, spans) if spans else None
        width = n_inputs = n_features if self.vectors is None else self.vectors.width
        self.scale = nn.Scale(width) if scales else None
        if directions is not None and self.vectors is not None:
            directions = self.vectors.directions(directions)
        layers: list[nn.Module] = []
        linear, of_layer = partial(linear_layer, parametrization="ntp"), directions
        for size in hidden_layer_sizes:
            hidden = linear(width, size, of_layer, init=nn.init.FromData(least=LEAST))
            layers += [hidden, after_linear(hidden, nn.ReLU())]
            of_layer = getattr(hidden, "out_directions", None)
            if dropout:
                layers.append(nn.Dropout(dropout))
            width = size
        last = linear(width, n_outputs, of_layer, is_last=True, init=nn.init.FromData("zeros", least=LEAST))
        self.body = nn.Sequential(*layers, last)
        self.skip = linear(n_inputs, n_outputs, directions, is_last=True, bias=False, init="zeros")

    @property
    def is_monotonic(self) -> bool:
        """True if weights have signs, whatever those of the parameters are."""
        return isinstance(self.skip, nn.MonotonicLinear)

    def forward(self, x: Any) -> Tensor:
        joins = (self.training or self.is_monotonic) and not self.body[0].awaits_data
        if self.scale is not None and (joins or self.blocks):
            return self._with_scaled_weights(x)
        h = x if self.vectors is None else self.vectors(x)
        scaled = h if self.scale is None else self.scale(h)
        return self._linked(self.body(scaled) + self.skip(scaled))

    def _with_scaled_weights(self, x: Any) -> Tensor:
        """Return the same with the factors, and vectors of levels, multiplied into the weights."""
        if self.blocks and not self.training and type(x.data) is np.ndarray:  # both products read these rows
            rows = Tensor(decoded(x.data, self.blocks))
            return self.rest(*[rows @ weight for weight in self.first_weights()])
        return self.rest(*[self._times(x, weight) for weight in self.first_weights()])

    def first_weights(self) -> list[Tensor]:
        """Return the weights of the inputs, with factors, of the first layer and the skip connection."""
        factors: Any = self.body[0].in_features ** -0.5
        if self.scale is not None:
            factors = self.scale.weight[:, np.newaxis] * factors
        layers = self.body[0], self.skip
        if self.vectors is not None and not self.is_monotonic:
            return [self.vectors.weights(layer.weight, factors) for layer in layers]
        weights = [layer.effective(layer.weight * factors) for layer in layers]
        return weights if self.vectors is None else [self.vectors.weights(weight) for weight in weights]

    def rest(self, hidden: Tensor, skipped: Tensor) -> Tensor:
        """Return the outputs, given the products of the inputs and both of `first_weights`."""
        first, *others = self.body
        hidden = hidden + first.bias
        for layer in others:
            hidden = layer(hidden)
        return self._linked(hidden + skipped)

    def _linked(self, output: Tensor) -> Tensor:
        return output if self.link is None else self.link(output)

    def of_codes(self, codes: Any, blocks: Blocks) -> Tensor:
        """Return the outputs for rows that are given by codes of some blocks."""
        return self.rest(*[coded_matmul(codes, weight, blocks) for weight in self.first_weights()])

    def _times(self, x: Any, weight: Tensor) -> Any:
        return coded_matmul(x, weight, self.blocks) if self.blocks else x @ weight

    def without_signs(self) -> "TabularNet":
        """Return a network that predicts the same with weights that have their signs."""
        if not self.is_monotonic:
            return self
        plain = self.copy().to(device="cpu")
        if plain.scale is not None:
            factors, has_direction = plain.scale.weight.numpy(), self.skip.in_directions.numpy() != 0
            plain.scale.weight.data = np.where(has_direction, np.abs(factors), factors)
        plain.body = nn.Sequential(*[_signed(layer) for layer in plain.body])
        plain.skip = _signed(plain.skip)
        return plain

    def without_vectors(self) -> "TabularNet":
        """Return a network that predicts the same from one-hot columns."""
        if self.vectors is None:
            return self
        plain = self.copy().to(device="cpu")
        vectors, of_columns = plain.vectors, plain.scale
        assert vectors is not None
        assert of_columns is not None
        scale = of_columns.weight.numpy()
        plain.vectors, plain.scale = None, nn.Scale(vectors.n_features)
        factors = np.ones(vectors.n_features, scale.dtype)
        factors[~vectors.has_vector] = scale[~vectors.is_vector]
        plain.scale.weight.data = factors
        scale = np.where(vectors.is_vector, scale, 1.0).astype(scale.dtype)
        first, *others = plain.body
        plain.body = nn.Sequential(_widened(first, vectors, scale), *others)
        plain.skip = _widened(plain.skip, vectors, scale)
        return plain


def _signed(layer: Any) -> Any:
    """Return a plain layer for a monotonic one; others as they are."""
    if not isinstance(layer, nn.MonotonicLinear):
        return layer
    found = nn.Linear(
        layer.in_features, layer.out_features, bias=layer.bias is not None, parametrization="ntp"
    )
    found.weight.data = layer.effective(layer.weight.numpy())
    if layer.bias is not None:
        found.bias.data = layer.bias.data
    return found


def _widened(layer: nn.Linear, vectors: LevelVectors, scale: np.ndarray) -> nn.Linear:
    """Return a layer that has the outputs for one-hot columns which this one has for scaled vectors."""
    found = nn.Linear(
        vectors.n_features, layer.out_features, bias=layer.bias is not None, parametrization="ntp"
    )
    factors = scale[:, np.newaxis] * (found.in_features / layer.in_features) ** 0.5
    with no_grad():
        found.weight.data = vectors.weights(layer.weight * factors.astype(scale.dtype)).numpy()
    if layer.bias is not None:
        found.bias.data = layer.bias.data
    return found


# Encoded rows of up to so many bytes are kept: they stay in the cache, and a batch of them is only copied.
KEPT_BYTES = 2**24
# Without native code, encoding anew in every epoch takes longer, so more is kept.
MOST_BYTES = 2**28


class EncodedRows(ComputedRows):
    """Rows of a table, which behave like an array of their encodings, but hold only which rows they are."""

    # Those with blocks behave like an array of the codes of encodings.

    def __init__(
        self,
        encoder: "TableEncoder | FittedEncoder",
        table: Table,
        rows: "np.ndarray | None" = None,
        fitted: "Mapping[int, Crossed] | None" = None,
        blocks: Blocks = (),
    ) -> None:
        n_rows = table.n_rows if rows is None else len(rows)
        super().__init__((n_rows, 2 * len(blocks) or encoder.n_features_out_), np.dtype(encoder.dtype))
        self._blocks = blocks
        self._encoder, self._table, self._fitted = encoder, table, dict(fitted or {})
        self._rows = None if rows is None else np.ascontiguousarray(rows, np.int64)
        if self._rows is not None and not are_in(self._rows, table.n_rows):
            raise IndexError(f"rows of a table of {table.n_rows} rows must be from 0 to {table.n_rows - 1}")
        self._native: NativeRows | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_native": None}  # it holds addresses of this process

    @property
    def is_native(self) -> bool:
        """True if native code encodes rows."""
        return self._table.sparse is None and self.dtype == np.float32 and native_core() is not None

    def write(self, rows: np.ndarray, out: np.ndarray) -> None:
        rows = np.asarray(rows)
        is_plain = out.flags.c_contiguous and out.dtype == np.float32 and rows.dtype.kind in "iu"
        fits = out.shape == (*rows.shape, self.shape[1])
        if not (is_plain and fits and self.is_native and are_in(rows, len(self))):
            out[...] = self._by_numpy(rows)
            return
        chosen = np.ascontiguousarray(rows, np.int64)
        if self._native is None:
            self._native = NativeRows(self._encoder.plan, self._table, self._fitted, bool(self._blocks))
        places = chosen if self._rows is None else self._rows[chosen]
        self._native.encode(chosen, places, out)

    def _by_numpy(self, rows: np.ndarray) -> np.ndarray:
        places = rows if self._rows is None else self._rows[rows]
        table = self._table.take(places)
        fitted = {i: Crossed(each.values, each.codes[rows]) for i, each in self._fitted.items()}
        found = np.asarray(self._encoder.encode(table, *([fitted] if fitted else [])))
        return codes_of(found, self._blocks) if self._blocks else found


def reads_codes(table: Table) -> bool:
    """Tell whether members read codes of rows: where native code multiplies these."""
    return table.sparse is None and native_core() is not None


def encoded_rows(
    encoder: "TableEncoder | FittedEncoder",
    table: Table,
    rows: "np.ndarray | None" = None,
    fitted: "Mapping[int, Crossed] | None" = None,
    blocks: Blocks = (),
    beside: int = 0,
) -> Any:
    """Return encoded rows of a table: an array, a CSR array, or `EncodedRows` if an array is too large."""
    # Dense ones may be given by codes, for these blocks. What is in memory `beside` them counts, in bytes.
    if table.sparse is not None:
        table = table if rows is None else table.take(rows)
        return encoder.encode(table, *([dict(fitted)] if fitted else []))
    found = EncodedRows(encoder, table, rows, fitted, blocks)
    is_large = found.nbytes + beside > (KEPT_BYTES if found.is_native else MOST_BYTES)
    return found if is_large else found[:]


# Elements of the inputs that are looked at together.
MOST_ELEMENTS = 2**20
# Rows that the first weights are fitted to, and that are predicted at a time; fewer if they are wide.
ROWS_SEEN, MOST_ROWS = 512, 4096


@dataclass(frozen=True)
class ByCodes:
    """A pass through a `TabularNet` for rows that are given by codes of some blocks."""

    blocks: Blocks

    def __call__(self, network: Any, scope: nn.Scope, args: Any) -> Any:
        return nn.run(partial(network.of_codes, blocks=self.blocks), scope, args)


class NoScore(Score):
    """An empty score, where none is needed."""

    reads_outputs = False
    may_wait = True

    def add(self, output: Any, target: Any, weight: Any, rows: Any = None) -> None:
        pass

    def result(self) -> float:
        return float("nan")

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        pass


@dataclass(frozen=True)
class Rows:
    """Encoded rows with their targets; X is codes if there are blocks."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    blocks: Blocks = ()
    _stored_fields = {
        "X": Any,
    }

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    @property
    def width(self) -> int:
        return sum(count for count, _ in self.blocks) or int(self.X.shape[1])

    @property
    def chunk(self) -> int:
        """The number of rows to predict at a time: fewer of wide rows, whose arrays would be large."""
        return int(max(64, min(MOST_ROWS, MOST_ELEMENTS // self.width)))

    def take(self, chosen: Any) -> Any:
        return decoded(self.X[chosen], self.blocks) if self.blocks else self.X[chosen]

    def batches(self, model: Model, size: int) -> Batches:
        return Batches(self.X, self.y, self.weight, size, model.dtype, model.device)


@dataclass
class Member(OfKind):
    """A network of an ensemble.

    Attributes
    ----------
    kind : {"smooth", "sharp", "neighbors"}
        Its kind.
    fold : int
        The fold whose held-out rows it has not seen; 0 for neighbors, which belong to all folds.
    encoder : TableEncoder or FittedEncoder
        The encoder of its inputs, shared by members of one kind and fold.
    model : Model
        The network.
    history : History
        The history of its training.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import TabularRegressor
    >>> X = np.arange(40.0).reshape(-1, 1)
    >>> reg = TabularRegressor(budget=0.02, random_state=0).fit(X, X[:, 0])
    >>> member = reg.members_[0]
    >>> member.kind, member.fold
    ('smooth', 0)
    """

    kind: str
    fold: int
    encoder: "TableEncoder | FittedEncoder"
    model: Model
    history: History
    _stored_fields = {
        "encoder": Named("TableEncoder", "FittedEncoder", fitted="_plan"),
        "fold": COUNT,
    }

    def outputs(self, X: Any) -> np.ndarray:
        """Return raw outputs of shape (n_samples, n_outputs) for encoded rows `X`, perhaps with targets."""
        if isinstance(X, Rows):
            if not X.blocks:
                return self.outputs(X.X)
            parts = [slice(start, start + X.chunk) for start in range(0, X.n_rows, X.chunk)]
            return np.concatenate([self.outputs(X.take(part)) for part in parts])
        if isinstance(X, EncodedRows):
            size = chunk_rows_of(self.model, X)
            starts = range(0, len(X), size)
            return np.concatenate([self.outputs(X[start : start + size]) for start in starts])
        return to_host(predict_rows(self.model, X))

    def outputs_of_trained(self, rows: Rows) -> np.ndarray:
        """Return raw outputs for the rows of the training, whose codes are not decoded."""
        if not rows.blocks:
            return self.outputs(rows.X)
        # Programs for so many rows are not kept with the model.
        network, by = network_of(self.model), ByCodes(rows.blocks)
        compute = Predictor(network.module, network.layout, network.flat, None, by, network.device)
        starts = range(0, rows.n_rows, rows.chunk)
        return np.concatenate([compute.in_parts(rows.X[start : start + rows.chunk]) for start in starts])

    def of_codes(self, codes: np.ndarray) -> np.ndarray:
        """Return raw outputs for a row that is given by codes of the encoder's blocks."""
        by = ByCodes(self.encoder.plan.blocks)
        found: np.ndarray = predict_rows(self.model, codes, "codes", by=by)
        return found

    @property
    def reads_codes(self) -> bool:
        """True if the network predicts a row by codes: a ``TabularNet`` on the host."""
        return isinstance(self.model.module, TabularNet) and self.model.device.kind == "cpu"


class Trained(NamedTuple):
    """A member with its outputs for the rows that it has not seen, and perhaps for those that it has."""

    member: Member
    outputs: np.ndarray
    of_trained: "np.ndarray | None" = None


def loss_with(loss: Loss, label_smoothing: float) -> Loss:
    if not label_smoothing:
        return loss
    if isinstance(loss, WithOffset):
        return loss.around(loss_with(loss.loss, label_smoothing))
    if isinstance(loss, LogLoss):
        return loss.__class__(**{**loss.get_params(deep=False), "label_smoothing": label_smoothing})
    return loss


def even_size(size: int, n_rows: int) -> int:
    """Return a size of batches, up to a tenth smaller, that divides the rows if one does.

    A last batch of another size would be another program to compile.
    """
    return next((each for each in range(size, size - size // 10, -1) if n_rows % each == 0), size)


class Training:
    """The training of a network, whose length may be decided after its first epochs."""

    _loss: Loss | None = None  # that of the trained model, if not the one it is trained by

    def __init__(
        self,
        setting: Setting,
        training: Rows,
        held_out: Rows,
        loss: Loss,
        n_outputs: int,
        seed: int,
        *,
        one_hot: "tuple[tuple[int, int], ...]" = (),
        directions: "np.ndarray | None" = None,
        device: Any = "cpu",
    ) -> None:
        self.done, self._setting, self._history = 0, setting, History()
        self._rows, self._held_out, self._n_outputs = training, held_out, n_outputs
        random_state = np.random.RandomState(seed)
        network, own = self._made(random_state, one_hot, directions)
        size = even_size(min(setting.batch_size, own.n_rows), own.n_rows)
        self.n_batches = -(-own.n_rows // size)
        self._schedules = setting.schedules(setting.epochs * self.n_batches)
        self._model = model = Model(
            network,
            loss=loss_with(loss, setting.label_smoothing),
            optimizer=self._optimizer(network),
            device=device,
            random_state=random_state,
            copy=False,
        )
        self._batches = own.batches(model, size)
        self._validation = (
            Validation(held_out.batches(model, held_out.chunk), NoScore) if setting.keep == "best" else None
        )

    def _made(
        self, random_state: np.random.RandomState, one_hot: Any, directions: Any
    ) -> tuple[nn.Module, Rows]:
        training, setting = self._rows, self._setting
        scales = not is_sparse(training.X)
        network = TabularNet(
            training.width,
            self._n_outputs,
            setting.hidden_layer_sizes,
            setting.dropout,
            scales,
            one_hot if setting.embeddings and scales else (),
            directions,
        )
        network.initialize(random_state)
        seen: Any = slice(None)
        most = min(ROWS_SEEN, max(ROWS_SEEN // 8, MOST_ELEMENTS // training.width))
        if training.n_rows > most:
            seen = np.sort(random_state.choice(training.n_rows, most, replace=False))
        nn.init.from_data(network, training.take(seen), random_state=random_state)
        if training.blocks:
            network.blocks = training.blocks
        return network, training

    def begin(self, n_epochs: int) -> None:
        """Train for the first epochs, or some more, of as many as are set."""
        settings = Settings(
            n_epochs, planned_steps=(self._setting.epochs - self.done) * self.n_batches, is_part=True
        )
        self._train(settings, [])

    def finish(self, n_epochs: int, callbacks: "tuple[Callback, ...]" = ()) -> tuple[Model, History]:
        """Train for the rest of `n_epochs`, and keep the weights that predict."""
        left = n_epochs - self.done
        if n_epochs != self._setting.epochs:  # rates are no part of the compiled steps
            for old, new in zip(
                self._schedules, self._setting.schedules(n_epochs * self.n_batches), strict=True
            ):
                old.set_params(**new.get_params(deep=False))
        stopping = [EarlyStopping("validation_loss", patience=np.inf, tol=0.0)] if self._validation else []
        if left > 0:
            self._train(Settings(left, is_part=self.done > 0), [*callbacks, *stopping])
        return self._predicting(), self._history

    def _optimizer(self, network: Any) -> BaseOptimizer:
        return self._setting.optimizer(self._schedules, network.scale is not None)

    def _predicting(self) -> Model:
        """Return the trained model as it predicts."""
        return _predicting(self._model, self._loss)

    def _train(self, settings: Settings, callbacks: list[Callback]) -> None:
        train(self._model, self._batches, self._history, settings, NoScore, self._validation, callbacks)
        self.done += settings.max_iter


def _predicting(model: Model, loss: Loss | None) -> Model:
    """Return a trained model of plain layers, which reads one-hot columns and has nothing for training."""
    if model.module.blocks:
        del model.module.blocks
    network = model.module.without_signs().without_vectors()
    if network is model.module:
        return slim_model(model, loss)
    return Model(
        network,
        loss=model.loss_function if loss is None else loss,
        optimizer=model.optimizer,
        device=model.device,
        random_state=model.random_state,
        copy=False,
    )
