"""The contract of all layers, with one table row for each; a layer without a row fails."""

import copy
import inspect
import pickle

import numpy as np
import pytest

from sknet import Tensor, nn, ops
from sknet.autograd import gradcheck
from sknet.core import as_tensor, gradients
from sknet.device import Device, MetaArray
from sknet.nn import functional_call
from tests.combinations import every


class EmbeddedSigns(nn.Embedding):
    """An embedding that takes real inputs, as the other layers do."""

    def forward(self, x):
        return super().forward(ops.greater(x, 0).astype("int64"))


class CategoriesOfSigns(nn.CategoryEmbeddings):
    """Embeddings of columns that take real inputs; values above 1.5 are unseen levels."""

    def forward(self, x):
        x = as_tensor(x)
        return super().forward(ops.greater(x, 0).astype("int64") - 2 * ops.greater(x, 1.5).astype("int64"))


class BagOfSigns(nn.EmbeddingBag):
    """A bag of embeddings that takes real inputs; in training the rows are concatenated."""

    def forward(self, x):
        x = ops.greater(x, 0).astype("int64")
        if not self.training:
            return super().forward(x)
        offsets = ops.arange(x.shape[0], device=x.device) * x.shape[1]
        return super().forward(ops.reshape(x, (x.shape[0] * x.shape[1],)), offsets)


class OwnMemory:
    """A decoder that attends to its own reversed input."""

    def forward(self, x, **options):
        x = as_tensor(x)
        return super().forward(x, x[:, ::-1], **options)


class OwnMemoryLayer(OwnMemory, nn.TransformerDecoderLayer):
    pass


class OwnMemoryDecoder(OwnMemory, nn.TransformerDecoder):
    def forward(self, x):
        return super().forward(x, is_causal=True)


