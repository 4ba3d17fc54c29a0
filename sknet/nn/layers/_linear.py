"""Linear layers, scales, and linear layers of many networks at once."""

from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.random import RandomState

from sknet._constraints import invalid, is_integer, shown
from sknet._fields import ABSENT, Buffers, Named, Params
from sknet._params import Interval, StrOptions, described_by
from sknet.core import Tensor, as_tensor
from sknet.device import Device, to_host
from sknet.exceptions import ShapeError
from sknet.nn._initializer import deviation_of, in_float64, rows_of, write
from sknet.nn._module import Module, check_arguments
from sknet.nn._parameter import DEFAULT_DTYPE, Parameter, Registered, draw_bias, draw_weight, ones, zeros
from sknet.nn.init import FromData, Initializer, scheme
from sknet.ops import (
    broadcast_to,
    equal,
    expand_dims,
    less,
    matmul,
    mean,
    minimum,
    moveaxis,
    negative,
    reshape,
    where,
)

__all__ = [
    "BatchEnsembleLinear", "EnsembleLinear", "EnsembleView", "Linear", "MonotonicLinear", "Saturation",
    "Scale",
]  # fmt: skip


class Linear(Module):
    """Affine map of the last axis, ``x @ weight + bias``.

    Parameters
    ----------
    in_features : int
        Length of the input's last axis.
    out_features : int
        Length of the output's last axis.
    bias : bool, default=True
        Whether to add a bias.
    parametrization : {"standard", "ntp"}, default="standard"
        "ntp", the neural tangent parametrization, computes ``x @ weight / sqrt(in_features) + bias``,
        with standard normal weights, so that a good learning rate hardly depends on the widths.
    init : Initializer or str, default=None
        Scheme of weight and bias, an object or its name; None is that of `init.version`. The
        weight is drawn first, then the bias.
    device : str or Device, default=None
        Device of the parameters; None is the CPU.

    Attributes
    ----------
    weight : Parameter of shape (in_features, out_features)
        As in scikit-learn's ``coefs_``, and the transpose of PyTorch's.
    bias : Parameter of shape (out_features,), or None
        As in scikit-learn's ``intercepts_``.

    Notes
    -----
    The input is of shape (..., in_features), or a sparse matrix in CSR form.

    For the neural tangent parametrization: A. Jacot, F. Gabriel and C. Hongler, "Neural Tangent Kernel:
    Convergence and Generalization in Neural Networks", NeurIPS 2018, section 2.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> layer = nn.Linear(3, 2).initialize(0)
    >>> layer(np.ones((5, 3), np.float32)).shape
    (5, 2)
    """

    weight: Any = Registered()
    bias: Any = Registered()
    _from_data: FromData | None = None

    _parameter_constraints = {
        "in_features": [Interval(Integral, 1, None, closed="left")],
        "out_features": [Interval(Integral, 1, None, closed="left")],
        "bias": ["boolean"],
        "parametrization": [StrOptions({"standard", "ntp"})],
    }
    _stored_fields = {
        "weight": Params("in_features", "out_features"),
        "bias": [Params("out_features"), None],
        "_from_data": [Named("FromData"), None, ABSENT],
    }

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        parametrization: str = "standard",
        init: "Initializer | str | None" = None,
        device: "str | Device | None" = None,
    ) -> None:
        check_arguments(
            self,
            in_features=in_features,
            out_features=out_features,
            bias=bias,
            parametrization=parametrization,
        )
        self.in_features = int(in_features)
        self.out_features = int(out_features)
        self.parametrization = parametrization
        found = scheme(init, self, "linear" if parametrization == "standard" else "linear ntp")
        shape = (self.in_features, self.out_features)
        fans: Any = {"fan_in": self.in_features, "fan_out": self.out_features}
        draw = partial(draw_weight, found, shape=shape, **fans)
        self.weight = Parameter(shape=shape, draw=draw, device=device)
        self.bias = None
        if bias:
            draw = partial(draw_bias, found, shape=shape[1:], **fans)
            self.bias = Parameter(shape=shape[1:], draw=draw, device=device)
        if isinstance(found, FromData):
            self._from_data = found
            for parameter in self._parameters.values():
                parameter.await_data()

    def forward(self, x: Any) -> Tensor:
        try:
            product = matmul(x, self.effective(self.weight))
        except ShapeError as error:
            shape = tuple(x.shape) if hasattr(x, "shape") else np.shape(x)
            raise ShapeError(
                f"{self!r}: expected an input of shape (..., {self.in_features}), got {shape}"
            ) from error
        if self.parametrization == "ntp":
            product = product * self.in_features**-0.5
        bias = self.bias
        return product if bias is None else product + bias

    def effective(self, weight: Any) -> Any:
        """Return the matrix that multiplies the input, for values `weight` of the parameter."""
        return weight

    # -- initialization from data: see `nn.init.FromData` -------------------------------------------

    @property
    def awaits_data(self) -> bool:
        """True if the weights still have to be fitted to the first input."""
        return self._parameters["weight"].awaits_data

    @property
    def n_rows_seen(self) -> int:
        """Maximum number of rows to use."""
        return 0 if self._from_data is None else self._from_data.n_rows

    def see_data(self, x: Any, random_state: RandomState) -> None:
        """Fit the weights, and a bias as it was drawn, to an input `x`, drawing from `random_state`."""
        found = FromData() if self._from_data is None else self._from_data
        weight, bias = self._parameters["weight"], self._parameters.get("bias")
        values = np.asarray(to_host(weight.data), np.float64)
        rows = rows_of(x, found.n_rows, random_state)
        if rows.shape[-1] != self.in_features:
            return  # the forward pass raises
        factor = 1.0 if self.parametrization == "standard" else self.in_features**-0.5
        outputs = in_float64(rows, self.effective(values)) * factor
        expected = deviation_of(rows) * factor if found.least else 0.0
        values, offsets = found.fitted(random_state, values, outputs, expected)
        write(weight, values)
        if bias is not None and bias.awaits_data:
            write(bias, offsets)

    def extra_repr(self) -> str:
        bias = ", bias=False" if self.bias is None else ""
        form = "" if self.parametrization == "standard" else f", parametrization={self.parametrization!r}"
        return f"{self.in_features}, {self.out_features}{bias}{form}"


