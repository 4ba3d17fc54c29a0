"""Networks by name, sized by their data: images, sequences of numbers, and sequences of ids."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

from sknet import ops
from sknet._constraints import invalid, is_whole, shown
from sknet._fields import ABSENT, Named
from sknet._params import Interval, StrOptions, described_by, resolve
from sknet.core import Tensor, as_tensor
from sknet.exceptions import ShapeError
from sknet.nn._lazy import ModuleFactory
from sknet.nn._module import LAYER_COUNT, Module, check_arguments
from sknet.nn.layers._activation import ReLU
from sknet.nn.layers._attention import TransformerEncoder
from sknet.nn.layers._container import Residual, Sequential
from sknet.nn.layers._conv import Conv1d, Conv2d
from sknet.nn.layers._dropout import Dropout, Mixup, RandomErasing, RandomFlip, RandomShift
from sknet.nn.layers._embedding import Embedding, PositionalEncoding
from sknet.nn.layers._linear import Linear
from sknet.nn.layers._norm import BatchNorm, LayerNorm
from sknet.nn.layers._recurrent import GRU, LSTM, RNN
from sknet.nn.layers._spatial import AdaptiveAvgPool2d, Flatten, MaxPool2d

AUGMENTATIONS: Mapping[str, Callable[[], Module]] = {
    "shift": RandomShift,
    "flip": RandomFlip,
    "crop": lambda: RandomShift(4, mode="constant"),
    "cutout": RandomErasing,
    "mixup": Mixup,
}
MOST_CHANNELS = 4  # of images whose channels are last: colors, and transparency
LEAST_SIZE = 6  # of images that a stage halves
CELLS = {"lstm": LSTM, "gru": GRU, "rnn": RNN}

COUNT = [Interval(Integral, 1, None, closed="left")]
RATE = [Interval(Real, 0, 1, closed="left")]
OF_SEQUENCES = {"n_outputs": COUNT, "n_ids": [*COUNT, None], "dropout": RATE}


def _arguments(constraints: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of arguments that a network does not store."""
    return {name: [ABSENT] for name in constraints if name != "n_ids"}


Augment = str | Module | Sequence[str | Module]


def _checked_shape(shape: Any, name: str) -> tuple[int, ...]:
    """Return the shape of an image or a sequence; raise an error unless it has lengths only."""
    lengths = shape if isinstance(shape, (tuple, list)) else ()
    if not lengths or not all(map(is_whole, lengths)):
        invalid(
            f"The 'input_shape' parameter of {name} must be a tuple of positive ints, the shape of a row "
            f"of X. Got {shown(shape)} instead."
        )
    return tuple(int(n) for n in lengths)


# -- images ----------------------------------------------------------------------------------------


def _layout(shape: Any, name: str) -> tuple[str, int, tuple[int, ...]]:
    """Return the axis of the channels of images, their number, and height and width."""
    if isinstance(shape, Mapping):
        got = f"inputs by the names {shown(list(shape))}"
    else:
        shape = _checked_shape(shape, name)
        if len(shape) == 2:
            return "none", 1, shape
        if len(shape) == 3:
            is_last = shape[0] > MOST_CHANNELS >= shape[2]
            return ("last", shape[2], shape[:2]) if is_last else ("first", shape[0], shape[1:])
        got = f"X of shape {('n', *shape)}".replace("'", "")
    raise ShapeError(
        f"{name} is for images, X of shape (n, height, width), (n, channels, height, width) or "
        f"(n, height, width, channels), got {got}: rows of pixels become images by "
        "X.reshape(-1, height, width)"
    )


def _augmentations(augment: Augment, caller: str) -> list[Module]:
    each = augment if isinstance(augment, (tuple, list)) else [augment]
    return [resolve(one, AUGMENTATIONS, Module, parameter="augment", caller=caller) for one in each]


def _unit(n_in: int, n_out: int, stride: int = 1) -> list[Module]:
    return [Conv2d(n_in, n_out, 3, stride=stride, padding=1, bias=False), BatchNorm(n_out), ReLU()]