# name -> (layer, shape of its input without the first axis)
ROWS = {
    **{name: (kind, (4,)) for name, kind in nn.ACTIVATIONS.items()},
    "LeakyReLU": (lambda: nn.LeakyReLU(0.3), (4,)),
    "GELU tanh": (lambda: nn.GELU("tanh"), (4,)),
    "PReLU of channels": (lambda: nn.PReLU(3), (3, 2)),
    "GLU": (nn.GLU, (4,)),
    "GLU of channels": (lambda: nn.GLU(1), (2, 3)),
    "Linear": (lambda: nn.Linear(4, 3), (4,)),
    "Linear batches": (lambda: nn.Linear(4, 3), (2, 4)),
    "Linear without bias": (lambda: nn.Linear(4, 3, bias=False), (4,)),
    "Linear ntp": (lambda: nn.Linear(4, 3, parametrization="ntp"), (4,)),
    "MonotonicLinear": (lambda: nn.MonotonicLinear([1, 0, -1, 1], 5), (4,)),
    "MonotonicLinear ntp": (
        lambda: nn.MonotonicLinear([-1, 1], [0, 1], bias=False, parametrization="ntp"),
        (3, 2),
    ),
    "PeriodicEmbedding": (lambda: nn.PeriodicEmbedding(3, 2, 4, 0.5, "tanh"), (3,)),
    "PeriodicEmbedding without a map": (lambda: nn.PeriodicEmbedding(2, None, 3, 0.5), (2, 2)),
    "PiecewiseLinearEncoding": (
        lambda: nn.PiecewiseLinearEncoding([[-0.1, 0.1], [-2.5, -0.1, 0.15]]),
        (2,),
    ),
    "PiecewiseLinearEncoding limited": (
        lambda: nn.PiecewiseLinearEncoding([[-3.0, -0.1, 0.1, 3.0]] * 2, 1.0),
        (3, 2),
    ),
    "ParametricActivation": (lambda: nn.ParametricActivation(4), (4,)),
    "ParametricActivation mish": (lambda: nn.ParametricActivation(3, "mish"), (2, 3)),
    "CategoryEmbeddings": (lambda: CategoriesOfSigns([2, 3], [2, 3]), (2,)),
    "EnsembleView": (lambda: nn.EnsembleView(3), (4,)),
    "BatchEnsembleLinear": (lambda: nn.BatchEnsembleLinear(4, 2, 3, "signs"), (3, 4)),
    "BatchEnsembleLinear without bias": (lambda: nn.BatchEnsembleLinear(3, 2, 2, bias=False), (2, 2, 3)),
    "EnsembleLinear": (lambda: nn.EnsembleLinear(4, 2, 3), (3, 4)),
    "EnsembleLinear of members": (lambda: nn.EnsembleLinear(3, 2, 2, reduce=None), (2, 2, 3)),
    "Saturation": (lambda: nn.Saturation([0, 1, -1, 0]), (2, 4)),
    "Scale": (lambda: nn.Scale(4, init=nn.init.Normal(1.0)), (2, 4)),
    "Conv1d": (lambda: nn.Conv1d(2, 4, 3, padding="same", groups=2), (2, 5)),
    "Conv2d": (lambda: nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=1), (2, 5, 4)),
    "Conv2d without bias": (lambda: nn.Conv2d(1, 5, 3, bias=False), (1, 4, 4)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(2, 3, 3, stride=2, output_padding=1), (2, 3)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(2, 2, 3, padding=1, dilation=2), (2, 3, 3)),
    "MaxPool1d": (lambda: nn.MaxPool1d(2), (2, 5)),
    "MaxPool2d": (lambda: nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True), (2, 4, 5)),
    "AvgPool1d": (lambda: nn.AvgPool1d(2, 1), (2, 5)),
    "AvgPool2d": (lambda: nn.AvgPool2d(3, 2, padding=1, count_include_pad=False), (2, 4, 5)),
    "AdaptiveAvgPool1d": (lambda: nn.AdaptiveAvgPool1d(2), (2, 5)),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d((1, None)), (2, 5, 3)),
    "AdaptiveMaxPool1d": (lambda: nn.AdaptiveMaxPool1d(2), (2, 5)),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d(2), (2, 4, 4)),
    "Embedding": (lambda: EmbeddedSigns(3, 4), (2,)),
    "Embedding padding": (lambda: EmbeddedSigns(2, 4, padding_idx=1), (2,)),
    "EmbeddingBag": (lambda: BagOfSigns(3, 4), (5,)),
    "EmbeddingBag sum": (lambda: BagOfSigns(3, 4, "sum", padding_idx=0), (5,)),
    "EmbeddingBag max": (lambda: BagOfSigns(3, 4, "max", padding_idx=1), (5,)),
    "PositionalEncoding": (lambda: nn.PositionalEncoding(dropout=0.2), (3, 5)),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(4, 2, dropout=0.2), (3, 4)),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(4, 2, 3, activation="tanh"), (2, 4)),
    "TransformerEncoderLayer norm last": (
        lambda: nn.TransformerEncoderLayer(4, 2, 3, activation="tanh", norm_first=False),
        (2, 4),
    ),
    "TransformerDecoderLayer": (lambda: OwnMemoryLayer(4, 2, 3, activation="tanh"), (2, 4)),
    "TransformerDecoderLayer norm last": (
        lambda: OwnMemoryLayer(4, 2, 3, activation="tanh", norm_first=False),
        (2, 4),
    ),
    "TransformerDecoder": (lambda: OwnMemoryDecoder(2, 4, 2, 3), (2, 4)),
    "TransformerEncoder": (lambda: nn.TransformerEncoder(2, 4, 2, 3), (2, 4)),
    "Dropout": (lambda: nn.Dropout(0.4), (4,)),
    "Dropout1d": (lambda: nn.Dropout1d(0.4), (3, 2)),
    "Dropout2d": (lambda: nn.Dropout2d(0.4), (3, 2, 2)),
    "RandomShift": (lambda: nn.RandomShift(2), (2, 4, 3)),
    "RandomShift constant": (lambda: nn.RandomShift(1, mode="constant"), (1, 3, 3)),
    "RandomFlip": (lambda: nn.RandomFlip(0.3, axis=-2), (1, 3, 2)),
    "RandomErasing": (lambda: nn.RandomErasing(2), (2, 5, 3)),
    "Mixup": (lambda: nn.Mixup(0.4), (4,)),
    "AlphaDropout": (lambda: nn.AlphaDropout(0.4), (4,)),
    "BatchNorm": (lambda: nn.BatchNorm(4), (4,)),
    "BatchNorm mean": (lambda: nn.BatchNorm(4, momentum=None), (4,)),
    "BatchNorm 4-D": (lambda: nn.BatchNorm(3), (3, 2, 2)),
    "LayerNorm": (lambda: nn.LayerNorm(4), (4,)),
    "RMSNorm": (lambda: nn.RMSNorm((2, 3)), (2, 3)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (4, 3)),
    "LayerNorm two axes": (lambda: nn.LayerNorm((2, 3)), (2, 3)),
    "Flatten": (nn.Flatten, (2, 3)),
    "Flatten some": (lambda: nn.Flatten(-3, -2), (2, 3, 2)),
    "Unflatten": (lambda: nn.Unflatten(1, (2, -1)), (6,)),
    "Softplus sharp": (lambda: nn.Softplus(3.0), (4,)),
    "BatchNorm plain": (lambda: nn.BatchNorm(3, affine=False, track_running_stats=False), (3, 2)),
    "LayerNorm without bias": (lambda: nn.LayerNorm(4, bias=False), (4,)),
    "RMSNorm plain": (lambda: nn.RMSNorm(4, affine=False), (4,)),
    "GroupNorm plain": (lambda: nn.GroupNorm(2, 4, affine=False), (4, 3)),
    "InstanceNorm": (lambda: nn.InstanceNorm(3), (3, 4)),
    "InstanceNorm tracking": (lambda: nn.InstanceNorm(2, affine=True, track_running_stats=True), (2, 3, 2)),
    "Conv1d replicate": (
        lambda: nn.Conv1d(2, 3, 2, padding="same", dilation=3, padding_mode="replicate"),
        (2, 4),
    ),
    "Conv2d reflect": (lambda: nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode="reflect"), (2, 4, 3)),
    "Pad1d": (lambda: nn.Pad1d(((1, 2),), "circular"), (2, 3)),
    "Pad2d": (lambda: nn.Pad2d((1, (0, 2)), "reflect"), (2, 3, 3)),
    "Pad3d": (lambda: nn.Pad3d(1, value=0.5), (2, 2, 1, 2)),
    "Upsample": (lambda: nn.Upsample(scale_factor=2), (2, 3)),
    "Upsample to a size": (lambda: nn.Upsample((3, 5), mode="bilinear"), (2, 4, 3)),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), (4, 3)),
    "ChannelsLast": (nn.ChannelsLast, (4, 3)),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), (8, 2, 3)),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), (2, 4, 2)),
    "RNN": (lambda: nn.RNN(2, 3, returns="sequence"), (4, 2)),
    "RNN relu": (lambda: nn.RNN(2, 3, activation="relu", bias=False, returns="last"), (4, 2)),
    "LSTM": (
        lambda: nn.LSTM(2, 3, num_layers=2, dropout=0.4, bidirectional=True, returns="sequence"),
        (4, 2),
    ),
    "LSTM last": (lambda: nn.LSTM(2, 3, bidirectional=True, returns="last"), (4, 2)),
    "GRU": (lambda: nn.GRU(2, 3, num_layers=2, returns="sequence"), (4, 2)),
    "RNNCell": (lambda: nn.RNNCell(4, 3), (4,)),
    "LSTMCell": (lambda: nn.LSTMCell(4, 3), (4,)),
    "GRUCell": (lambda: nn.GRUCell(4, 3, bias=False), (4,)),
    "Lambda": (lambda: nn.Lambda(ops.exp), (4,)),
    "Parallel": (lambda: nn.Parallel(nn.Linear(4, 3), nn.Tanh()), (4,)),
    "Parallel stack": (lambda: nn.Parallel(nn.ReLU(), nn.Tanh(), reduce="stack", axis=1), (4,)),
    "Parallel mean": (lambda: nn.Parallel(nn.ReLU(), nn.Linear(4, 4), reduce="mean"), (4,)),
    "Parallel product": (lambda: nn.Parallel(nn.ReLU(), nn.Linear(4, 4), reduce="product"), (4,)),
    "Residual": (lambda: nn.Residual(nn.Linear(4, 4)), (4,)),
    "Residual projection": (lambda: nn.Residual(nn.Linear(4, 3), nn.Linear(4, 3, bias=False)), (4,)),
    "Sequential": (lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh()), (4,)),
}
EACH = every(row=ROWS)
MODES = every(training=[True, False])


