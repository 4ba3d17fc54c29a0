"""Random actions of everything that a user can do to a model between steps."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.random import Generator

from sknet import Model, nn, no_grad, ops
from sknet.engine._network import predict_rows
from sknet.exceptions import GradientError, StateError
from sknet.losses import Huber, LogLoss
from sknet.optim import EMA, SGD, Adam, AdamW, Groups, RMSprop
from sknet.optim.schedules import Step
from tests.fuzz.same import assert_same

WIDTH, CLASSES = 4, 3


class Reader(nn.Module):
    """A layer that reads attributes, items of lists and dicts, arrays and objects."""

    def __init__(self) -> None:
        self.number = 1.0
        self.numbers = [1.0, 0.5]
        self.options = {"flag": True, "deep": {"scales": [1.0]}}
        self.table = np.ones(WIDTH, "f4")
        self.tables = [np.ones(1, "f4")]
        self.gain = nn.Parameter(np.ones(WIDTH))

    def forward(self, x: Any) -> Any:
        factor = self.number * self.numbers[0] * self.options["deep"]["scales"][0] * float(self.tables[0][0])
        x = x * self.table * (factor * self.gain)
        x = ops.tanh(x) if self.options["flag"] else x
        return x if len(self.numbers) == 2 else x * 0.5


class Stale(NamedTuple):
    """A loss recorded before some actions, with its parameters and gradient at that time."""

    loss: Any
    parameters: Any
    gradient: Any


class Twin:
    """A model and its companions."""

    def __init__(self, model: Model, *, takes_hooks: bool) -> None:
        self.model, self.takes_hooks = model, takes_hooks
        self.handles: list[Any] = []
        self.states: list[Any] = []
        self.stale: list[Stale] = []

    @property
    def net(self) -> Any:
        """The model's network, a Sequential."""
        return self.model.module


Act = Callable[[Twin], Any]
ACTIONS: dict[str, tuple[int, Callable[[Generator], Act]]] = {}


def action(weight: int = 1) -> Callable[[Any], Any]:
    """Register a function that draws an action, with its weight in the draw."""

    def enter(function: Any) -> Any:
        ACTIONS[function.__name__] = weight, function
        return function

    return enter


# -- batches ----------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """The arguments of a step."""

    X: Any
    y: Any
    weight: Any


def drawn_batch(rng: Generator, n_rows: int | None = None) -> Callable[[Twin], Batch]:
    """Draw a batch with targets for the twin's loss."""
    n_rows = int(rng.choice([5, 5, 5, 3, 8])) if n_rows is None else n_rows
    X = rng.normal(size=(n_rows, WIDTH))
    sparse = rng.random() < 0.15
    classes, real = rng.integers(0, CLASSES, n_rows), rng.normal(size=(n_rows, CLASSES))
    weight = rng.uniform(0.5, 2.0, n_rows) if rng.random() < 0.2 else None

    def made(twin: Twin) -> Batch:
        dtype = twin.model.dtype
        takes_sparse = sparse and isinstance(twin.net[0], (nn.Linear, nn.LazyLinear))
        inputs = scipy.sparse.csr_array(X * (X > 0)) if takes_sparse else X
        target = classes if isinstance(twin.model.loss_function, LogLoss) else real
        return Batch(inputs.astype(dtype), target, None if weight is None else weight.astype(dtype))

    return made


@action(14)
def step(rng: Generator) -> Act:
    batch, times = drawn_batch(rng), int(rng.integers(1, 4))

    def act(twin: Twin) -> Any:
        for _ in range(times):
            result = twin.model.step(*batch(twin))
        return result.loss, dict(result.gradient), dict(result.update), result.output.numpy()

    return act


@action(8)
def predict(rng: Generator) -> Act:
    n_rows = int(rng.choice([1, 1, 2, 7]))
    batch = drawn_batch(rng, n_rows)

    def act(twin: Twin) -> Any:
        model, X = twin.model, batch(twin).X
        found = predict_rows(model, X, "predictions", model.loss_function.predict)
        plain = model.predict(X)
        tolerance = 1e-4 if model.dtype == "float32" else 1e-10
        np.testing.assert_allclose(found, plain, rtol=tolerance, atol=tolerance, err_msg="rows")
        return plain

    return act


