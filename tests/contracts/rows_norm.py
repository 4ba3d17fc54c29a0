"""Rows of normalization and attention."""

import math

import numpy as np

from sknet import ops
from sknet.core import PRIMITIVES, as_tensor, bind
from tests.contracts.table import Case, Row, flags, real

try:
    import torch
    import torch.nn.functional as F  # noqa: N812
except ImportError:  # the oracle's tests are skipped, the others do not need it
    torch = F = None


def _standard(x, axes, eps):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def _channels(x, v):
    return v.reshape(-1, *(1,) * (x.ndim - 2))


def _affine(x, weight, bias):
    return x * (1.0 if weight is None else weight) + (0.0 if bias is None else bias)


def _layer_norm(x, weight=None, bias=None, *, normalized_shape, eps=1e-5):
    axes = tuple(range(-len(_shape(normalized_shape)), 0))
    return _affine(_standard(x, axes, eps), weight, bias).astype(x.dtype)


def _rms_norm(x, weight=None, *, normalized_shape, eps=1e-6):
    axes = tuple(range(-len(_shape(normalized_shape)), 0))
    return _affine(x / np.sqrt((x * x).mean(axes, keepdims=True) + eps), weight, None).astype(x.dtype)


def _group_norm(x, weight=None, bias=None, *, num_groups, eps=1e-5):
    groups = x.reshape(len(x), num_groups, math.prod(x.shape[1:]) // num_groups)
    out = _standard(groups, -1, eps).reshape(x.shape)
    return _affine(out, *(None if v is None else _channels(x, v) for v in (weight, bias))).astype(x.dtype)


def _batch_norm(x, weight=None, bias=None, mean=None, variance=None, eps=1e-5):
    weight, bias, mean, variance = (
        None if v is None else _channels(x, v) for v in (weight, bias, mean, variance)
    )
    axes = (0, *range(2, x.ndim))
    out = _standard(x, axes, eps) if mean is None else (x - mean) / np.sqrt(variance + eps)
    return _affine(out, weight, bias).astype(x.dtype)


def _torch_batch_norm(x, weight=None, bias=None, mean=None, variance=None, eps=1e-5):
    if mean is None:
        return F.batch_norm(x, None, None, weight, bias, training=True, eps=eps)
    scale = weight / (variance + eps).sqrt()  # PyTorch's own has no gradient of mean and variance
    return x * scale[:, None] + (bias - mean * scale)[:, None]


def _shape(shape):
    return shape if isinstance(shape, tuple) else (int(shape),)


def _weights(q, k, mask=None, is_causal=False, scale=None):
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    is_open = np.ones(scores.shape, bool)
    if mask is not None and mask.dtype == bool:
        is_open &= mask
    elif mask is not None:
        scores = scores + mask
    if is_causal:
        is_open &= np.tril(np.ones(scores.shape[-2:], bool))
    scores = np.where(is_open, np.exp(scores - scores.max(-1, keepdims=True, initial=-1e9)), 0.0)
    total = scores.sum(-1, keepdims=True)
    return (scores / np.where(total > 0, total, 1.0)).astype(q.dtype)


def _attention(q, k, v, mask=None, **options):
    return _weights(q, k, mask, **options) @ v


def _torch_mask(mask, rows, columns, is_causal):
    if not is_causal or mask is None:
        return mask
    causal = torch.ones(rows, columns, dtype=torch.bool).tril()
    return mask & causal if mask.dtype == torch.bool else mask.masked_fill(~causal, -torch.inf)


def _torch_attention(q, k, v, mask=None, is_causal=False, scale=None):
    mask = _torch_mask(mask, q.shape[-2], k.shape[-2], is_causal)
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=is_causal and mask is None, scale=scale
    )


def _torch_weights(q, k, mask=None, **options):
    return _torch_attention(q, k, torch.eye(k.shape[-2], dtype=q.dtype), mask, **options)