class MonotonicLinear(Linear):
    r"""Affine map of the last axis whose outputs only rise, or only fall, with some inputs.

    Parameters
    ----------
    in_directions : array-like of shape (in_features,)
        1 for inputs that rise with a quantity, such as the quantity itself, -1 for those that fall with it,
        and 0 for those that do not depend on it.
    out_directions : int or array-like of shape (out_features,)
        Directions of the outputs. An int is a number of hidden units: a third without a direction (none if
        all inputs have one), a third rising and a third falling.
    bias : bool, default=True
        Whether to add a bias.
    parametrization, init, device : str, Initializer or str, str or Device
        As for `Linear`.

    Attributes
    ----------
    weight : Parameter of shape (in_features, out_features)
        As for `Linear`, without the signs: see `effective`.
    bias : Parameter of shape (out_features,), or None
        As for `Linear`.

    Notes
    -----
    An input of direction :math:`s_i \ne 0` is multiplied by :math:`s_i t_j |w_{ij}|` for an output of
    direction :math:`t_j`, one without a direction by :math:`w_{ij}`.

    A network of these layers, with activations between them that never fall, is monotonic for every input.
    Hidden units of all three directions are needed to learn any monotonic function: added up with their
    signs, ReLUs that rise are convex and those that fall are concave (D. Runje and S. M. Shankaranarayana,
    "Constrained Monotonic Neural Networks", ICML 2023), and units without a direction are an unconstrained
    network of the other inputs. `Saturation` bounds some units, for what levels off on both sides, and the
    larger of two inputs needs a second hidden layer.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> first = nn.MonotonicLinear([1, 0], 6)
    >>> first.out_directions
    Tensor([ 0.,  0.,  1.,  1., -1., -1.], dtype=float32)
    >>> net = nn.Sequential(first, nn.ReLU(), nn.MonotonicLinear(first.out_directions, [1])).initialize(0)
    >>> bool((np.diff(net([[-1e3, 0.5], [0.0, 0.5], [1e6, 0.5]]).numpy()[:, 0]) >= 0).all())
    True
    """

    in_directions: Any
    out_directions: Any
    _stored_fields = {
        "in_directions": Buffers("f", "in_features"),
        "out_directions": Buffers("f", "out_features"),
    }

    def __init__(
        self,
        in_directions: Any,
        out_directions: Any,
        bias: bool = True,
        *,
        parametrization: str = "standard",
        init: "Initializer | str | None" = None,
        device: "str | Device | None" = None,
    ) -> None:
        inputs = _directions("in_directions", in_directions)
        if is_integer(out_directions):
            check_arguments(self, out_features=out_directions)
            n_free = int(out_directions) // 3 * int((inputs == 0).any())
            n_falling = (int(out_directions) - n_free) // 2
            counts = [n_free, int(out_directions) - n_free - n_falling, n_falling]
            out_directions = np.repeat([0, 1, -1], counts)
        outputs = _directions("out_directions", out_directions)
        super().__init__(
            len(inputs), len(outputs), bias, parametrization=parametrization, init=init, device=device
        )
        self.register_buffer("in_directions", inputs, persistent=False, device=device)
        self.register_buffer("out_directions", outputs, persistent=False, device=device)

    def effective(self, weight: Any) -> Any:
        if isinstance(weight, np.ndarray):
            rows, columns = (to_host(x.data).astype(weight.dtype) for x in self._buffers.values())
            rows = rows[:, np.newaxis]
            return np.where(rows == 0, weight, np.abs(weight) * (rows * columns))
        rows = expand_dims(self.in_directions, -1)
        size = where(less(weight, 0.0), negative(weight), weight)  # the gradient of abs(0) is 0
        return where(equal(rows, 0.0), weight, size * (rows * self.out_directions))

    def extra_repr(self) -> str:
        counts = [np.count_nonzero(to_host(x.data)) for x in (self.in_directions, self.out_directions)]
        return f"{super().extra_repr()}, monotonic={counts[0]} to {counts[1]}"