@action(4)
def functional(rng: Generator) -> Act:
    batch, donate, goes_on = drawn_batch(rng), bool(rng.random() < 0.4), bool(rng.random() < 0.7)

    def act(twin: Twin) -> Any:
        model, (X, y, weight) = twin.model, batch(twin)
        loss = model.loss(model(X), y, weight)
        gradient = model.backward(loss, donate=donate)
        state = model.update(gradient, donate=donate)
        if donate:
            twin.states.clear()  # which the model may have been made from, and which is then overwritten
        if goes_on or donate:
            move(twin, model.replace(state))
        return loss.item(), dict(gradient), dict(state.parameters)

    return act


def move(twin: Twin, model: Model) -> None:
    """Continue a twin with a copy of its model; the copied hooks are looked up there."""
    twin.model = model
    if twin.handles:
        twin.handles = []


# -- states and copies --------------------------------------------------------------------------------


@action(3)
def keep_state(rng: Generator) -> Act:
    def act(twin: Twin) -> Any:
        twin.states.append(twin.model.state)

    return act


@action(3)
def load_state(rng: Generator) -> Act:
    by_replacing = bool(rng.random() < 0.3)

    def act(twin: Twin) -> Any:
        if not twin.states:
            return
        if by_replacing:
            move(twin, twin.model.replace(twin.states[-1]))
        else:
            twin.model.load(twin.states[-1])

    return act


@action(2)
def best_weights(rng: Generator) -> Act:
    batch = drawn_batch(rng)

    def act(twin: Twin) -> Any:
        kept = twin.model.weights()
        twin.model.step(*batch(twin))
        twin.model.restore_weights(kept)

    return act


# -- writing to parameters ------------------------------------------------------------------------------


def drawn_parameter(rng: Generator) -> Callable[[Twin], Any]:
    place = rng.random()

    def found(twin: Twin) -> Any:
        known = list(twin.net.parameters())
        return known[int(place * len(known))]

    return found


@action(3)
def load_state_dict(rng: Generator) -> Act:
    seed, part = int(rng.integers(1 << 30)), bool(rng.random() < 0.3)

    def act(twin: Twin) -> Any:
        draws = np.random.default_rng(seed)
        state = {name: draws.normal(size=array.shape) ** 2 for name, array in twin.net.state_dict().items()}
        if part:
            state = dict(list(state.items())[::2])
        twin.net.load_state_dict(state, strict=not part)

    return act


@action(5)
def write(rng: Generator) -> Act:
    parameter, value = drawn_parameter(rng), float(rng.normal())
    way = str(rng.choice(["data", "array", "item", "add", "multiply", "copy", "wrong"]))

    def act(twin: Twin) -> Any:
        found = parameter(twin)
        with no_grad():
            if way == "data":
                found.data = np.full(found.shape, value)
            elif way == "copy":
                found.data = (found.data * value).astype("f8")
            elif way == "array":
                if found.data.flags.writeable:
                    found.data[...] = value  # which no tape can notice
                    twin.stale.clear()
                else:
                    found.data = np.full(found.shape, value)
            elif way == "item":
                found[...] = value
            elif way == "add":
                found += value
            elif way == "multiply":
                found *= value
            else:
                found.data = np.zeros((*found.shape, 2))

    return act


@action(4)
def freeze(rng: Generator) -> Act:
    parameter, mode = drawn_parameter(rng), bool(rng.random() < 0.5)
    layer = None if rng.random() < 0.5 else rng.random()

    def act(twin: Twin) -> Any:
        if layer is None:
            parameter(twin).requires_grad = mode
        else:
            twin.net[int(layer * len(twin.net))].requires_grad_(mode)
        if not any(p.requires_grad for p in twin.net.parameters()):
            twin.net.requires_grad_(True)

    return act


# -- changing the network -------------------------------------------------------------------------------


def linears(twin: Twin) -> list[int]:
    return [i for i, layer in enumerate(twin.net) if isinstance(layer, nn.Linear)]


@action(2)
def put_parameter(rng: Generator) -> Act:
    values, place = rng.normal(size=(WIDTH, WIDTH)), rng.random()

    def act(twin: Twin) -> Any:
        layer = twin.net[linears(twin)[int(place * len(linears(twin)))]]
        layer.weight = nn.Parameter(values[:, : layer.weight.shape[1]].copy())

    return act