QK = (real(2, 3, 5), real(2, 4, 5))
QUERIES = [
    (QK, (), {}),
    ((real(2, 2, 3, 5), real(2, 2, 3, 5)), (), {"is_causal": True}),
    (QK, (flags(3, 4),), {"scale": 0.3}),
    (QK, (flags(2, 1, 4),), {"is_causal": True}),
    (QK, (real(1, 4),), {}),
    (QK, (real(3, 4),), {"is_causal": True}),
    ((real(0, 3, 5), real(0, 4, 5)), (), {}),
]


def _norm_gradient(g, x, w, eps=1e-5):
    """Go back through `_layer_norm` over the last axis."""
    deviation = np.sqrt(x.var(-1, keepdims=True) + eps)
    normal, inner = _standard(x, -1, eps), g * w
    shares = inner.mean(-1, keepdims=True) + normal * (inner * normal).mean(-1, keepdims=True)
    over = tuple(range(x.ndim - 1))
    parts = (inner - shares) / deviation, (g * normal).sum(over), g.sum(over)
    return np.concatenate([part.ravel() for part in parts]).astype(x.dtype)


def _moments(x):
    axes = (0, *range(2, x.ndim))
    return np.stack([x.mean(axes), x.var(axes)])


def _batch_norm_gradient(g, x, w, eps=1e-5):
    """Go back through `_batch_norm`."""
    axes, w = (0, *range(2, x.ndim)), _channels(x, w)
    normal, deviation = _standard(x, axes, eps), np.sqrt(x.var(axes, keepdims=True) + eps)
    shares = g.mean(axes, keepdims=True) + normal * (g * normal).mean(axes, keepdims=True)
    parts = (g - shares) / deviation * w, (g * normal).sum(axes), g.sum(axes)
    return np.concatenate([part.ravel() for part in parts]).astype(x.dtype)


def _record_of_batch(name, at):
    """Return a call of a record whose last operand is the statistics of operand `at`."""

    def call(*operands, eps=1e-5):
        operands = [*map(as_tensor, operands)]
        moments = bind(PRIMITIVES["channel_moments"], (operands[at].detach(),), {})
        return bind(PRIMITIVES[name], (*operands, moments), {"eps": eps})

    return call


def _record(name):
    return lambda *operands, eps=1e-5: bind(PRIMITIVES[name], tuple(map(as_tensor, operands)), {"eps": eps})