def _directions(name: str, given: Any, caller: str = "MonotonicLinear") -> Any:
    """Return directions, -1, 0 or 1, as floats."""
    try:
        found = to_host(given.data if isinstance(given, Tensor) else np.asarray(given))
    except ValueError:  # ragged, or too deep
        found = np.zeros(0)
    are_numbers = found.ndim == 1 and found.dtype.kind in "iuf" and len(found) > 0
    if not (are_numbers and np.isin(found, (-1, 0, 1)).all()):
        invalid(
            f"The {name!r} parameter of {caller} must be an array-like of -1, 0 or 1, with one axis. "
            f"Got {shown(given)} instead."
        )
    return found.astype(DEFAULT_DTYPE)


class Saturation(Module):
    """Bound every third hidden unit with a direction: its outputs are at most 1.

    Parameters
    ----------
    directions : array-like of shape (n_features,)
        The `out_directions` of a `MonotonicLinear` layer, between which and this are its activations.
    device : str or Device, default=None
        Device of the bounds; None is the CPU.

    Raises
    ------
    InvalidParameterError
        If `directions` are not -1, 0 or 1, with one axis.

    Notes
    -----
    Sums of convex functions and of concave ones, which ReLUs between `MonotonicLinear` layers are, cannot
    level off on both sides, as a logistic function does; sums of bounded functions can (D. Runje and S. M.
    Shankaranarayana, "Constrained Monotonic Neural Networks", ICML 2023).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.Saturation([0, 1, 1, -1])(np.full(4, 5.0, np.float32))
    Tensor([5., 1., 5., 5.], dtype=float32)
    """

    limits: Any
    _stored_fields = {"limits": Buffers("f", "n_features")}

    def __init__(self, directions: Any, *, device: "str | Device | None" = None) -> None:
        found = _directions("directions", directions, type(self).__name__)
        limits = np.full(len(found), np.inf, found.dtype)
        limits[np.flatnonzero(found)[::3]] = 1.0
        self.register_buffer("limits", limits, persistent=False, device=device)

    def forward(self, x: Any) -> Tensor:
        return minimum(x, self.limits)

    def extra_repr(self) -> str:
        limits = to_host(self.limits.data)
        return f"{np.isfinite(limits).sum()} of {len(limits)}"