@action(3)
def put_layer(rng: Generator) -> Act:
    place, seed = rng.random(), None if rng.random() < 0.4 else int(rng.integers(1000))
    kind = str(rng.choice(["linear", "relu", "reader", "lazy", "norm"]))

    def act(twin: Twin) -> Any:
        index = int(place * (len(twin.net) - 1))
        made: Any = {
            "linear": lambda: nn.Linear(WIDTH, WIDTH),
            "relu": nn.ReLU,
            "reader": Reader,
            "lazy": lambda: nn.LazyLinear(WIDTH),
            "norm": lambda: nn.BatchNorm(WIDTH),
        }[kind]()
        if seed is not None and kind != "lazy":
            made.initialize(seed)
        if isinstance(twin.net[index], nn.Linear) or len(twin.net) > 7:
            twin.net[index] = made
        else:
            twin.net.insert(index, made)

    return act


@action(2)
def remove_layer(rng: Generator) -> Act:
    place = rng.random()

    def act(twin: Twin) -> Any:
        if len(twin.net) > 3:
            del twin.net[int(place * (len(twin.net) - 1))]

    return act


@action(1)
def share(rng: Generator) -> Act:
    def act(twin: Twin) -> Any:
        square = [i for i in linears(twin) if twin.net[i].weight.shape == (WIDTH, WIDTH)]
        if len(square) > 1:
            twin.net[square[1]].weight = twin.net[square[0]].weight

    return act


@action(1)
def put_foreign(rng: Generator) -> Act:
    batch = drawn_batch(rng)

    def act(twin: Twin) -> Any:
        other = Model(nn.Sequential(nn.Linear(WIDTH, WIDTH)), random_state=1)
        index = linears(twin)[0]
        before = twin.net[index]
        twin.net[index] = other.module[0]
        try:
            twin.model.step(*batch(twin))
        finally:
            twin.net[index] = before

    return act


@action(1)
def to(rng: Generator) -> Act:
    dtype = str(rng.choice(["float32", "float64"]))

    def act(twin: Twin) -> Any:
        twin.net.to(dtype)

    return act


# -- state that the forward pass reads ---------------------------------------------------------------------


def _table(reader: Any, value: float) -> None:
    reader.table[1] = value


def _tables(reader: Any, value: float) -> None:
    reader.tables[0][...] = value


SETTINGS: list[Callable[[Any, float], None]] = [
    lambda reader, value: setattr(reader, "number", value),
    lambda reader, value: reader.numbers.__setitem__(0, value),
    lambda reader, value: reader.options.__setitem__("flag", value > 1),
    lambda reader, value: reader.options["deep"]["scales"].__setitem__(0, value),
    lambda reader, value: reader.numbers.append(value),
    lambda reader, value: setattr(reader, "table", np.full(WIDTH, value, "f4")),
    lambda reader, value: setattr(reader, "options", {"flag": value > 1, "deep": {"scales": [value]}}),
    _table,
    _tables,
]


@action(8)
def setting(rng: Generator) -> Act:
    value, change = float(rng.uniform(0.5, 1.5)), SETTINGS[int(rng.integers(len(SETTINGS)))]

    def act(twin: Twin) -> Any:
        for reader in [layer for layer in twin.net if isinstance(layer, Reader)][:1]:
            change(reader, value)
            if change in (_table, _tables):
                twin.stale.clear()  # no tape can notice writes into an array

    return act


@action(2)
def mode(rng: Generator) -> Act:
    training = bool(rng.random() < 0.5)

    def act(twin: Twin) -> Any:
        twin.net.train(training)

    return act


@action(2)
def hook(rng: Generator) -> Act:
    place, factor = rng.random(), float(rng.uniform(0.5, 1.5))

    def act(twin: Twin) -> Any:
        if not twin.takes_hooks:
            return
        layer = twin.net[int(place * len(twin.net))]
        twin.handles.append(layer.register_forward_hook(lambda module, args, output: output * factor))

    return act


@action(3)
def unhook(rng: Generator) -> Act:
    def act(twin: Twin) -> Any:
        for handle in twin.handles:
            handle.remove()
        twin.handles = []

    return act


# -- hyperparameters ------------------------------------------------------------------------------------


