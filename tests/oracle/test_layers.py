"""Layers against PyTorch's, with the same weights: values and all gradients, in float64."""

import itertools

import numpy as np
import pytest

from sknet import Tensor, nn, ops
from sknet.core import gradients
from tests.combinations import every

torch = pytest.importorskip("torch", reason="needs PyTorch, a second opinion that sknet does not depend on")

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
RNG = np.random.default_rng(0)


def pair(kind, *args, theirs=None, **options):
    """Return our layer and PyTorch's with the same parameters, in their common order."""
    mine = getattr(nn, kind)(*args, **options).to(dtype="float64").initialize(0)
    other = getattr(torch.nn, theirs or kind)(*args, **options).double()
    for name, parameter in other.named_parameters():
        with torch.no_grad():
            parameter.copy_(torch.tensor(getattr(mine, name).numpy()))
    return mine, other


def check(output, other, inputs, leaves):
    """Compare values, and the gradients of a weighted sum."""
    np.testing.assert_allclose(output.numpy(), other.detach().numpy(), **CLOSE)
    weights = RNG.normal(size=output.shape)
    found = gradients(output, inputs, Tensor(weights))
    expected = torch.autograd.grad(other, leaves, torch.tensor(weights))
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), **CLOSE)


def check_layers(mine, theirs, shape):
    values = RNG.normal(size=shape)
    x, tx = Tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    check(mine(x), theirs(tx), [x, *mine.parameters()], [tx, *theirs.parameters()])


CONVOLUTIONS = [
    {"kernel_size": 3},
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": 3, "padding": "same"},
    {"kernel_size": 4, "padding": "same", "dilation": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 2, "stride": 3, "bias": False},
    {"kernel_size": 1},
    {"kernel_size": 1, "stride": 2},
    {"kernel_size": 3, "padding": 2, "dilation": 2},
    {"kernel_size": 5, "padding": 4},
    {"kernel_size": 2, "padding": 3},
    {"kernel_size": 3, "groups": 2, "padding": 1},
    {"kernel_size": 3, "groups": 4, "stride": 2},
]


@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
@every(out_channels=[4, 20], size=[(7,), (12,), (7, 8), (12, 9)])
def test_convolution(options, out_channels, size):
    mine, theirs = pair(f"Conv{len(size)}d", 4, out_channels, **options)
    check_layers(mine, theirs, (3, 4, *size))


@pytest.mark.parametrize(
    ("size", "options"),
    [
        ((9, 8), {"kernel_size": (3, 2), "stride": (1, 2), "padding": (0, 1), "dilation": (2, 1)}),
        ((5, 11), {"kernel_size": (1, 4), "padding": (1, 0)}),
        ((30, 30), {"kernel_size": 3, "padding": 1}),
    ],
)
@pytest.mark.parametrize("channels", [(1, 6), (6, 1), (3, 3)])
def test_convolution_of_two_different_axes(size, options, channels):
    mine, theirs = pair("Conv2d", *channels, **options)
    check_layers(mine, theirs, (2, channels[0], *size))


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3},
        {"kernel_size": 4, "stride": 2, "padding": 1},
        {"kernel_size": 3, "stride": 3, "output_padding": 2, "bias": False},
        {"kernel_size": 3, "dilation": 2, "padding": 2},
        {"kernel_size": 2, "groups": 2, "stride": 2, "padding": 1, "output_padding": 1},
        {"kernel_size": 2, "padding": 1},
    ],
    ids=str,
)
@every(channels=[(4, 2), (4, 8), (32, 2)], size=[(6,), (5, 6)])
def test_transposed_convolution(options, channels, size):
    mine, theirs = pair(f"ConvTranspose{len(size)}d", *channels, **options)
    check_layers(mine, theirs, (2, channels[0], *size))


def test_a_transposed_convolution_undoes_a_shape():
    layer = nn.Conv2d(2, 3, 3, stride=2, padding=1)
    back = nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1)
    x = np.ones((1, 2, 8, 8), np.float32)
    assert back(layer(x)).shape == x.shape


POOLS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 1, "padding": 1},
    {"kernel_size": 2, "stride": 3, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 4, "stride": 3, "padding": 2, "ceil_mode": True},
]