class Scale(Module):
    """Multiply every column by a learned factor: ``x * weight``.

    Parameters
    ----------
    n_features : int
        Length of the input's last axis.
    init : Initializer or str, default=None
        Scheme of the factors, an object or its name; None is that of `init.version`, ones.
    device : str or Device, default=None
        Device of the parameter; None is the CPU.

    Attributes
    ----------
    weight : Parameter of shape (n_features,)
        The factors.

    Notes
    -----
    In front of a network it learns which columns matter: with a higher rate than the other layers
    (``lr_factors={"0.weight": 6.0}`` of an optimizer) it is a soft selection of features
    (D. Holzmüller, L. Grinsztajn and I. Steinwart, "Better by Default: Strong Pre-Tuned MLPs and
    Boosted Trees on Tabular Data", NeurIPS 2024, section 3).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> layer = nn.Scale(3)
    >>> layer.weight.data = np.array([0.0, 1.0, 2.0], np.float32)
    >>> layer(np.ones((1, 3), np.float32))
    Tensor([[0., 1., 2.]], dtype=float32, requires_grad=True)
    """

    weight: Any = Registered()

    _parameter_constraints = {"n_features": [Interval(Integral, 1, None, closed="left")]}
    _stored_fields = {
        "weight": Params("n_features"),
    }

    def __init__(
        self,
        n_features: int,
        *,
        init: "Initializer | str | None" = None,
        device: "str | Device | None" = None,
    ) -> None:
        check_arguments(self, n_features=n_features)
        self.n_features = int(n_features)
        shape = (self.n_features,)
        draw = partial(draw_weight, scheme(init, self, "scale"), shape=shape, fan_in=1, fan_out=1)
        self.weight = Parameter(shape=shape, draw=draw, device=device)

    def forward(self, x: Any) -> Tensor:
        x = as_tensor(x)
        if x.ndim == 0 or x.shape[-1] != self.n_features:
            raise ShapeError(
                f"{self!r}: expected an input of shape (..., {self.n_features}), got {np.shape(x)}"
            )
        return x * self.weight

    def extra_repr(self) -> str:
        return f"{self.n_features}"


COUNT = [Interval(Integral, 1, None, closed="left")]


class EnsembleView(Module):
    """Show every row to each member of an ensemble.

    Parameters
    ----------
    n_members : int, default=32
        Number of members.

    Notes
    -----
    The input is of shape (..., n_features), the output of shape (..., n_members, n_features).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.EnsembleView(4)(np.ones((5, 3))).shape
    (5, 4, 3)
    """

    _parameter_constraints = {"n_members": COUNT}

    def __init__(self, n_members: int = 32) -> None:
        check_arguments(self, n_members=n_members)
        self.n_members = int(n_members)

    def forward(self, x: Any) -> Tensor:
        x = as_tensor(x)
        if x.ndim == 0:
            raise ShapeError(f"{self!r}: expected an input of shape (..., n_features), got ()")
        return broadcast_to(expand_dims(x, -2), (*x.shape[:-1], self.n_members, x.shape[-1]))

    def extra_repr(self) -> str:
        return f"{self.n_members}"


