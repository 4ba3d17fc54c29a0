"""Errors for arguments of layers in the words of other libraries lead to ours."""

import inspect

import pytest

from sknet import nn
from tests.project import hint_tables, hints

LAYERS = {name: getattr(nn, name) for name in nn.__all__}
LAYERS = {n: c for n, c in LAYERS.items() if isinstance(c, type) and issubclass(c, nn.Module)}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: nn.LSTM(3, 4, batch_first=True),
            "LSTM has no parameter 'batch_first': leave it out: the first",
        ),
        (
            lambda: nn.GRU(3, units=4),
            "GRU has no parameter 'units': use hidden_size.$",
        ),
        (lambda: nn.RNN(3, 4, nonlinearity="relu"), "use activation"),
        (lambda: nn.LSTM(3, 4, return_sequences=True), "use returns"),
        (lambda: nn.Linear(3, 4, use_bias=False), "use bias"),
        (
            lambda: nn.Linear(3, 4, activation="relu"),
            r"put it behind the layer, nn.Sequential\(nn.Linear\(\.\.\.",
        ),
        (lambda: nn.Conv2d(3, filters=4, kernel_size=3), "use out_channels"),
        (lambda: nn.LazyConv2d(4, 3, strides=2), "LazyConv2d has no parameter 'strides': use stride"),
        (lambda: nn.MaxPool2d(pool_size=2), "use kernel_size"),
        (lambda: nn.Dropout(rate=0.5), "use p"),
        (lambda: nn.ReLU(inplace=True), "ReLU has no parameter 'inplace': leave it out"),
        (lambda: nn.Softmax(dim=1), "use axis"),
        (lambda: nn.LayerNorm(3, elementwise_affine=False), "use affine"),
        (lambda: nn.Embedding(input_dim=3, output_dim=4), "use num_embeddings"),
        (lambda: nn.MultiheadAttention(8, 2, batch_first=True), "the first axis is always the samples"),
        (lambda: nn.TransformerEncoderLayer(8, nhead=2), "use num_heads"),
        (lambda: nn.TransformerEncoderLayer(8, 2, dim_feedforward=16), "use feedforward_dim"),
        (lambda: nn.Linear(3, 4, bais=False), "Did you mean 'bias'"),
        (
            lambda: nn.Linear(3),
            "Linear: missing a required argument: 'out_features'. Its parameters are in_feat",
        ),
        (
            lambda: nn.Linear(1, 2, True, 4),
            "Linear: too many positional arguments. Its parameters are in_feat",
        ),
        (lambda: nn.Tanh(3), "Tanh: too many positional arguments. It has none."),
    ],
)
def test_arguments_of_other_libraries(make, message):
    with pytest.raises(TypeError, match=message):
        make()


LAYER = nn.TransformerEncoderLayer(8, 2)


@pytest.mark.parametrize("stack", [nn.TransformerEncoder, nn.TransformerDecoder])
@pytest.mark.parametrize(
    ("args", "kwargs"), [((LAYER, 2), {}), ((LAYER,), {"num_layers": 2}), ((LAYER, 2, nn.LayerNorm(8)), {})]
)
def test_stacks_of_transformers_make_their_layers(stack, args, kwargs):
    with pytest.raises(
        TypeError, match=r"takes no layer: it makes its layers itself, nn\.Transformer..coder\(num"
    ):
        stack(*args, **kwargs)


def test_what_is_suggested_exists():
    parameters = {p for cls in LAYERS.values() for p in inspect.signature(cls).parameters}
    renamed = hints("layer parameters")
    assert {ours for names in renamed.values() for ours in names.split(", ")} <= parameters
    of_classes = {name.removeprefix("layer ") for name in hint_tables() if name.startswith("layer ")}
    assert of_classes - {"parameters"} <= {base.__name__ for cls in LAYERS.values() for base in cls.__mro__}
    assert not [(old, ours) for old, ours in renamed.items() if old in ours.split(", ")]


def test_classes_of_users_keep_the_errors_of_python():
    class Mine(nn.Module):
        def __init__(self, width):
            self.inner = nn.Linear(width, width)

    class Wrong(nn.Linear):
        def __init__(self):
            super().__init__(3, 4, units=5)

    with pytest.raises(TypeError, match=r"Mine.__init__\(\) got an unexpected keyword argument 'units'"):
        Mine(3, units=4)
    with pytest.raises(TypeError, match="unexpected keyword argument 'units'"):
        Wrong()