class _ImageNet(Module):
    """Base of networks for images: augmentation, stages of layers, and a linear layer."""

    most_means: ClassVar[int]  # along each side, of the maps that a linear layer reads
    # Pixels that training sees at most: 15 epochs of 60,000 images of 28 x 28 take five minutes of two cores.
    _plan: ClassVar[dict[str, float]] = {"work": 600, "pixels": 7.2e8, "least": 8, "most": 100, "peak": 5e-3}

    _parameter_constraints = {"n_outputs": COUNT, "channels": COUNT, "depth": LAYER_COUNT, "dropout": RATE}
    _stored_fields = {
        **_arguments(_parameter_constraints),
        "layout": StrOptions({"first", "last", "none"}),
        "augment": Named("Sequential"),
        "body": Named("Sequential"),
        "head": Named("Sequential"),
    }

    def __init__(
        self,
        input_shape: Any,
        n_outputs: int,
        channels: int = 32,
        depth: int = 1,
        dropout: float = 0.3,
        augment: Augment = "shift",
    ) -> None:
        name = type(self).__name__
        check_arguments(self, n_outputs=n_outputs, channels=channels, depth=depth, dropout=dropout)
        channels, n_outputs = int(channels), int(n_outputs)  # NumPy's small integers overflow
        self.layout, width, sides = _layout(input_shape, name)
        self.augment = Sequential(*_augmentations(augment, name))
        body = _unit(width, channels)
        width = channels
        while min(sides) >= LEAST_SIZE and width < 4 * channels:
            self._add_stage(body, width, 2 * width, depth)
            width, sides = 2 * width, tuple(side // 2 for side in sides)
        self.body = Sequential(*body)
        means = tuple(min(side, self.most_means) for side in sides)
        last = Linear(width * means[0] * means[1], n_outputs)
        self.head = Sequential(AdaptiveAvgPool2d(means), Flatten(), Dropout(dropout), last)

    def _add_stage(self, body: list[Module], n_in: int, n_out: int, depth: int) -> None:
        """Append layers that halve both sides of an image."""
        raise NotImplementedError

    def forward(self, x: Any) -> Any:
        x = as_tensor(x)
        if self.layout != "first":
            x = ops.expand_dims(x, 1) if self.layout == "none" else ops.moveaxis(x, -1, 1)
        return self.head(self.body(self.augment(x)))


class ConvNet(_ImageNet):
    """Convolutional network for images, adapted to their shape: ``NetClassifier("conv")``.

    Parameters
    ----------
    input_shape : tuple of int
        Shape of an image: (height, width), (channels, height, width), or (height, width, channels) with at
        most four channels. Estimators supply it.
    n_outputs : int
        Number of outputs. Estimators supply it.
    channels : int, default=32
        Channels of the first stage; each of the next ones has twice as many, at half the size.
    depth : int, default=1
        Number of convolutions in each stage.
    dropout : float, default=0.3
        Probability of dropout before the outputs.
    augment : str, Module, or sequence of those, default="shift"
        Data augmentation: "shift" (by up to a 28th of the shorter side, at least a pixel), "crop" (by up to 4
        pixels, with zero padding), "flip" (left to right), "cutout" (a square of 8 pixels is covered),
        "mixup" (images and their losses are mixed with those of others), or layers such as `RandomShift`;
        ``()`` for none.

    Notes
    -----
    A 3 x 3 convolution with batch norm and ReLU; two stages (fewer for small images) of 2 x 2 max pooling,
    which comes before the preceding norm, and `depth` convolutions with batch norm and ReLU; then a linear
    layer, for large images after average pooling to 7 x 7.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.ConvNet((28, 28), 10, channels=8)(np.ones((5, 28, 28), np.float32)).shape
    (5, 10)
    """

    most_means = 7

    def _add_stage(self, body: list[Module], n_in: int, n_out: int, depth: int) -> None:
        body.insert(-2, MaxPool2d(2))  # before norm and ReLU, which then have a quarter of the numbers
        for number in range(depth):
            body += _unit(n_out if number else n_in, n_out)


@described_by(ConvNet)
class ResNet(_ImageNet):
    """Residual network for images, adapted to their shape: ``NetClassifier("resnet")``.

    Parameters
    ----------
    input_shape : tuple of int
        Shape of an image, as for `ConvNet`. Estimators supply it.
    channels : int, default=16
        Channels of the first stage; each of the next ones has twice as many, at half the size.
    depth : int, default=1
        Number of residual blocks in each stage; each has two convolutions.
    augment : str, Module, or sequence of those, default="shift"
        Data augmentation, as for `ConvNet`.

    Notes
    -----
    K. He et al., "Deep residual learning for image recognition", CVPR 2016, section 4.2, with projections at
    the beginning of stages, global average pooling and a linear layer.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.ResNet((3, 32, 32), 10, channels=8)(np.ones((5, 3, 32, 32), np.float32)).shape
    (5, 10)
    """

    most_means = 1
    _plan = _ImageNet._plan | {"pixels": 3.8e8}  # each takes twice the time

    def __init__(
        self,
        input_shape: Any,
        n_outputs: int,
        channels: int = 16,
        depth: int = 1,
        dropout: float = 0.3,
        augment: Augment = "shift",
    ) -> None:
        super().__init__(input_shape, n_outputs, channels, depth, dropout, augment)

    def _add_stage(self, body: list[Module], n_in: int, n_out: int, depth: int) -> None:
        for number in range(depth):
            stride, width = (1, n_out) if number else (2, n_in)
            learned = [*_unit(width, n_out, stride), *_unit(n_out, n_out)[:-1]]
            shortcut = None
            if stride > 1:
                shortcut = Sequential(Conv2d(width, n_out, 1, stride=stride, bias=False), BatchNorm(n_out))
            body += [Residual(Sequential(*learned), shortcut), ReLU()]


# -- sequences -------------------------------------------------------------------------------------


class _SequenceNet(Module):
    """Base of networks for sequences: steps as vectors, by a linear layer or an embedding of ids."""

    # Ids above those of the fit, and the id `n_ids` itself, have the vector zero.

    _stored_fields = {
        "n_ids": [*COUNT, None],
        "is_flat": [bool],
        "vectors": [Named("Embedding"), Named("Linear")],
        "head": Named("Sequential"),
    }

    def _make(self, width: str, input_shape: Any, **arguments: Any) -> None:
        """Check the arguments of a constructor, which are its ``locals()``; set what reads the steps."""
        # Vectors of steps have the length that the argument `width` names.
        check_arguments(self, **arguments)
        if isinstance(input_shape, Mapping):
            others = [name for name in input_shape if name != "lengths"]
            if len(others) != 1:
                raise ShapeError(
                    f"{type(self).__name__} reads one sequence, and input_shape has inputs {shown(others)}"
                )
            input_shape = input_shape[others[0]]
        input_shape = _checked_shape(input_shape, type(self).__name__)
        if len(input_shape) not in (1, 2):
            got = f"X of shape {('n', *input_shape)}".replace("'", "")
            raise ShapeError(
                f"{type(self).__name__} is for sequences, X of shape (n, steps) or (n, steps, features), "
                f"got {got}"
            )
        n_ids, size = arguments["n_ids"], int(arguments[width])
        self.n_ids, self.is_flat = None if n_ids is None else int(n_ids), len(input_shape) == 1
        if self.n_ids is not None:
            self.vectors: Module = Embedding(self.n_ids + 1, size, padding_idx=self.n_ids)
        else:
            self.vectors = Linear(1 if self.is_flat else input_shape[1], size)

    def _steps(self, x: Any) -> Any:
        x = as_tensor(x)
        if self.n_ids is not None:
            return self.vectors(ops.minimum(x, self.n_ids))
        return self.vectors(ops.expand_dims(x, -1) if self.is_flat else x)


def _mean_of_steps(x: Tensor, mask: Tensor | None) -> Tensor:
    """Return the mean over the steps of (n, steps, features) that are no padding, 0 where there are none."""
    if mask is None:
        return ops.mean(x, axis=1)
    weight = ops.expand_dims(mask, -1).astype(x.dtype)
    return ops.sum(x * weight, axis=1) / ops.maximum(ops.sum(weight, axis=1), 1)


def _mask(x: Any, lengths: Any) -> Tensor | None:
    """Return a mask of the steps of sequences that are not padding; None if no step is."""
    if lengths is None:
        return None
    steps = ops.arange(x.shape[1], device=x.device)
    return ops.expand_dims(steps, 0) < ops.expand_dims(as_tensor(lengths), -1)


class RecurrentNet(_SequenceNet):
    """Recurrent network for sequences, adapted to their shape: ``NetClassifier("lstm")`` or ``"gru"``.

    Parameters
    ----------
    input_shape : tuple of int
        Shape of a sequence: (steps,) or (steps, features). Estimators supply it.
    n_outputs : int
        Number of outputs. Estimators supply it.
    n_ids : int or None, default=None
        Number of ids, the largest one plus 1, for sequences of ids; None for numbers. Estimators supply it:
        integer X of shape (n_samples, n_steps) holds ids.
    cell : {"lstm", "gru", "rnn"}, default="lstm"
        Kind of the cell.
    hidden_size : int, default=64
        Size of the hidden state, and of the embeddings of steps.
    num_layers : int, default=1
        Number of layers.
    bidirectional : bool, default=True
        Whether to run over each sequence in both directions.
    dropout : float, default=0.2
        Probability of dropout before the outputs and between layers.

    Notes
    -----
    The outputs are computed from the last hidden state, at the end of `lengths` if they are given. Ids above
    the largest one in the fit have the zero vector as embedding.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.RecurrentNet((20, 3), 2, hidden_size=8)(np.ones((5, 20, 3), np.float32)).shape
    (5, 2)
    """

    _parameter_constraints = {
        **OF_SEQUENCES,
        "cell": [StrOptions(set(CELLS))],
        "hidden_size": COUNT,
        "num_layers": LAYER_COUNT,
        "bidirectional": ["boolean"],
    }
    _stored_fields = {
        **_arguments(_parameter_constraints),
        "recurrent": [Named(kind.__name__) for kind in (LSTM, GRU, RNN)],
    }

    def __init__(
        self,
        input_shape: Any,
        n_outputs: int,
        n_ids: int | None = None,
        cell: str = "lstm",
        hidden_size: int = 64,
        num_layers: int = 1,
        bidirectional: bool = True,
        dropout: float = 0.2,
    ) -> None:
        _SequenceNet._make(width="hidden_size", **locals())
        hidden_size = int(hidden_size)  # NumPy's small integers overflow
        self.recurrent = CELLS[cell](
            hidden_size,
            hidden_size,
            num_layers,
            dropout=dropout if num_layers > 1 else 0.0,
            bidirectional=bidirectional,
            returns="last",
        )
        self.head = Sequential(Dropout(dropout), Linear((1 + bidirectional) * hidden_size, n_outputs))

    def forward(self, x: Any, lengths: Any = None) -> Any:
        return self.head(self.recurrent(self._steps(x), lengths=lengths))


class TransformerNet(_SequenceNet):
    """Transformer encoder for sequences, adapted to their shape: ``NetClassifier("transformer")``.

    Parameters
    ----------
    input_shape : tuple of int
        Shape of a sequence: (steps,) or (steps, features). Estimators supply it.
    n_outputs : int
        Number of outputs. Estimators supply it.
    n_ids : int or None, default=None
        Number of ids, as for `RecurrentNet`. Estimators supply it.
    embed_dim : int, default=64
        Size of the embeddings of steps.
    num_layers : int, default=2
        Number of layers.
    num_heads : int, default=4
        Number of attention heads, a divisor of `embed_dim`.
    dropout : float, default=0.1
        Probability of dropout in the layers and before the outputs.

    Notes
    -----
    Positions have a sinusoidal encoding; the outputs are computed from the mean over the steps that are not
    padding.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.TransformerNet((20,), 2, n_ids=100, embed_dim=8)(np.ones((5, 20), int)).shape
    (5, 2)
    """

    _parameter_constraints = {
        **OF_SEQUENCES,
        "embed_dim": COUNT,
        "num_layers": LAYER_COUNT,
        "num_heads": COUNT,
    }
    _stored_fields = {
        **_arguments(_parameter_constraints),
        "positions": Named("PositionalEncoding"),
        "encoder": Named("TransformerEncoder"),
    }

    def __init__(
        self,
        input_shape: Any,
        n_outputs: int,
        n_ids: int | None = None,
        embed_dim: int = 64,
        num_layers: int = 2,
        num_heads: int = 4,
        dropout: float = 0.1,
    ) -> None:
        _SequenceNet._make(width="embed_dim", **locals())
        self.positions = PositionalEncoding(dropout=dropout)
        self.encoder = TransformerEncoder(num_layers, embed_dim, num_heads, dropout=dropout)
        self.head = Sequential(Dropout(dropout), Linear(embed_dim, n_outputs))

    def forward(self, x: Any, lengths: Any = None) -> Any:
        found = self.positions(self._steps(x))
        mask = _mask(found, lengths)
        keys = None if lengths is None else _mask(found, ops.maximum(as_tensor(lengths), 1))  # one, at least
        return self.head(_mean_of_steps(self.encoder(found, key_mask=keys), mask))


@described_by(TransformerNet)
class TemporalConvNet(_SequenceNet):
    """Network of dilated convolutions for sequences, adapted to their shape: ``NetClassifier("tcn")``.

    Parameters
    ----------
    channels : int, default=64
        Size of the embeddings of steps.
    num_layers : int, default=4
        Number of residual convolutions, each with twice the dilation of the one before.
    kernel_size : int, default=3
        Length of the kernels, in steps.

    Notes
    -----
    S. Bai et al., "An empirical evaluation of generic convolutional and recurrent networks for sequence
    modeling", arXiv:1803.01271, with centered convolutions and layer norm; the outputs are computed from the
    mean over the steps that are not padding.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.TemporalConvNet((20, 3), 2, channels=8)(np.ones((5, 20, 3), np.float32)).shape
    (5, 2)
    """

    _parameter_constraints = {
        **OF_SEQUENCES,
        "channels": COUNT,
        "num_layers": LAYER_COUNT,
        "kernel_size": COUNT,
    }
    _stored_fields = {
        **_arguments(_parameter_constraints),
        "norms": Named("Sequential"),
        "convolutions": Named("Sequential"),
        "activation": Named("Sequential"),
    }

    def __init__(
        self,
        input_shape: Any,
        n_outputs: int,
        n_ids: int | None = None,
        channels: int = 64,
        num_layers: int = 4,
        kernel_size: int = 3,
        dropout: float = 0.1,
    ) -> None:
        _SequenceNet._make(width="channels", **locals())
        self.norms = Sequential(*[LayerNorm(channels) for _ in range(num_layers)])
        self.convolutions = Sequential(
            *[
                Conv1d(channels, channels, kernel_size, padding="same", dilation=2**number)
                for number in range(num_layers)
            ]
        )
        self.activation = Sequential(ReLU(), Dropout(dropout))
        self.head = Sequential(Dropout(dropout), Linear(channels, n_outputs))

    def forward(self, x: Any, lengths: Any = None) -> Any:
        found = self._steps(x)
        mask = _mask(found, lengths)
        weight = None if mask is None else ops.expand_dims(mask, -1).astype(found.dtype)
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            inner = norm(found)
            if weight is not None:  # what is padding is zero, as beyond the ends
                inner = inner * weight
            changed = convolution(ops.moveaxis(inner, -1, 1))
            found = found + self.activation(ops.moveaxis(changed, 1, -1))
        return self.head(_mean_of_steps(found, mask))


NETWORKS: Mapping[str, ModuleFactory] = {
    "conv": ModuleFactory(ConvNet),
    "resnet": ModuleFactory(ResNet),
    "lstm": ModuleFactory(RecurrentNet, cell="lstm"),
    "gru": ModuleFactory(RecurrentNet, cell="gru"),
    "tcn": ModuleFactory(TemporalConvNet),
    "transformer": ModuleFactory(TransformerNet),
}