@described_by(Linear)
class BatchEnsembleLinear(Module):
    r"""Linear layers of several members that share one weight, each with its own factors.

    Parameters
    ----------
    n_members : int, default=32
        Number of members.
    factors : {"ones", "signs", "normal"}, default="ones"
        Initial factors of the inputs: ones, random signs, or standard normal. Members only differ if their
        factors do: use "signs" in the first layer of a network, "ones" in the others. Factors of the outputs
        are initially ones.
    bias : bool, default=True
        Whether each member adds a bias.
    init : Initializer or str, default=None
        Scheme of the weight, as for `Linear`.

    Attributes
    ----------
    weight : Parameter of shape (in_features, out_features)
        The shared weight.
    in_factors : Parameter of shape (n_members, in_features)
        Factors of the inputs of each member.
    out_factors : Parameter of shape (n_members, out_features)
        Factors of the outputs of each member.
    bias : Parameter of shape (n_members, out_features), or None
        Bias of each member.

    Notes
    -----
    The input is of shape (..., n_members, in_features), as `EnsembleView` returns it. Member k computes

    .. math:: s_k \odot ((r_k \odot x_k) W) + b_k

    (Y. Wen, D. Tran and J. Ba, "BatchEnsemble: An Alternative Approach to Efficient Ensemble and Lifelong
    Learning", ICLR 2020). Perceptrons of it are TabM: Y. Gorishniy, A. Kotelnikov and A. Babenko, "TabM:
    Advancing Tabular Deep Learning with Parameter-Efficient Ensembling", ICLR 2025 (arXiv:2410.24210).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> net = nn.Sequential(
    ...     nn.EnsembleView(4),
    ...     nn.BatchEnsembleLinear(3, 8, 4, "signs"),
    ...     nn.ReLU(),
    ...     nn.EnsembleLinear(8, 1, 4),
    ... ).initialize(0)
    >>> net(np.ones((5, 3), np.float32)).shape
    (5, 1)
    """

    weight: Any = Registered()
    in_factors: Any = Registered()
    out_factors: Any = Registered()
    bias: Any = Registered()

    _parameter_constraints = {
        "in_features": COUNT,
        "out_features": COUNT,
        "n_members": COUNT,
        "factors": [StrOptions({"ones", "signs", "normal"})],
        "bias": ["boolean"],
    }
    _stored_fields = {
        "weight": Params("in_features", "out_features"),
        "in_factors": Params("n_members", "in_features"),
        "out_factors": Params("n_members", "out_features"),
        "bias": [Params("n_members", "out_features"), None],
    }

    def __init__(
        self,
        in_features: int,
        out_features: int,
        n_members: int = 32,
        factors: str = "ones",
        bias: bool = True,
        *,
        init: "Initializer | str | None" = None,
        device: "str | Device | None" = None,
    ) -> None:
        check_arguments(
            self,
            in_features=in_features,
            out_features=out_features,
            n_members=n_members,
            factors=factors,
            bias=bias,
        )
        self.in_features, self.out_features = int(in_features), int(out_features)
        self.n_members, self.factors = int(n_members), factors
        shape = (self.in_features, self.out_features)
        fans: Any = {"fan_in": shape[0], "fan_out": shape[1]}
        draw = partial(scheme(init, self, "linear").draw, shape=shape, **fans)
        self.weight = Parameter(shape=shape, draw=draw, device=device)
        of_inputs = (self.n_members, self.in_features)
        of_outputs = (self.n_members, self.out_features)
        first = partial(FACTORS[factors], of_inputs)
        self.in_factors = Parameter(shape=of_inputs, draw=first, device=device)
        self.out_factors = Parameter(ones(of_outputs, device))
        self.bias = Parameter(zeros(of_outputs, device)) if bias else None

    def forward(self, x: Any) -> Tensor:
        x = _checked(self, x, self.n_members, self.in_features)
        scaled = reshape(x * self.in_factors, (-1, self.in_features))  # one product for all members
        product = reshape(matmul(scaled, self.weight), (*x.shape[:-1], self.out_features))
        out: Tensor = product * self.out_factors
        return out if self.bias is None else out + self.bias

    def extra_repr(self) -> str:
        bias = ", bias=False" if self.bias is None else ""
        return f"{self.in_features}, {self.out_features}, {self.n_members}, factors={self.factors!r}{bias}"


