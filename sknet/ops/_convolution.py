"""Convolutions: three primitives, whose gradients are again these three.

A convolution is bilinear in image and weight. So the gradient with respect to the image is one map,
`conv_image` (also known as transposed convolution), that with respect to the weight another,
`conv_weight`, and every derivative of any of the three is one of the others.

Each is a copy and a matrix product: the elements of all windows become columns, with as many rows as
a kernel has elements (K. Chellapilla et al., "High performance convolutional neural networks for
document processing", 2006). Some samples are done at a time, so that the columns stay in the cache.
Kernels of single channels, and those of three by three, have ways of their own (`_depthwise`, `_winograd`).
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from sknet.core import Primitive, Tensor, bind
from sknet.device import Namespace, backend, result_dtype
from sknet.ops._depthwise import Depthwise
from sknet.ops._windows import Pair, Pairs, Windows
from sknet.ops._winograd import Winograd

__all__ = ["Work", "conv", "conv_image", "conv_weight", "convolution_work"]

Shape = tuple[int, ...]
Arrays = list[tuple[Shape, Any]]

CACHE = 1 << 22  # bytes of columns at a time
LARGE = 16  # an image is large if it has this many times more positions than a kernel has elements
WASTE = 1.25  # whole rows, which are copied faster than windows, may cost up to this many times the work


class _Task(NamedTuple):
    """A convolution of images with kernels, some samples at a time.

    Large images are multiplied one by one, in one call. Small ones form one wide matrix together, whose
    product is rearranged afterwards. In it, rows of windows are as long as rows of the padded image where
    that costs little work: each element of the kernel then reads one contiguous piece of memory, and the
    excess columns are left out, or multiplied by zeros.
    """

    windows: Windows
    groups: int
    n_samples: int
    channels: int
    filters: int
    together: bool
    whole_rows: bool
    part: int  # samples at a time

    @classmethod
    def of(
        cls, x: Shape, filters: int, groups: int, windows: Windows, itemsize: int, adjoint: bool = False
    ) -> "_Task":
        """Choose how to compute it."""
        rows, columns = windows.grid
        width = windows.padded[1]
        together = rows * columns < LARGE * x[1] * math.prod(windows.kernel)
        whole_rows = together and not adjoint and rows > 1 and windows.stride == (1, 1)
        whole_rows = whole_rows and width <= WASTE * columns
        depth = x[1] * math.prod(windows.kernel) + filters * together
        n_bytes = depth * rows * (width if whole_rows else columns) * itemsize
        part = max(1, min(CACHE // max(n_bytes, 1), x[0]))
        return cls(windows, groups, x[0], x[1], filters, together, whole_rows, part)

    @property
    def places(self) -> Pair:
        """Rows and columns of windows, the excess ones included."""
        rows, columns = self.windows.grid
        return rows, self.windows.padded[1] if self.whole_rows else columns

    @property
    def depth(self) -> int:
        """Elements of a kernel."""
        return self.channels // self.groups * math.prod(self.windows.kernel)

    def scratch(self, dtype: Any) -> Arrays:
        """Shape and dtype of the temporary arrays: padded images, columns, and images of filters."""
        rows, width = self.windows.padded
        n_places = math.prod(self.places)
        sizes = (
            self.channels * (rows + 1) * width,  # one more row, into which the last whole rows reach
            self.groups * self.depth * n_places,
            self.filters * n_places * self.together,
        )
        return [((self.part * size,), dtype) for size in sizes]

    def parts(self) -> Iterator[tuple[slice, int]]:
        """Yield the samples that are computed at a time, and how many."""
        for start in range(0, self.n_samples, self.part):
            stop = min(start + self.part, self.n_samples)
            yield slice(start, stop), stop - start

    def matrix(self, columns: Any, n: int) -> Any:
        """Return memory for columns as matrices to multiply, by group (and sample, if not together)."""
        shape = (self.groups, self.depth)
        n_places = math.prod(self.places)
        return _shaped(columns, (*shape, n * n_places) if self.together else (n, *shape, n_places))

    def elements(self, columns: Any, n: int) -> Any:
        """Return the same memory as (channels, rows and columns of a kernel, samples, places)."""
        shape = (self.channels, *self.windows.kernel)
        if self.together:
            return _shaped(columns, (*shape, n, *self.places))
        return _shaped(columns, (n, *shape, *self.places)).transpose(1, 2, 3, 0, 4, 5)

    def columns(self, x: Any, padded: Any, columns: Any) -> Any:
        """Fill in the columns of some samples, and return their matrix."""
        n, windows = x.shape[0], self.windows
        rows, width = windows.padded
        image = _shaped(padded, (self.channels, n, rows + 1, width))
        image[...] = 0
        image[windows.inside] = x.transpose(1, 0, 2, 3)
        found = self.elements(columns, n)
        if self.whole_rows:
            flat, length = image.reshape(self.channels, n, (rows + 1) * width), math.prod(self.places)
            filled = found.reshape(self.channels, *windows.kernel, n, length)
            for i, j, _ in windows.elements():
                start = i * windows.dilation[0] * width + j * windows.dilation[1]
                filled[:, i, j] = flat[:, :, start : start + length]
        else:
            image = image[:, :, :rows]
            for i, j, index in windows.elements():
                found[:, i, j] = image[index]
        return self.matrix(columns, n)

    def spread(self, g: Any, filters: Any) -> Any:
        """Return images of filters as matrices that fit those of the columns."""
        n, columns = g.shape[0], self.windows.grid[1]
        if not self.together:
            return g.reshape(n, self.groups, self.filters // self.groups, math.prod(self.places))
        found = _shaped(filters, (self.filters, n, *self.places))
        if self.whole_rows:
            found[..., columns:] = 0
        found[..., :columns] = g.transpose(1, 0, 2, 3)
        return found.reshape(self.groups, self.filters // self.groups, n * math.prod(self.places))

    def multiply_into(self, xp: Namespace, kernels: Any, columns: Any, filters: Any, out: Any) -> None:
        """Write the product of kernels and columns to images of filters, the opposite of `spread`."""
        n = out.shape[0]
        shape = (self.groups, self.filters // self.groups)
        if not self.together:
            xp.matmul(kernels, columns, out=out.reshape(n, *shape, math.prod(self.places)))
            return
        product = _shaped(filters, (*shape, columns.shape[-1]))
        xp.matmul(kernels, columns, out=product)
        found = product.reshape(self.filters, n, *self.places)[..., : self.windows.grid[1]]
        out[...] = found.transpose(1, 0, 2, 3)


def _shaped(flat: Any, shape: Shape) -> Any:
    return flat[: math.prod(shape)].reshape(shape)


def _scratch(xp: Namespace, given: Any, arrays: Arrays) -> Any:
    return [xp.empty(shape, dtype=dtype) for shape, dtype in arrays] if given is None else given


def _by_group(w: Any, groups: int) -> Any:
    return w.reshape(groups, w.shape[0] // groups, math.prod(w.shape[1:]))


# -- the three maps ---------------------------------------------------------------------------


Way = _Task | Depthwise | Winograd


def _task(xp: Namespace, x: Any, w: Any, stride: Pair, padding: Pairs, dilation: Pair, groups: int) -> Way:
    windows = Windows(x.shape[2:], w.shape[2:], stride, padding, dilation)
    return _task_of(xp, x, w.shape[0], groups, windows)


def _task_of(
    xp: Namespace, x: Any, filters: int, groups: int, windows: Windows, of_weight: bool = False
) -> Way:
    """Choose how to convolve: without native code, the sums of tiles take longer than fewer products save."""
    shape, itemsize = x.shape, x.dtype.itemsize
    if Depthwise.fits(shape[1], filters, groups, x.dtype):
        return Depthwise.of(shape, windows, itemsize)
    if xp.may_be_native() and Winograd.fits(shape, filters, groups, windows, x.dtype):
        choose = Winograd.of_weight if of_weight else Winograd.of
        return choose(shape, filters, groups, windows, itemsize)
    return _Task.of(shape, filters, groups, windows, itemsize)


def _conv_forward(
    xp: Namespace,
    x: Any,
    w: Any,
    *,
    groups: int,
    bias: Any = None,
    out: Any = None,
    scratch: Any = None,
    **where: Any,
) -> Any:
    task = _task(xp, x, w, groups=groups, **where)
    scratch = _scratch(xp, scratch, task.scratch(x.dtype))
    if out is None:
        out = xp.empty((x.shape[0], w.shape[0], *task.windows.grid), dtype=x.dtype)
    if not isinstance(task, _Task):
        task.convolved(xp, x, w, out, scratch, bias)
        return out
    padded, columns, filters = scratch
    kernels = _by_group(w, groups)
    for samples, _ in task.parts():
        part = out[samples]
        task.multiply_into(xp, kernels, task.columns(x[samples], padded, columns), filters, part)
        if bias is not None:
            xp.add(part, bias, out=part)
    return out


def _flipped(w: Any, groups: int) -> Any:
    """Return the weight whose convolution is the adjoint of w's: flipped and transposed."""
    filters, channels, *kernel = w.shape
    turned = w[:, :, ::-1, ::-1].reshape(groups, filters // groups, channels, *kernel)
    return turned.transpose(0, 2, 1, 3, 4).reshape(groups * channels, filters // groups, *kernel)


def _adjoint_padding(w: Any, stride: Pair, padding: Pairs, dilation: Pair, groups: int) -> Pairs | None:
    """Return the padding with which convolving with the flipped weight is the adjoint; None if there is none.

    None also if there are so many more filters than channels that adding columns up is faster
    than gathering them.
    """
    reaches = [d * (k - 1) for d, k in zip(dilation, w.shape[2:], strict=True)]
    rows, columns = (
        (reach - before, reach - after) for reach, (before, after) in zip(reaches, padding, strict=True)
    )
    fits = stride == (1, 1) and min(*rows, *columns) >= 0
    return (rows, columns) if fits and w.shape[0] <= 4 * w.shape[1] * groups else None


def _image_task(
    g: Any, w: Any, size: Pair, stride: Pair, padding: Pairs, dilation: Pair, groups: int
) -> _Task:
    windows = Windows(size, w.shape[2:], stride, padding, dilation)
    shape = (g.shape[0], w.shape[1] * groups, *size)
    return _Task.of(shape, w.shape[0], groups, windows, g.dtype.itemsize, adjoint=True)


def _image_forward(
    xp: Namespace,
    g: Any,
    w: Any,
    *,
    size: Pair,
    groups: int,
    out: Any = None,
    scratch: Any = None,
    **where: Any,
) -> Any:
    padding = _adjoint_padding(w, groups=groups, **where)
    if padding is not None:
        where = where | {"padding": padding}
        return _conv_forward(xp, g, _flipped(w, groups), groups=groups, out=out, scratch=scratch, **where)
    task = _image_task(g, w, size, groups=groups, **where)
    padded, columns, filters = _scratch(xp, scratch, task.scratch(g.dtype))
    if out is None:
        out = xp.empty((g.shape[0], task.channels, *size), dtype=g.dtype)
    kernels = _by_group(w, groups).transpose(0, 2, 1)
    rows, width = task.windows.padded
    for samples, n in task.parts():
        xp.matmul(kernels, task.spread(g[samples], filters), out=task.matrix(columns, n))
        image = _shaped(padded, (task.channels, n, rows, width))
        image[...] = 0
        shares = task.elements(columns, n)
        for i, j, index in task.windows.elements():
            image[index] += shares[:, i, j]
        out[samples] = image[task.windows.inside].transpose(1, 0, 2, 3)
    return out


def _weight_task(xp: Namespace, x: Any, g: Any, kernel: Pair, groups: int, **where: Any) -> Way:
    windows = Windows(x.shape[2:], kernel, **where)
    return _task_of(xp, x, g.shape[1], groups, windows, of_weight=True)


def _weight_forward(
    xp: Namespace,
    x: Any,
    g: Any,
    *,
    kernel: Pair,
    groups: int,
    out: Any = None,
    scratch: Any = None,
    **where: Any,
) -> Any:
    task = _weight_task(xp, x, g, kernel, groups, **where)
    shape = (g.shape[1], x.shape[1] // groups, *kernel)
    if out is None:
        out = xp.empty(shape, dtype=x.dtype)
    if not isinstance(task, _Task):
        rooms = _scratch(xp, scratch, _rooms_of_weight(task, x.dtype))
        out[...] = task.weight(xp, x, g, rooms).reshape(shape)
        return out
    padded, columns, filters = _scratch(xp, scratch, task.scratch(x.dtype))
    total = xp.zeros((groups, task.depth, g.shape[1] // groups), dtype=x.dtype)
    for samples, _ in task.parts():
        matrix, images = task.columns(x[samples], padded, columns), task.spread(g[samples], filters)
        # Columns first: it is a sixth faster than the transposed product.
        part = xp.matmul(matrix, images.transpose(*range(images.ndim - 2), -1, -2))
        total += part if task.together else xp.sum(part, axis=0)
    out[...] = total.transpose(0, 2, 1).reshape(shape)
    return out


# -- their records ----------------------------------------------------------------------------


def _conv_shape(x: Any, w: Any, groups: int, **where: Any) -> tuple[Shape, np.dtype[Any]]:
    grid = Windows(x.shape[2:], w.shape[2:], **where).grid
    return (x.shape[0], w.shape[0], *grid), result_dtype(x, w)


def _image_shape(g: Any, w: Any, size: Pair, groups: int, **where: Any) -> tuple[Shape, np.dtype[Any]]:
    return (g.shape[0], w.shape[1] * groups, *size), result_dtype(g, w)


def _weight_shape(x: Any, g: Any, kernel: Pair, groups: int, **where: Any) -> tuple[Shape, np.dtype[Any]]:
    return (g.shape[1], x.shape[1] // groups, *kernel), result_dtype(x, g)


def _host() -> Namespace:
    """Plans for devices have memory of their own for columns."""
    return backend("cpu").xp


def _conv_scratch(x: Any, w: Any, **where: Any) -> Arrays:
    return _task(_host(), x, w, **where).scratch(x.dtype)


def _image_scratch(g: Any, w: Any, size: Pair, groups: int, **where: Any) -> Arrays:
    padding = _adjoint_padding(w, groups=groups, **where)
    if padding is None:
        return _image_task(g, w, size, groups=groups, **where).scratch(g.dtype)
    windows = Windows(g.shape[2:], w.shape[2:], where["stride"], padding, where["dilation"])
    return _task_of(_host(), g, w.shape[1] * groups, groups, windows).scratch(g.dtype)


def _weight_scratch(x: Any, g: Any, kernel: Pair, groups: int, **where: Any) -> Arrays:
    return _rooms_of_weight(_weight_task(_host(), x, g, kernel, groups, **where), x.dtype)


def _rooms_of_weight(task: Way, dtype: Any) -> Arrays:
    return task.scratch(dtype) if isinstance(task, _Task) else task.scratch_of_weight(dtype)


_conv: Primitive = Primitive("conv").define(
    forward=_conv_forward,
    shape=_conv_shape,
    vjp=(
        lambda g, _, x, w, **where: conv_image(g, w, size=x.shape[2:], **where),
        lambda g, _, x, w, **where: conv_weight(x, g, kernel=w.shape[2:], **where),
    ),
    scratch=_conv_scratch,
)
_image: Primitive = Primitive("conv_image").define(
    forward=_image_forward,
    shape=_image_shape,
    vjp=(
        lambda h, _, g, w, size, **where: conv(h, w, **where),
        lambda h, _, g, w, size, **where: conv_weight(h, g, kernel=w.shape[2:], **where),
    ),
    scratch=_image_scratch,
)
_weight: Primitive = Primitive("conv_weight").define(
    forward=_weight_forward,
    shape=_weight_shape,
    vjp=(
        lambda v, _, x, g, kernel, **where: conv_image(g, v, size=x.shape[2:], **where),
        lambda v, _, x, g, kernel, **where: conv(x, v, **where),
    ),
    scratch=_weight_scratch,
)


def conv(x: Tensor, w: Tensor, **where: Any) -> Tensor:
    """Return the cross-correlation of images (N, C, H, W) with kernels (O, C / groups, h, w).

    `where` has stride, padding, dilation (pairs) and groups.
    """
    return bind(_conv, (x, w), where)


def conv_image(g: Tensor, w: Tensor, size: Pair, **where: Any) -> Tensor:
    """Return the adjoint of `conv` in the image: the image of `size` that has the gradient g."""
    return bind(_image, (g, w), {"size": size, **where})


def conv_weight(x: Tensor, g: Tensor, kernel: Pair, **where: Any) -> Tensor:
    """Return the adjoint of `conv` in the weight: kernels of size `kernel` that have the gradient g."""
    return bind(_weight, (x, g), {"kernel": kernel, **where})


# Which of operands and result are images of filters, and kernels.
ROLES = {_conv: (2, 1), _image: (0, 1), _weight: (1, 2)}


class Work(NamedTuple):
    """How many multiplications a convolution has, without tiles, and by what they are made.

    Attributes
    ----------
    by_blas : int
        In products of columns and kernels.
    by_tiles : int
        In products of tiles, in threads of their own.
    """

    by_blas: int = 0
    by_tiles: int = 0


def convolution_work(equation: Any) -> Work | None:
    """Return how many multiplications a convolution of a plan for the host has; None for other primitives.

    Parameters
    ----------
    equation : Equation
        Of any primitive.

    Returns
    -------
    Work or None
        Zeros if every channel has a kernel of its own, which needs no products of matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import ops
    >>> from sknet.compile import capture
    >>> from sknet.ops.extend import convolution_work
    >>> graph = capture(ops.conv2d, np.ones((8, 1, 9, 9)), np.ones((4, 1, 5, 5)))
    >>> [work for equation in graph.equations if (work := convolution_work(equation))]
    [Work(by_blas=20000, by_tiles=0)]
    """
    roles = ROLES.get(equation.primitive)
    if roles is None:
        return None
    first, second = equation.operands
    images, kernels = ((first, second, equation.output)[i] for i in roles)
    count = math.prod(images.shape) * math.prod(kernels.shape[1:])
    groups = equation.params["groups"]
    if Depthwise.fits(kernels.shape[1] * groups, kernels.shape[0], groups, images.dtype):
        return Work()
    rooms = equation.primitive.scratch(first, second, **equation.params)
    has_shares = len(rooms[0][0]) > 1  # only tiles have memory for several threads
    return Work(by_tiles=count) if has_shares else Work(by_blas=count)