def setup(row, dtype="float64", n=5):
    """Return the layer and an input without kinks."""
    make, shape = ROWS[row]
    layer = make().to(dtype=dtype).initialize(0)
    rng = np.random.default_rng(0)
    x = rng.uniform(0.2, 2.0, size=(n, *shape)) * rng.choice([-1.0, 1.0], size=(n, *shape))
    return layer, x.astype(dtype)


def call(layer, x, training=True, values=None):
    output, buffers = functional_call(layer, values or {}, x, training=training, key=(0, 1))
    return ops.concat(output, axis=-1) if isinstance(output, tuple) else output, buffers  # an LSTM has two


def test_every_layer_has_a_row():
    public = [value for value in (getattr(nn, name) for name in nn.__all__) if isinstance(value, type)]
    layers = {kind for kind in public if kind.__module__.startswith("sknet.nn.layers.")}
    layers = {
        kind for kind in layers if issubclass(kind, nn.Module) and kind.forward is not nn.Module.forward
    }
    assert layers <= {kind for make, _ in ROWS.values() for kind in type(make()).__mro__}


@pytest.mark.slow
@EACH
@MODES
def test_gradients_of_both_orders(row, training):
    layer, x = setup(row)
    paths = [path for path, _ in layer.named_parameters()]

    def function(x, *values):
        return call(layer, x, training, dict(zip(paths, values, strict=True)))[0]

    assert gradcheck(function, [x, *(parameter.numpy() for parameter in layer.parameters())])