@described_by(Linear)
class EnsembleLinear(Module):
    """A linear layer for each member of an ensemble, and the mean of their outputs.

    Parameters
    ----------
    n_members : int, default=32
        Number of members.
    bias : bool, default=True
        Whether each member adds a bias.
    reduce : {"mean"} or None, default="mean"
        Whether to return the mean over members; None returns the outputs of each.
    init : Initializer or str, default=None
        Scheme of each member's weight, as for `Linear`.

    Attributes
    ----------
    weight : Parameter of shape (n_members, in_features, out_features)
        Weight of each member.
    bias : Parameter of shape (n_members, out_features), or None
        Bias of each member.

    Notes
    -----
    The input is of shape (..., n_members, in_features); the output of shape (..., out_features), or (...,
    n_members, out_features) without reduction. The mean is that of raw outputs, such as logits, also in
    training, whereas TabM's own recipe trains each member with its own loss.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.EnsembleLinear(3, 2, 4).initialize(0)(np.ones((5, 4, 3), np.float32)).shape
    (5, 2)
    """

    weight: Any = Registered()
    bias: Any = Registered()

    _parameter_constraints = {
        "in_features": COUNT,
        "out_features": COUNT,
        "n_members": COUNT,
        "reduce": [StrOptions({"mean"}), None],
        "bias": ["boolean"],
    }
    _stored_fields = {
        "weight": Params("n_members", "in_features", "out_features"),
        "bias": [Params("n_members", "out_features"), None],
    }

    def __init__(
        self,
        in_features: int,
        out_features: int,
        n_members: int = 32,
        reduce: str | None = "mean",
        bias: bool = True,
        *,
        init: "Initializer | str | None" = None,
        device: "str | Device | None" = None,
    ) -> None:
        check_arguments(
            self,
            in_features=in_features,
            out_features=out_features,
            n_members=n_members,
            reduce=reduce,
            bias=bias,
        )
        self.in_features, self.out_features = int(in_features), int(out_features)
        self.n_members, self.reduce = int(n_members), reduce
        shape = (self.n_members, self.in_features, self.out_features)
        fans: Any = {"fan_in": shape[1], "fan_out": shape[2]}
        draw = partial(scheme(init, self, "linear").draw, shape=shape, **fans)
        self.weight = Parameter(shape=shape, draw=draw, device=device)
        self.bias = Parameter(zeros((shape[0], shape[2]), device)) if bias else None

    def forward(self, x: Any) -> Tensor:
        x, weight = _checked(self, x, self.n_members, self.in_features), self.weight
        if self.reduce is None:
            by_member = matmul(moveaxis(x, -2, 0), _between(weight, x.ndim))
            out: Tensor = moveaxis(by_member, 0, -2)
            return out if self.bias is None else out + self.bias
        # The mean of products is one product of longer rows.
        length = self.n_members * self.in_features
        rows = reshape(x, (*x.shape[:-2], length))
        joined: Tensor = matmul(rows, reshape(weight, (length, self.out_features))) * (1.0 / self.n_members)
        return joined if self.bias is None else joined + mean(self.bias, axis=0)

    def extra_repr(self) -> str:
        bias = ", bias=False" if self.bias is None else ""
        reduce = "" if self.reduce == "mean" else f", reduce={self.reduce}"
        return f"{self.in_features}, {self.out_features}, {self.n_members}{reduce}{bias}"


def _between(weight: Tensor, ndim: int) -> Tensor:
    """Return a weight for each member with axes of length 1 for the axes before the rows."""
    if ndim <= 3:
        return weight
    return reshape(weight, (weight.shape[0], *(1,) * (ndim - 3), *weight.shape[1:]))


def _checked(layer: Module, x: Any, n_members: int, n_features: int) -> Tensor:
    found: Tensor = as_tensor(x)
    if found.shape[-2:] != (n_members, n_features):
        raise ShapeError(
            f"{layer!r}: expected an input of shape (..., {n_members}, {n_features}), got {found.shape}; "
            f"nn.EnsembleView({n_members}) shows rows to the members"
        )
    return found


def draw_ones(shape: tuple[int, ...], random_state: RandomState) -> Any:
    return np.ones(shape)


def draw_signs(shape: tuple[int, ...], random_state: RandomState) -> Any:
    return 2.0 * random_state.randint(2, size=shape) - 1.0


def draw_standard(shape: tuple[int, ...], random_state: RandomState) -> Any:
    return random_state.normal(size=shape)


FACTORS = {"ones": draw_ones, "signs": draw_signs, "normal": draw_standard}
