"""States of PyTorch's modules: their names and layouts, read and written without importing PyTorch."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from sknet._constraints import shown
from sknet._params import named_errors
from sknet.device import to_host
from sknet.exceptions import StateError
from sknet.nn._module import Module, join, nearest
from sknet.nn.layers._activation import PReLU
from sknet.nn.layers._attention import MultiheadAttention, TransformerDecoderLayer, TransformerEncoderLayer
from sknet.nn.layers._linear import Linear
from sknet.nn.layers._norm import BatchNorm, InstanceNorm
from sknet.nn.layers._recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell

M = TypeVar("M", bound=Module)
Array = np.ndarray[Any, Any]
Place = Callable[[str], str]


class TorchLayout(NamedTuple):
    """Storage of a value in PyTorch: the names, and the conversions to and from it."""

    names: tuple[str, ...]
    load: Callable[..., Array]
    dump: Callable[[Array], tuple[Array, ...]]


class Counterpart(NamedTuple):
    """Differences of a layer in PyTorch: names of parameters and buffers, and those inside of children."""

    values: Mapping[str, TorchLayout] = {}
    children: Mapping[str, Place] = {}
    other_children: Callable[[str, str], str] = join


def same(name: str) -> TorchLayout:
    """Return the layout of a value that is the same in both."""
    return TorchLayout((name,), lambda x: x, lambda x: (x,))


def transposed(name: str) -> TorchLayout:
    """Return the layout of a matrix that PyTorch stores with its axes exchanged."""
    return TorchLayout((name,), lambda x: x.T, lambda x: (x.T,))


def _gru_bias(ih: Array, hh: Array) -> Array:
    if ih.ndim != 1 or ih.shape != hh.shape or ih.size % 3:
        return ih  # the shape does not fit, which is reported by name
    size = ih.size // 3
    return np.concatenate([ih[: 2 * size] + hh[: 2 * size], ih[2 * size :], hh[2 * size :]])


def _gru_biases(bias: Array) -> tuple[Array, Array]:
    size = bias.size // 4
    return bias[: 3 * size], np.concatenate([np.zeros_like(bias[: 2 * size]), bias[3 * size :]])


def _linear(layer: Linear) -> Counterpart:
    # PyTorch has no other parametrizations, nor signs: the layer that computes the same.
    root = 1.0 if layer.parametrization == "standard" else layer.in_features**0.5

    def load(x: Array) -> Array:
        weight = x.T * root
        if not np.array_equal(layer.effective(weight), weight, equal_nan=True):
            raise StateError(f"weights of {layer!r} have other signs than its directions demand")
        return weight

    def dump(weight: Array) -> tuple[Array, ...]:
        return ((layer.effective(weight) / root).T.astype(weight.dtype),)

    return Counterpart({"weight": TorchLayout(("weight",), load, dump)})


BIASES = ("bias_ih", "bias_hh")
WEIGHTS = {"weight_ih": transposed("weight_ih"), "weight_hh": transposed("weight_hh")}
CELL = Counterpart(
    WEIGHTS | {"bias": TorchLayout(BIASES, lambda ih, hh: ih + hh, lambda bias: (bias, np.zeros_like(bias)))}
)
GRU_CELL = Counterpart(WEIGHTS | {"bias": TorchLayout(BIASES, _gru_bias, _gru_biases)})
LAYERS_OF_CELLS = Counterpart(other_children=lambda child, name: f"{name}_{child}")
STATISTICS = Counterpart({"num_batches": same("num_batches_tracked")})
BLOCK = Counterpart(
    children={
        "attention": lambda name: f"self_attn.{name}",
        "cross_attention": lambda name: f"multihead_attn.{name}",
        "feedforward": lambda name: {"0": "linear1", "3": "linear2"}[name[0]] + name[1:],
    }
)

COUNTERPARTS: dict[type[Module], Counterpart | Callable[[Any], Counterpart]] = {
    Linear: _linear,
    PReLU: Counterpart({"slope": same("weight")}),
    BatchNorm: STATISTICS,
    InstanceNorm: STATISTICS,
    RNNCell: CELL,
    LSTMCell: CELL,
    GRUCell: GRU_CELL,
    RNN: LAYERS_OF_CELLS,
    LSTM: LAYERS_OF_CELLS,
    GRU: LAYERS_OF_CELLS,
    MultiheadAttention: Counterpart(
        children={
            "in_projection": lambda name: f"in_proj_{name}",
            "out_projection": lambda name: f"out_proj.{name}",
        }
    ),
    TransformerEncoderLayer: BLOCK,
    TransformerDecoderLayer: BLOCK,
}
"""What differs from PyTorch, by class, or a function of the layer; a subclass is stored as its base.