@EACH
@every(training=[True, False], dtype=["float32", "float64"])
def test_dtype_is_kept(row, training, dtype):
    layer, x = setup(row, dtype)
    output, buffers = call(layer, x, training)
    assert output.dtype == np.dtype(dtype) if isinstance(output, Tensor) else output is x
    for path, buffer in layer.named_buffers():
        assert path not in buffers or buffers[path].dtype == buffer.dtype
    inputs = [Tensor(x, requires_grad=True), *layer.parameters()]
    output, _ = call(layer, inputs[0], training)
    for tensor, slope in zip(inputs, gradients(output.sum(), inputs), strict=True):
        assert slope.dtype == np.dtype(dtype)
        assert slope.shape == tensor.shape


@EACH
def test_precisions_agree(row):
    (single, x), (double, _) = setup(row, "float32"), setup(row, "float64")
    expected = call(double, x.astype(np.float64))[0]
    np.testing.assert_allclose(
        Tensor(call(single, x)[0]).numpy(), Tensor(expected).numpy(), rtol=2e-4, atol=2e-5
    )


@EACH
def test_empty_batches(row):
    layer, x = setup(row, n=5)
    full, _ = call(layer, x, training=False)
    empty, _ = call(layer, x[:0], training=False)
    assert empty.shape == (0, *full.shape[1:])


@EACH
@MODES
def test_memory_layout_does_not_matter(row, training):
    layer, x = setup(row)
    expected = Tensor(call(layer, x, training)[0]).numpy()
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]))
    wide[..., ::2] = x
    for other in (wide[..., ::2], np.asfortranarray(x), x[::-1][::-1]):
        np.testing.assert_allclose(
            Tensor(call(layer, other, training)[0]).numpy(), expected, rtol=1e-12, atol=1e-14
        )


