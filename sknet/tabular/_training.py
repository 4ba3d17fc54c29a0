"""Training one member: a network on all rows but those that its fold holds out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet import nn
from sknet._fields import COUNT, Named
from sknet.callbacks import Callback, EarlyStopping
from sknet.device import to_host
from sknet.engine import Batches, History, Model, Score
from sknet.engine.extend import Settings, Validation, chunk_rows_of, predict_rows, slim_model, train
from sknet.losses import LogLoss, Loss
from sknet.ops import is_sparse
from sknet.tabular._members import Setting
from sknet.tabular._network import TabularNet
from sknet.tabular._rows import EncodedRows

if TYPE_CHECKING:
    from sknet.preprocessing import TableEncoder
    from sknet.preprocessing.extend import FittedEncoder

__all__ = ["Member", "Rows", "Training"]


# Elements of the inputs that are looked at together.
MOST_ELEMENTS = 2**20
# Rows that the first weights are fitted to, and that are predicted at a time; fewer if they are wide.
ROWS_SEEN, MOST_ROWS = 2000, 4096


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
    """Encoded rows with their targets."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    _stored_fields = {
        "X": Any,
    }

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.X.shape[0])

    @property
    def chunk(self) -> int:
        """The number of rows to predict at a time: fewer of wide rows, whose arrays would be large."""
        return int(max(64, min(MOST_ROWS, MOST_ELEMENTS // self.X.shape[1])))

    def batches(self, model: Model, size: int) -> Batches:
        """Return the rows as batches for the training loop."""
        return Batches(self.X, self.y, self.weight, size, model.dtype, model.device)


@dataclass
class Member:
    """A network of an ensemble.

    Attributes
    ----------
    kind : {"smooth", "sharp"}
        Its kind.
    fold : int
        The fold whose held-out rows it has not seen.
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
    ('sharp', 0)
    """

    kind: str
    fold: int
    encoder: "TableEncoder | FittedEncoder"
    model: Model
    history: History
    _stored_fields = {
        "encoder": Named("TableEncoder", "FittedEncoder"),
        "fold": COUNT,
    }

    def outputs(self, X: Any) -> np.ndarray:
        """Return raw outputs of shape (n_samples, n_outputs) for the encoded rows `X`."""
        if isinstance(X, EncodedRows):
            size = chunk_rows_of(self.model, X)
            starts = range(0, len(X), size)
            return np.concatenate([self.outputs(X[start : start + size]) for start in starts])
        found: np.ndarray = to_host(predict_rows(self.model, X))
        return found


def loss_with(loss: Loss, label_smoothing: float) -> Loss:
    """Return a loss with label smoothing, if it is a log loss."""
    if not label_smoothing:
        return loss
    if isinstance(loss, LogLoss):
        return loss.__class__(**{**loss.get_params(deep=False), "label_smoothing": label_smoothing})
    return loss


class Training:
    """The training of a network, whose length may be decided after its first epochs."""

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
        device: Any = "cpu",
    ) -> None:
        random_state = np.random.RandomState(seed)
        scales = not is_sparse(training.X)
        network = TabularNet(
            training.X.shape[1],
            n_outputs,
            setting.hidden_layer_sizes,
            setting.dropout,
            scales,
            one_hot if setting.embeddings and scales else (),
        )
        network.initialize(random_state)
        seen: Any = slice(None)
        most = min(ROWS_SEEN, max(ROWS_SEEN // 8, MOST_ELEMENTS // training.X.shape[1]))
        if training.n_rows > most:
            seen = np.sort(random_state.choice(training.n_rows, most, replace=False))
        nn.init.from_data(network, training.X[seen], random_state=random_state)
        size = min(setting.batch_size, training.n_rows)
        self.done, self._setting, self._history = 0, setting, History()
        self.n_batches = -(-training.n_rows // size)
        self._schedules = setting.schedules(setting.epochs * self.n_batches)
        self._model = model = Model(
            network,
            loss=loss_with(loss, setting.label_smoothing),
            optimizer=setting.optimizer(self._schedules, scales),
            device=device,
            random_state=random_state,
            copy=False,
        )
        self._batches = training.batches(model, size)
        self._validation = (
            Validation(held_out.batches(model, held_out.chunk), NoScore) if setting.keep == "best" else None
        )

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
        return _predicting(self._model), self._history

    def _train(self, settings: Settings, callbacks: list[Callback]) -> None:
        train(self._model, self._batches, self._history, settings, NoScore, self._validation, callbacks)
        self.done += settings.max_iter


def _predicting(model: Model) -> Model:
    """Return a trained model without what only training needs, whose network reads one-hot columns."""
    network = model.module.without_vectors()
    if network is model.module:
        return slim_model(model)
    return Model(
        network,
        loss=model.loss_function,
        optimizer=model.optimizer,
        device=model.device,
        random_state=model.random_state,
        copy=False,
    )
