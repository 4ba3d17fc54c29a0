"""Rows of convolutions and pools, and of the records behind them."""

import itertools

import numpy as np

from sknet.core import PRIMITIVES, as_tensor, bind
from sknet.ops import max_pool2d
from tests.contracts.table import Case, Row, real

try:
    import torch
    import torch.nn.functional as F  # noqa: N812
except ImportError:  # the oracle's tests are skipped, the others do not need it
    torch = F = None

DISTINCT = {"kind": "distinct"}


def _pair(value, default=1):
    if isinstance(value, tuple):
        return value if len(value) == 2 else (default, *value)
    return value, value


# -- convolutions, element by element ---------------------------------------------------------


def _places(kernel, grid, stride, padding, dilation):
    """Yield position in the kernel, position of the window, and position in the image."""
    for (i, j), (r, c) in itertools.product(np.ndindex(*kernel), np.ndindex(*grid)):
        yield (
            (i, j),
            (r, c),
            tuple(
                s * at + d * e - p
                for s, at, d, e, p in zip(stride, (r, c), dilation, (i, j), padding, strict=True)
            ),
        )


def _scatter(xs, w, grid, size, groups, update, **where):
    """Call `update` for every pair of an element of an image and one of a window."""
    for element, window, place in _places(w.shape[2:], grid, **where):
        if all(0 <= at < n for at, n in zip(place, size, strict=True)):
            for g in range(groups):
                rows = slice(g * w.shape[0] // groups, (g + 1) * w.shape[0] // groups)
                channels = slice(g * w.shape[1], (g + 1) * w.shape[1])
                update(rows, channels, element, window, place)


def _conv2d(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1):
    image = x.reshape(-1, *x.shape[-3:])
    stride, dilation = _pair(stride), _pair(dilation)
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilation, w.shape[2:], strict=True)]
        before, after = [t // 2 for t in total], [t - t // 2 for t in total]
    else:
        before = after = _pair(0 if padding == "valid" else padding)
    grid = tuple(
        (n + a + b - d * (k - 1) - 1) // s + 1
        for n, a, b, d, k, s in zip(
            image.shape[2:], before, after, dilation, w.shape[2:], stride, strict=True
        )
    )
    out = np.zeros((len(image), w.shape[0], *grid), np.result_type(x, w))

    def update(rows, channels, element, window, place):
        out[:, rows, *window] += image[:, channels, *place] @ w[rows, :, *element].T

    where = {"stride": stride, "padding": before, "dilation": dilation}
    _scatter(image, w, grid, image.shape[2:], groups, update, **where)
    out = out if bias is None else out + bias[:, None, None]
    return out.reshape(*x.shape[:-3], *out.shape[1:])


def _conv_transpose2d(
    x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1, size=None
):
    stride, dilation, padding = _pair(stride), _pair(dilation), _pair(padding)
    parts = zip(x.shape[2:], w.shape[2:], stride, padding, dilation, _pair(output_padding), strict=True)
    size = tuple((n - 1) * s - 2 * p + d * (k - 1) + m + 1 for n, k, s, p, d, m in parts)
    out = np.zeros((len(x), w.shape[1] * groups, *size), np.result_type(x, w))

    def update(rows, channels, element, window, place):
        out[:, channels, *place] += x[:, rows, *window] @ w[rows, :, *element]

    where = {"stride": stride, "padding": padding, "dilation": dilation}
    _scatter(x, w, x.shape[2:], size, groups, update, **where)
    return out if bias is None else out + bias[:, None, None]


def _conv_weight(x, g, kernel, stride, padding, dilation, groups):
    out = np.zeros((g.shape[1], x.shape[1] // groups, *kernel), x.dtype)

    def update(rows, channels, element, window, place):
        out[rows, :, *element] += g[:, rows, *window].T @ x[:, channels, *place]

    before = tuple(a for a, _ in padding)
    where = {"stride": stride, "padding": before, "dilation": dilation}
    _scatter(x, out, g.shape[2:], x.shape[2:], groups, update, **where)
    return out


def _with_row_axis(function):
    """Turn a reference for images into one for signals, which are images of one row."""

    def reference(x, w, bias=None, **options):
        options = {
            name: (1 if name in ("stride", "dilation") else 0, *(v if isinstance(v, tuple) else (v,)))
            if name not in ("groups",) and not isinstance(v, str)
            else v
            for name, v in options.items()
        }
        return function(x[..., None, :], w[:, :, None], bias, **options)[..., 0, :]

    return reference


def _record(name):
    return lambda *operands, **params: bind(PRIMITIVES[name], tuple(map(as_tensor, operands)), params)


CONV = [
    Case((real(2, 3, 5, 6), real(4, 3, 3, 2))),
    Case((real(2, 3, 5, 6), real(4, 3, 3, 3), real(4)), {"padding": 1}),
    Case((real(1, 2, 6, 7), real(2, 2, 3, 2)), {"stride": 2, "padding": (2, 1)}),
    Case((real(2, 2, 5, 4), real(2, 2, 2, 3)), {"padding": "same", "dilation": (2, 1)}),
    Case((real(2, 4, 4, 4), real(6, 2, 2, 2), real(6)), {"groups": 2, "stride": (1, 2)}),
    Case((real(1, 3, 4, 4), real(3, 1, 3, 3)), {"groups": 3, "padding": 1}),
    Case((real(2, 1, 3, 3), real(9, 1, 2, 2)), {"padding": "valid"}),
    Case((real(2, 5, 3, 3), real(2, 5, 1, 1))),
    Case((real(3, 5, 4), real(2, 3, 2, 2))),
    Case((real(0, 2, 4, 4), real(3, 2, 3, 3))),
]
CONV_1D = [
    Case((real(2, 3, 7), real(4, 3, 3), real(4))),
    Case((real(2, 2, 8), real(2, 1, 2)), {"stride": 3, "padding": 1, "groups": 2}),
    Case((real(3, 8), real(2, 3, 3)), {"padding": "same", "dilation": 2}),
    Case((real(2, 3, 7), real(4, 3, 3)), {"stride": (2,), "padding": (1,), "dilation": (2,)}),
]
TRANSPOSED = [
    Case((real(2, 3, 3, 4), real(3, 2, 2, 3), real(2))),
    Case((real(1, 2, 3, 3), real(2, 2, 3, 3)), {"stride": 2, "padding": 1, "output_padding": 1}),
    Case((real(1, 2, 3, 2), real(2, 1, 2, 2)), {"dilation": 4, "output_padding": (3, 2)}),
    Case((real(1, 2, 3, 4), real(2, 1, 2, 2)), {"dilation": 3, "padding": (1, 3), "output_padding": 2}),
    Case(
        (real(1, 1, 3, 3), real(1, 2, 2, 1)), {"stride": 2, "dilation": 5, "padding": 1, "output_padding": 4}
    ),
    Case((real(2, 4, 3, 2), real(4, 1, 2, 2)), {"groups": 2, "stride": (3, 2), "output_padding": (2, 0)}),
    Case((real(1, 9, 3, 3), real(9, 1, 2, 2)), {"dilation": 2}),
    Case((real(1, 2, 3, 3), real(2, 1, 3, 3)), {"padding": 2, "dilation": 2}),
    Case((real(0, 2, 3, 3), real(2, 3, 2, 2))),
]
WHERE = {"stride": (2, 1), "padding": ((1, 1), (0, 1)), "dilation": (1, 1), "groups": 1}

# -- pools ------------------------------------------------------------------------------------


def _windows_of(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """Yield every window: its position, its elements, and their number including padding."""
    kernel, pads, dilation = _pair(kernel_size), _pair(padding, 0), _pair(dilation)
    stride = kernel if stride is None else _pair(stride)
    starts = []
    for n, k, s, p, d in zip(x.shape[-2:], kernel, stride, pads, dilation, strict=True):
        last = n + p - (1 if ceil_mode else d * (k - 1) + 1)
        rest = (n + 2 * p - d * (k - 1) - 1) % s if ceil_mode else 0
        stop = min(last, n + 2 * p - d * (k - 1) - 1 - p + (s - rest if rest else 0)) if ceil_mode else last
        starts.append(range(-p, stop + 1, s))
    for (r, top), (c, left) in itertools.product(enumerate(starts[0]), enumerate(starts[1])):
        rows, columns = (
            [a + d * i for i in range(k)] for a, k, d in zip((top, left), kernel, dilation, strict=True)
        )
        inside = [[i for i in at if 0 <= i < n] for at, n in zip((rows, columns), x.shape[-2:], strict=True)]
        count = [
            sum(i < n + p for i in at) for at, n, p in zip((rows, columns), x.shape[-2:], pads, strict=True)
        ]
        yield (r, c), x[(..., *np.ix_(*inside))], count[0] * count[1]


def _pool(value):
    def reference(x, *args, **options):
        found = {place: value(*window) for place, *window in _windows_of(x, *args, **options)}
        rows, columns = (max(axis) + 1 for axis in zip(*found, strict=True))
        out = np.zeros((*x.shape[:-2], rows, columns), x.dtype)
        for place, values in found.items():
            out[(..., *place)] = values
        return out

    return reference


_max_pool2d = _pool(lambda elements, count: elements.max((-2, -1)))


def _avg_pool2d(x, *args, count_include_pad=True, **options):
    def mean(elements, count):
        return elements.sum((-2, -1)) / (count if count_include_pad else elements[0, 0].size)

    return _pool(mean)(x.reshape(-1, *x.shape[-3:]), *args, **options).reshape(
        *x.shape[:-2], *_pool(mean)(x.reshape(-1, *x.shape[-3:]), *args, **options).shape[-2:]
    )


def _adaptive(function):
    def reference(x, output_size):
        sizes = (output_size, output_size) if not isinstance(output_size, tuple) else output_size
        sizes = [n if m is None else m for m, n in zip(sizes, x.shape[-2:], strict=True)]
        bins = [
            [slice(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]
            for m, n in zip(sizes, x.shape[-2:], strict=True)
        ]
        found = [[function(x[..., r, c], (-2, -1)) for c in bins[1]] for r in bins[0]]
        return np.moveaxis(np.array(found), (0, 1), (-2, -1))

    return reference


def _signal(reference):
    def of_signals(x, kernel_size, *, stride=None, **options):
        options = {name: (name == "dilation", v) if type(v) is int else v for name, v in options.items()}
        stride = None if stride is None else (1, stride)
        return reference(x[..., None, :], (1, kernel_size), **({"stride": stride} | options))[..., 0, :]

    return of_signals


def _adaptive_signal(reference):
    return lambda x, output_size: reference(x[..., None, :], (1, output_size))[..., 0, :]


def _put(g, x, **where):
    return bind(PRIMITIVES["max_pool_put"], _with_top(g, x, where), where)


def _take(h, x, **where):
    return bind(PRIMITIVES["max_pool_take"], _with_top(h, x, where), where)


def _with_top(first, x, where):
    x = as_tensor(x).detach()
    before = tuple(a for a, _ in where["padding"])
    top = max_pool2d(x, where["kernel"], where["stride"], before, where["dilation"])
    return as_tensor(first), x, top


def _moved(first, x, into, *, kernel, stride, padding, dilation):
    """Yield the position of every window, and that of its largest element in the image."""
    before = tuple(a for a, _ in padding)
    numbers = np.arange(x[0, 0].size).reshape(x.shape[2:])
    for n, c in np.ndindex(x.shape[:2]):
        windows = _windows_of(x[n, c], kernel, stride, before, dilation)
        places = _windows_of(numbers, kernel, stride, before, dilation)
        for (place, elements, _), (_, inside, _) in zip(windows, places, strict=True):
            at = np.unravel_index(inside.flat[elements.argmax()], numbers.shape)
            into((n, c, *place), (n, c, *at))


def _put_reference(g, x, **where):
    out = np.zeros(x.shape, g.dtype)

    def add(window, place):
        out[place] += g[window]

    _moved(g, x, add, **where)
    return out


def _take_reference(h, x, **where):
    out = np.zeros((*x.shape[:2], *_max_pool2d(x[0, 0], where["kernel"], where["stride"]).shape), h.dtype)

    def copy(window, place):
        out[window] = h[place]

    _moved(h, x, copy, **where)
    return out


def _sum_pool(x, *, kernel, stride, padding, dilation):
    before = tuple(a for a, _ in padding)
    return _pool(lambda elements, count: elements.sum((-2, -1)))(x, kernel, stride, before, dilation)


def _spread(g, *, size, **where):
    out = np.zeros((*g.shape[:2], *size), g.dtype)
    numbers = np.arange(np.prod(size)).reshape(size)
    for place, inside, _ in _windows_of(
        numbers, where["kernel"], where["stride"], tuple(a for a, _ in where["padding"]), where["dilation"]
    ):
        for number in inside.flat:
            out[(..., *np.unravel_index(number, size))] += g[(..., *place)]
    return out


MAX = [
    Case((real(2, 3, 4, 6, **DISTINCT),), {"kernel_size": 2}),
    Case((real(2, 2, 5, 5, **DISTINCT),), {"kernel_size": 3, "stride": 2, "padding": 1}),
    Case((real(1, 2, 6, 5, **DISTINCT),), {"kernel_size": (2, 3), "stride": (1, 2), "dilation": (2, 1)}),
    Case((real(1, 1, 6, 7, **DISTINCT),), {"kernel_size": 2, "ceil_mode": True, "stride": 3}),
    Case((real(1, 1, 5, 5, **DISTINCT),), {"kernel_size": 2, "ceil_mode": True}),
    Case((real(2, 4, 4, **DISTINCT),), {"kernel_size": (1, 2)}),
    Case((real(0, 2, 4, 4),), {"kernel_size": 2}),
]
AVG = [
    Case((real(2, 3, 4, 6),), {"kernel_size": 2}),
    Case((real(2, 2, 5, 5),), {"kernel_size": 3, "stride": 2, "padding": 1}),
    Case((real(2, 2, 5, 5),), {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False}),
    Case((real(1, 2, 6, 5),), {"kernel_size": (2, 3), "stride": (1, 2)}),
    Case((real(1, 1, 5, 7),), {"kernel_size": 3, "ceil_mode": True, "padding": 1, "stride": 2}),
    Case((real(2, 4, 4),), {"kernel_size": (1, 2)}),
    Case((real(0, 2, 4, 4),), {"kernel_size": 2}),
]
SIGNAL = [
    Case((real(2, 3, 6, **DISTINCT),), {"kernel_size": 2}),
    Case((real(3, 7, **DISTINCT),), {"kernel_size": 3, "stride": 2, "padding": 1}),
    Case((real(3, 8, **DISTINCT),), {"kernel_size": 3, "ceil_mode": True}),
]
ADAPTIVE = [
    Case((real(2, 3, 4, 6, **DISTINCT),), {"output_size": (2, 3)}),
    Case((real(2, 2, 5, 7, **DISTINCT),), {"output_size": 3}),
    Case((real(2, 5, 7, **DISTINCT),), {"output_size": (None, 1)}),
    Case((real(1, 1, 2, 3, **DISTINCT),), {"output_size": (4, 5)}),
    Case((real(0, 1, 2, 3),), {"output_size": 2}),
]
POOL = {"kernel": (2, 3), "stride": (2, 1), "padding": ((0, 0), (1, 1)), "dilation": (1, 1)}

NOT = {"integers": False}
CONV_ROWS = [
    Row("conv2d", _conv2d, CONV, "conv", torch=lambda *a, **k: F.conv2d(*a, **k), **NOT),
    Row("conv1d", _with_row_axis(_conv2d), CONV_1D, torch=lambda *a, **k: F.conv1d(*a, **k), **NOT),
    Row(
        "conv_transpose2d",
        _conv_transpose2d,
        TRANSPOSED,
        "conv_image",
        torch=lambda *a, **k: F.conv_transpose2d(*a, **k),
        **NOT,
    ),
    Row(
        "conv_transpose1d",
        _with_row_axis(_conv_transpose2d),
        [
            Case((real(2, 3, 4), real(3, 2, 3), real(2))),
            Case((real(2, 2, 4), real(2, 1, 2)), {"stride": 3, "groups": 2, "output_padding": 2}),
        ],
        torch=lambda *a, **k: F.conv_transpose1d(*a, **k),
        **NOT,
    ),
    Row(
        "conv_weight",
        _conv_weight,
        [Case((real(2, 2, 5, 4), real(2, 3, 3, 3)), {"kernel": (3, 3), **WHERE})],
        "conv_weight",
        call=_record("conv_weight"),
        torch="the gradient of conv2d, compared there",
    ),
]
POOL_ROWS = [
    Row("max_pool2d", _max_pool2d, MAX, "max_pool", torch=lambda x, *a, **k: F.max_pool2d(x, *a, **k), **NOT),
    Row("max_pool1d", _signal(_max_pool2d), SIGNAL, torch=lambda x, *a, **k: F.max_pool1d(x, *a, **k), **NOT),
    Row(
        "max_pool_put",
        _put_reference,
        [Case((real(2, 2, 2, 5), real(2, 2, 5, 5, **DISTINCT)), POOL)],
        "max_pool_put",
        call=_put,
        torch="the gradient of max_pool2d, compared there",
        **NOT,
    ),
    Row(
        "max_pool_take",
        _take_reference,
        [Case((real(2, 2, 5, 6), real(2, 2, 5, 6, **DISTINCT)), POOL | {"padding": ((0, 0), (0, 0))})],
        "max_pool_take",
        call=_take,
        torch="the second gradient of max_pool2d",
        **NOT,
    ),
    Row("avg_pool2d", _avg_pool2d, AVG, torch=lambda x, *a, **k: F.avg_pool2d(x, *a, **k), **NOT),
    Row("avg_pool1d", _signal(_avg_pool2d), SIGNAL, torch=lambda x, *a, **k: F.avg_pool1d(x, *a, **k), **NOT),
    Row(
        "sum_pool",
        _sum_pool,
        [Case((real(2, 2, 5, 5),), POOL)],
        "sum_pool",
        call=_record("sum_pool"),
        torch="avg_pool2d without its divisor, compared there",
    ),
    Row(
        "sum_pool_spread",
        _spread,
        [Case((real(2, 2, 2, 5),), {"size": (5, 5), **POOL})],
        "sum_pool_spread",
        call=_record("sum_pool_spread"),
        torch="the gradient of avg_pool2d, compared there",
    ),
    Row(
        "adaptive_avg_pool2d",
        _adaptive(np.mean),
        ADAPTIVE,
        torch=lambda x, output_size: F.adaptive_avg_pool2d(x, output_size),
        **NOT,
    ),
    Row(
        "adaptive_max_pool2d",
        _adaptive(np.max),
        ADAPTIVE,
        torch=lambda x, output_size: F.adaptive_max_pool2d(x, output_size),
        **NOT,
    ),
    Row(
        "adaptive_avg_pool1d",
        _adaptive_signal(_adaptive(np.mean)),
        [Case((real(2, 3, 7),), {"output_size": 3}), Case((real(3, 6),), {"output_size": 2})],
        torch=lambda x, output_size: F.adaptive_avg_pool1d(x, output_size),
        **NOT,
    ),
    Row(
        "adaptive_max_pool1d",
        _adaptive_signal(_adaptive(np.max)),
        [
            Case((real(2, 3, 7, **DISTINCT),), {"output_size": 3}),
            Case((real(3, 6, **DISTINCT),), {"output_size": 2}),
        ],
        torch=lambda x, output_size: F.adaptive_max_pool1d(x, output_size),
        **NOT,
    ),
]
ROWS = [*CONV_ROWS, *POOL_ROWS]