@EACH
@MODES
def test_the_input_is_left_alone(row, training):
    layer, x = setup(row)
    before = x.copy()
    call(layer, x, training)
    np.testing.assert_array_equal(x, before)


@EACH
@MODES
def test_shapes_without_data(row, training):
    layer, x = setup(row)
    output, buffers = call(layer, x, training)
    meta = layer.copy().to(device="meta")
    found, updates = call(meta, Tensor(x, device="meta"), training)
    assert found.device == Device("meta")
    assert (found.shape, found.dtype) == (output.shape, output.dtype)
    assert {path: value.shape for path, value in updates.items()} == {
        path: b.shape for path, b in buffers.items()
    }


@EACH
def test_a_layer_is_made_where_it_is_told(row, monkeypatch):
    """Every layer with its own parameters or buffers takes `device`; on meta there is no data."""
    calls, new = [], nn.Module.__new__
    with monkeypatch.context() as patch:
        patch.setattr(
            nn.Module, "__new__", lambda cls, *args, **kwargs: calls.append((cls, args, kwargs)) or new(cls)
        )
        made = ROWS[row][0]()
    kind, args, kwargs = next(call for call in calls if call[0] is type(made))
    state = [*made.parameters(), *made.buffers()]
    if not state or any(isinstance(value, nn.Module) for value in (*args, *kwargs.values())):
        return  # no arrays, or only those of other layers
    assert inspect.signature(kind).parameters["device"].kind is inspect.Parameter.KEYWORD_ONLY
    layer = kind(*args, **kwargs, device="meta")
    there = [*layer.parameters(), *layer.buffers()]
    assert [(x.shape, x.dtype) for x in there] == [(x.shape, x.dtype) for x in state]
    assert all(x.device == Device("meta") and isinstance(x.data, MetaArray) for x in there)


def shapes_of(output):
    return tuple(map(shapes_of, output)) if isinstance(output, tuple) else np.shape(output)


@EACH
@MODES
def test_a_summary_knows_the_output(row, training):
    layer, x = setup(row)
    output, _ = functional_call(layer, {}, x, training=training, key=(0, 1))
    whole = nn.summary(layer, x, training=training).rows[0]
    assert whole.output_shape == shapes_of(output)


@EACH
def test_hooks_change_nothing_by_looking(row):
    layer, x = setup(row)
    inputs = [Tensor(x, requires_grad=True), *layer.parameters()]

    def slopes():
        output = call(layer, inputs[0])[0]
        return [output, *gradients((output * output).sum(), inputs)]

    expected, seen = slopes(), []
    for module in layer.modules():
        module.register_forward_hook(lambda module, args, output: seen.append(module))
        module.register_full_backward_hook(lambda module, found, given: seen.append(module))
    for mine, theirs in zip(slopes(), expected, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-12, atol=1e-14)
    assert layer in seen


@EACH
@MODES
def test_a_pass_is_a_pure_function(row, training):
    layer, x = setup(row)
    before = layer.state_dict()
    first, _ = call(layer, x, training)
    second, _ = call(layer, x, training)
    np.testing.assert_array_equal(Tensor(first).numpy(), Tensor(second).numpy())
    for path, value in layer.state_dict().items():
        np.testing.assert_array_equal(value, before[path])


@EACH
def test_copies_compute_the_same(row):
    layer, x = setup(row)
    expected = Tensor(call(layer, x)[0]).numpy()
    for twin in (layer.copy(), copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert repr(twin) == repr(layer)
        np.testing.assert_array_equal(Tensor(call(twin, x)[0]).numpy(), expected)


@EACH
def test_state_round_trip(row):
    layer, x = setup(row)
    other = ROWS[row][0]().to(dtype="float64")
    other.load_state_dict(layer.state_dict())
    np.testing.assert_array_equal(Tensor(call(other, x)[0]).numpy(), Tensor(call(layer, x)[0]).numpy())