@pytest.mark.parametrize("options", POOLS, ids=str)
@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("MaxPool", {}),
        ("MaxPool", {"dilation": 2}),
        ("AvgPool", {}),
        ("AvgPool", {"count_include_pad": False}),
    ],
)
@every(size=[(7,), (8,), (7, 8), (10, 9)])
def test_pool(kind, more, options, size):
    mine, theirs = pair(f"{kind}{len(size)}d", **options, **more)
    check_layers(mine, theirs, (2, 3, *size))


@every(kind=["Avg", "Max"], output_size=[1, 2, 3, 7, 12], size=[(7,), (12,), (7, 12)])
def test_adaptive_pool(kind, output_size, size):
    if kind == "Max" and output_size > min(size):
        output_size = min(size)
    mine, theirs = pair(f"Adaptive{kind}Pool{len(size)}d", output_size)
    check_layers(mine, theirs, (2, 3, *size))


@pytest.mark.parametrize("output_size", [(1, 3), (None, 2), (4, None)])
def test_adaptive_pool_of_two_different_axes(output_size):
    for kind in ("Avg", "Max"):
        check_layers(*pair(f"Adaptive{kind}Pool2d", output_size), (2, 3, 8, 7))


@pytest.mark.parametrize(
    ("kind", "args", "shape"),
    [
        ("GroupNorm", (2, 6), (3, 6, 4, 5)),
        ("GroupNorm", (6, 6), (3, 6, 4)),
        ("GroupNorm", (1, 6), (3, 6)),
        ("RMSNorm", (6, 1e-5), (3, 6)),
        ("RMSNorm", ((4, 5), 1e-3), (3, 4, 5)),
    ],
)
def test_norm(kind, args, shape):
    mine, theirs = pair(kind, *args)
    for name, parameter in theirs.named_parameters():
        values = RNG.normal(size=parameter.shape)
        setattr(mine, name, nn.Parameter(values))
        with torch.no_grad():
            parameter.copy_(torch.tensor(values))
    check_layers(mine, theirs, shape)


@pytest.mark.parametrize("padding_idx", [None, 2])
def test_embedding(padding_idx):
    mine, theirs = pair("Embedding", 7, 4, padding_idx)
    indices = RNG.integers(0, 7, (5, 3))
    indices[0] = 2
    check(mine(indices), theirs(torch.tensor(indices)), [mine.weight], [theirs.weight])


# -- attention --------------------------------------------------------------------------------


def attention_pair(embed_dim, num_heads, bias=True):
    mine = nn.MultiheadAttention(embed_dim, num_heads, bias=bias).to(dtype="float64").initialize(0)
    theirs = torch.nn.MultiheadAttention(embed_dim, num_heads, bias=bias, batch_first=True).double()
    copy_attention(mine, theirs)
    return mine, theirs


def copy_attention(mine, theirs):
    """Give PyTorch's attention our weights, and both the same biases."""
    copy_linear(mine.in_projection, theirs.in_proj_weight, theirs.in_proj_bias)
    copy_linear(mine.out_projection, theirs.out_proj.weight, theirs.out_proj.bias)


def copy_linear(mine, weight, bias):
    with torch.no_grad():
        weight.copy_(torch.tensor(mine.weight.numpy().T))
        if bias is not None:
            mine.bias = nn.Parameter(RNG.normal(size=bias.shape))
            bias.copy_(torch.tensor(mine.bias.numpy()))


def sequences(*shapes):
    values = [RNG.normal(size=shape) for shape in shapes]
    return [Tensor(v, requires_grad=True) for v in values], [
        torch.tensor(v, requires_grad=True) for v in values
    ]


MASKS = [None, "flags", "per sample", "numbers"]


def masks(kind, n, heads, queries, keys):
    """Return our mask, and PyTorch's, in which True masks out."""
    if kind is None:
        return None, None
    if kind == "numbers":
        values = RNG.normal(size=(queries, keys))
        values[0, 1:] = -np.inf
        return values, torch.tensor(values)
    shape = (queries, keys) if kind == "flags" else (n, queries, keys)
    mine = RNG.random(shape) < 0.7
    mine[..., 0] = True
    theirs = torch.tensor(~mine)
    return mine, theirs if kind == "flags" else theirs.repeat_interleave(heads, 0)