All else has the same names."""


class Entry(NamedTuple):
    """One value of a module: its path here, and how and under which full names PyTorch stores it."""

    path: str
    layout: TorchLayout


def _entries(module: Module, path: str = "", place: Place = str) -> Iterator[Entry]:
    """Yield all values of a module and those below; what is shared comes under each of its paths."""
    module._check_shapes()
    row = next((COUNTERPARTS[kind] for kind in type(module).__mro__ if kind in COUNTERPARTS), Counterpart())
    found = row(module) if callable(row) else row
    for name in (*module._parameters, *module._buffers):
        if name not in module._transient:
            layout = found.values.get(name, same(name))
            yield Entry(join(path, name), layout._replace(names=tuple(map(place, layout.names))))
    for child, below in module.named_children():
        inside = found.children.get(child)

        def inner(name: str, child: str = child, inside: Place | None = inside) -> str:
            return place(found.other_children(child, name) if inside is None else inside(name))

        yield from _entries(below, join(path, child), inner)


@named_errors
def from_torch(state_dict: Mapping[str, Any], module: M, strict: bool = True) -> M:
    """Load the state of a PyTorch module into a module of the same structure: all of it, or none.

    Layers have their counterparts' names and layouts: weights of linear and recurrent layers are
    transposed, the two biases of recurrent layers added up, and attention, transformer layers and
    statistics of norms renamed. Everything else must have the same paths in both.

    Parameters
    ----------
    state_dict : mapping of str to array
        The ``state_dict()`` of a PyTorch module: tensors, or arrays by the same names.
    module : Module
        The module, which is changed in place; values are converted to its dtypes and devices.
    strict : bool, default=True
        Whether to require the same paths in both. False loads those in both.

    Returns
    -------
    Module
        The same module.

    Raises
    ------
    StateError
        If the state does not fit; the message lists paths and shapes that differ, by PyTorch's names.

    See Also
    --------
    to_torch : The inverse.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> state = {"0.weight": np.array([[1.0, 2.0, 3.0]]), "0.bias": np.array([0.5])}
    >>> net = nn.from_torch(state, nn.Sequential(nn.Linear(3, 1), nn.ReLU()))
    >>> net([[1.0, 1.0, 1.0]]).numpy()
    array([[6.5]])
    """
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"state_dict must be a dict of names and arrays, got {shown(state_dict)}")
    entries = list(_entries(module))
    own = {**dict(module.own_parameters()), **dict(module.named_buffers())}
    known = {name: entry for entry in entries for name in entry.layout.names}
    missing = [name for name in known if name not in state_dict]
    unexpected = [name for name in state_dict if name not in known]
    problems = _differences(missing, unexpected) if strict else []
    state: dict[str, Array] = {}
    shared: dict[int, Array] = {}
    for path, layout in entries:
        if any(name not in state_dict for name in layout.names):
            continue
        given = [_array(state_dict[name]) for name in layout.names]
        target = _value(module, path)
        expected = [part.shape for part in layout.dump(np.empty(target.shape, np.int8))]
        wrong = [
            f"{name!r}: expected shape {shape}, got {array.shape}"
            for name, shape, array in zip(layout.names, expected, given, strict=True)
            if array.shape != shape
        ]
        problems += wrong
        if wrong:
            continue
        value = layout.load(*given)
        first = shared.setdefault(id(target), value)
        if first is not value and not np.array_equal(first, value, equal_nan=True):
            problems.append(f"{', '.join(layout.names)}: differs from what it is shared with here")
        if path in own:
            state[path] = value
    if problems:
        raise StateError(
            f"this state of a PyTorch module does not fit {type(module).__name__}; nothing was loaded:\n  "
            + "\n  ".join(problems)
        )
    module.load_state_dict(state, strict=False)
    return module


@named_errors
def to_torch(module: Module) -> dict[str, Array]:
    """Return a module's state by the names and in the layouts of PyTorch.

    Parameters
    ----------
    module : Module
        The module, with layers as for `from_torch`.

    Returns
    -------
    dict of str to ndarray
        Copies on the host, for ``load_state_dict({k: torch.tensor(v) for k, v in state.items()})`` in
        PyTorch. Where PyTorch has two biases and sknet one, the second is zero.

    Examples
    --------
    >>> from sknet import nn
    >>> state = nn.to_torch(nn.LSTM(3, 2))
    >>> {name: array.shape for name, array in state.items()}
    {'weight_ih_l0': (8, 3), 'weight_hh_l0': (8, 2), 'bias_ih_l0': (8,), 'bias_hh_l0': (8,)}
    """
    found: dict[str, Array] = {}
    for path, layout in _entries(module):
        values = layout.dump(np.asarray(to_host(_value(module, path).data)))
        found.update({name: np.array(value) for name, value in zip(layout.names, values, strict=True)})
    return found


def _value(module: Module, path: str) -> Any:
    parent, _, name = path.rpartition(".")
    owner = module.get_submodule(parent)
    return owner._parameters.get(name, owner._buffers.get(name))


def _array(value: Any) -> Array:
    """Return what a tensor holds, also one on a GPU or in a dtype that NumPy does not know."""
    for method in ("detach", "cpu"):
        value = getattr(value, method, lambda value=value: value)()
    try:
        return np.asarray(value)
    except TypeError:  # bfloat16
        return np.asarray(value.float())


def _differences(missing: list[str], unexpected: list[str]) -> list[str]:
    problems = [f"missing: {', '.join(map(repr, missing))}"] if missing else []
    if unexpected:
        shown = ", ".join(repr(name) + nearest(name, missing) for name in unexpected)
        problems.append(f"unexpected: {shown}")
    return [*problems, "strict=False loads what is common to both"] if problems else []