NOT = {"integers": False}
NORM_ROWS = [
    Row(
        "layer_norm",
        _layer_norm,
        [
            Case((real(5, 4), real(4), real(4)), {"normalized_shape": 4}),
            Case((real(2, 3, 4),), {"normalized_shape": (3, 4), "eps": 1e-3}),
            Case((real(4),), {"normalized_shape": 4}),
            Case((real(0, 4),), {"normalized_shape": 4}),
        ],
        call=lambda x, *a, normalized_shape, **k: ops.layer_norm(x, normalized_shape, *a, **k),
        torch=lambda x, *a, normalized_shape, **k: F.layer_norm(x, _shape(normalized_shape), *a, **k),
        **NOT,
    ),
    Row(
        "layer_norm_at_once",
        lambda x, w, b, eps=1e-5: _affine(_standard(x, -1, eps), w, b).astype(x.dtype),
        [
            Case((real(5, 2, 4), real(4), real(4))),
            Case((real(3, 7), real(7), real(7)), {"eps": 1e-3}),
            Case((real(0, 2, 3), real(3), real(3))),
        ],
        "layer_norm",
        call=_record("layer_norm"),
        torch=lambda x, w, b, eps=1e-5: F.layer_norm(x, x.shape[-1:], w, b, eps),
        **NOT,
    ),
    Row(
        "layer_norm_gradient",
        _norm_gradient,
        [
            Case((real(3, 2, 4), real(3, 2, 4), real(4))),
            Case((real(5, 3), real(5, 3), real(3)), {"eps": 1e-3}),
        ],
        "layer_norm_gradient",
        call=_record("layer_norm_gradient"),
        torch="the gradient of layer_norm, compared there",
        **NOT,
    ),
    Row(
        "rms_norm",
        _rms_norm,
        [
            Case((real(5, 4), real(4)), {"normalized_shape": 4}),
            Case((real(2, 3, 4),), {"normalized_shape": (3, 4), "eps": 1e-3}),
            Case((real(0, 4),), {"normalized_shape": 4}),
        ],
        call=lambda x, *a, normalized_shape, **k: ops.rms_norm(x, normalized_shape, *a, **k),
        torch=lambda x, *a, normalized_shape, eps=1e-6: F.rms_norm(x, _shape(normalized_shape), *a, eps=eps),
        **NOT,
    ),
    Row(
        "group_norm",
        _group_norm,
        [
            Case((real(3, 4, 2, 2), real(4), real(4)), {"num_groups": 2}),
            Case((real(3, 6),), {"num_groups": 2, "eps": 1e-3}),
            Case((real(0, 2, 3),), {"num_groups": 1}),
        ],
        call=lambda x, *a, num_groups, **k: ops.group_norm(x, num_groups, *a, **k),
        torch=lambda x, *a, num_groups, **k: F.group_norm(x, num_groups, *a, **k),
        **NOT,
    ),
    Row(
        "instance_norm",
        lambda x, *a, **k: _group_norm(x, *a, num_groups=x.shape[1], **k),
        [Case((real(3, 2, 4), real(2), real(2))), Case((real(2, 2, 2, 3),), {"eps": 1e-3})],
        torch=lambda x, weight=None, bias=None, eps=1e-5: F.instance_norm(
            x, weight=weight, bias=bias, eps=eps
        ),
        **NOT,
    ),
    Row(
        "batch_norm",
        _batch_norm,
        [
            Case((real(5, 3), real(3), real(3))),
            Case((real(4, 3, 2, 2),), {"eps": 1e-3}),
            Case((real(4, 3, 2), real(3), real(3), real(3), real(3, low=0.5, high=2.0))),
        ],
        torch=_torch_batch_norm,
        **NOT,
    ),
    Row(
        "channel_moments",
        _moments,
        [Case((real(3, 4, 5),)), Case((real(4, 1, 2, 3),))],
        "channel_moments",
        call=lambda x: bind(PRIMITIVES["channel_moments"], (as_tensor(x),), {}),
        torch=lambda x: torch.stack(
            [
                x.mean((0, *range(2, x.ndim))),
                x.var((0, *range(2, x.ndim)), correction=0),
            ]
        ),
        **NOT,
    ),
    Row(
        "channel_norm",
        _batch_norm,
        [
            Case((real(5, 3, 4), real(3), real(3))),
            Case((real(3, 2, 3, 2), real(2), real(2)), {"eps": 1e-3}),
        ],
        "channel_norm",
        call=_record_of_batch("channel_norm", 0),
        torch=_torch_batch_norm,
        **NOT,
    ),
    Row(
        "channel_norm_gradient",
        _batch_norm_gradient,
        [
            Case((real(5, 3, 4), real(5, 3, 4), real(3))),
            Case((real(3, 2, 3, 2), real(3, 2, 3, 2), real(2)), {"eps": 1e-3}),
        ],
        "channel_norm_gradient",
        call=_record_of_batch("channel_norm_gradient", 1),
        torch="the gradient of channel_norm, compared there",
        **NOT,
    ),
]
ATTENTION_ROWS = [
    Row(
        "attention_weights",
        _weights,
        [Case((*qk, *mask), options) for qk, mask, options in QUERIES],
        torch=_torch_weights,
        **NOT,
    ),
    Row(
        "scaled_dot_product_attention",
        _attention,
        [Case((*qk, real(*qk[1].shape[:-1], 2), *mask), options) for qk, mask, options in QUERIES],
        torch=_torch_attention,
        **NOT,
    ),
]
ROWS = [*NORM_ROWS, *ATTENTION_ROWS]