@pytest.mark.parametrize(("kind", "padded"), [*itertools.product(MASKS, [False, True])])
@every(bias=[True, False], which=["self", "memory", "all"])
def test_attention(which, kind, padded, bias):
    n, heads, queries, keys = 3, 2, 4, 5
    keys = queries if which == "self" else keys
    mine, theirs = attention_pair(6, heads, bias)
    shapes = [(n, queries, 6), (n, keys, 6), (n, keys, 6)][: {"self": 1, "memory": 2, "all": 3}[which]]
    xs, ts = sequences(*shapes)
    mask, their_mask = masks(kind, n, heads, queries, keys)
    real = np.arange(keys) < np.array([[keys], [2], [1]]) if padded else None
    their_padding = None if real is None else torch.tensor(~real)
    if their_padding is not None and kind == "numbers":
        their_padding = torch.zeros(their_padding.shape).double().masked_fill(their_padding, -torch.inf)
    q, k, v = (xs + xs[-1:] * 2)[:3]
    output, weights = mine(q, k, v, mask=mask, key_mask=real, need_weights=True)
    other, their_weights = theirs(
        *(ts + ts[-1:] * 2)[:3],
        attn_mask=their_mask,
        key_padding_mask=their_padding,
        average_attn_weights=False,
    )
    np.testing.assert_allclose(weights.numpy(), their_weights.detach().numpy(), **CLOSE)
    check(output, other, xs, ts)


def test_causal_attention():
    mine, theirs = attention_pair(4, 2)
    xs, ts = sequences((2, 5, 4))
    later = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    check(mine(*xs, is_causal=True), theirs(*ts * 3, attn_mask=later, need_weights=False)[0], xs, ts)


def test_a_query_without_keys_gets_zeros():
    mine, _ = attention_pair(4, 2)
    x = RNG.normal(size=(2, 3, 4))
    real = np.array([[True, True, False], [False, False, False]])
    output, weights = mine(x, key_mask=real, need_weights=True)
    assert (weights.numpy()[1] == 0).all()
    np.testing.assert_allclose(output.numpy()[1], np.tile(mine.out_projection.bias.numpy(), (3, 1)), **CLOSE)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("padded", [True, False])
def test_transformer_layer(norm_first, activation, padded):
    mine = nn.TransformerEncoderLayer(6, 2, 5, 0.0, activation, norm_first).to(dtype="float64").initialize(0)
    theirs = torch.nn.TransformerEncoderLayer(
        6, 2, 5, 0.0, activation, batch_first=True, norm_first=norm_first, dtype=torch.float64
    )
    copy_attention(mine.attention, theirs.self_attn)
    copy_linear(mine.feedforward[0], theirs.linear1.weight, theirs.linear1.bias)
    copy_linear(mine.feedforward[3], theirs.linear2.weight, theirs.linear2.bias)
    xs, ts = sequences((2, 4, 6))
    real = np.arange(4) < np.array([[4], [2]])
    output = mine(*xs, key_mask=real if padded else None)
    other = theirs(*ts, src_key_padding_mask=torch.tensor(~real) if padded else None)
    check(output, other, xs, ts)


def test_the_encoder_is_its_layers_one_after_the_other():
    encoder = nn.TransformerEncoder(2, 4, 2, dropout=0.0).to(dtype="float64").initialize(0)
    x = RNG.normal(size=(2, 3, 4))
    first, second = encoder.layers
    assert not np.array_equal(
        first.attention.in_projection.weight.numpy(), second.attention.in_projection.weight.numpy()
    )
    expected = encoder.norm(second(first(x, is_causal=True), is_causal=True))
    np.testing.assert_array_equal(encoder(x, is_causal=True).numpy(), expected.numpy())


def test_attention_function_hides_rows_without_keys():
    q = RNG.normal(size=(3, 4))
    mask = np.array([[0.0, -np.inf], [-np.inf, -np.inf], [1.0, 2.0]])
    for each in (mask, np.isfinite(mask)):
        output = ops.scaled_dot_product_attention(q, q[:2], q[:2], each).numpy()
        expected = torch.nn.functional.scaled_dot_product_attention(
            torch.tensor(q)[None], torch.tensor(q[:2])[None], torch.tensor(q[:2])[None], torch.tensor(each)
        )
        np.testing.assert_allclose(output, expected[0].numpy(), **CLOSE)
        assert (output[1] == 0).all()