def drawn_optimizer(rng: Generator) -> Callable[[], Any]:
    lr = float(rng.uniform(0.01, 0.1))
    makers: list[Callable[[], Any]] = [
        lambda: Adam(lr),
        lambda: AdamW(lr, weight_decay=0.1),
        lambda: SGD(lr),
        lambda: SGD(lr, momentum=0.9, nesterov=True),
        lambda: RMSprop(lr),
        lambda: EMA(Adam(lr), decay=0.9),
        lambda: Groups({"*.weight": Adam(lr), "*": SGD(lr)}),
        lambda: Adam(Step(lr, every=2)),
    ]
    return makers[int(rng.integers(len(makers)))]


@action(2)
def adopt(rng: Generator) -> Act:
    optimizer, alpha = drawn_optimizer(rng), float(rng.choice([0.0, 0.01]))
    way = int(rng.integers(3))

    def act(twin: Twin) -> Any:
        model = twin.model
        if way == 0:
            model.adopt(optimizer(), model.loss_function, alpha)
        elif way == 1:
            model.optimizer = optimizer()
        else:
            model.alpha = alpha

    return act


@action(4)
def rate(rng: Generator) -> Act:
    lr, by_name = float(rng.uniform(0.01, 0.1)), bool(rng.random() < 0.5)

    def act(twin: Twin) -> Any:
        optimizer = twin.model.optimizer
        inner = getattr(optimizer, "optimizer", None) or optimizer
        inner = inner.groups["*"] if isinstance(inner, Groups) else inner
        if by_name:
            inner.set_params(lr=lr)
        else:
            inner.lr = lr

    return act


@action(2)
def loss_setting(rng: Generator) -> Act:
    value = float(rng.uniform(0.5, 2.0))

    def act(twin: Twin) -> Any:
        loss = twin.model.loss_function
        if isinstance(loss, Huber):
            loss.delta = value
        elif isinstance(loss, LogLoss):
            loss.label_smoothing = value / 10

    return act


@action(2)
def epoch(rng: Generator) -> Act:
    batch = drawn_batch(rng)

    def act(twin: Twin) -> Any:
        with twin.model.epoch(2):
            twin.model.step(*batch(twin))
            return twin.model.step(*batch(twin)).loss

    return act


@action(1)
def recompile(rng: Generator) -> Act:
    def act(twin: Twin) -> Any:
        twin.model.recompile()

    return act


# -- actions that must fail -------------------------------------------------------------------------------


@action(3)
def bad_step(rng: Generator) -> Act:
    batch, kind = drawn_batch(rng), int(rng.integers(4))

    def act(twin: Twin) -> Any:
        X, y, _ = batch(twin)
        # Otherwise a schedule that counts epochs might raise first.
        twin.model.progress = twin.model.progress._replace(counts_epochs=True)
        if kind == 0:
            twin.model.step(X[:, :2], y)
        elif kind == 1:
            twin.model.step(X, y[:-1])
        elif kind == 2:
            twin.model.step(X * np.nan, y)
        else:
            twin.model.step(X, y, np.zeros(len(y)))

    return act


# -- tapes ------------------------------------------------------------------------------------------------


@action(4)
def record(rng: Generator) -> Act:
    batch = drawn_batch(rng)

    def act(twin: Twin) -> Any:
        X, y, weight = batch(twin)
        loss = twin.model.loss(twin.model(X), y, weight)
        gradient = twin.model.backward(loss)
        parameters = dict(twin.net.named_parameters())
        twin.stale.append(Stale(loss, parameters, {name: array.copy() for name, array in gradient.items()}))

    return act


def check_tapes(twin: Twin) -> None:
    """Assert that a tape gives the same gradient as when it was recorded, or raises."""
    for stale in twin.stale:
        try:
            found = dict(twin.model.backward(stale.loss))
        except (GradientError, StateError):
            continue
        now = dict(twin.net.named_parameters())
        recorded = {id(parameter): name for name, parameter in stale.parameters.items()}
        for name in found:
            before = recorded.get(id(now[name]))
            assert before in stale.gradient, f"gradient of a tape: {name} had none when it was recorded"
            if found.keys() == stale.gradient.keys():
                assert_same(found[name], stale.gradient[before], f"gradient of a tape: {name}")
            else:  # another backward pass, which may add in another order
                tolerance = 1e-4 if found[name].dtype == "float32" else 1e-10
                np.testing.assert_allclose(found[name], stale.gradient[before], tolerance, tolerance)
