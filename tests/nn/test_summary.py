"""The summary of a module's layers and costs, found by a shape pass."""

import contextlib
import tracemalloc
from functools import partial

import numpy as np
import pytest

from sknet import Model, Tensor, nn, ops
from sknet.callbacks import Callback
from sknet.exceptions import ShapeError


def rows(found):
    return {row.path: row for row in found.rows}


def test_a_perceptron():
    net = nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))
    found = nn.summary(net, (64, 784))
    assert [(row.path, row.kind, row.output_shape) for row in found.rows] == [
        ("", "Sequential", (64, 10)),
        ("0", "Linear", (64, 100)),
        ("1", "ReLU", (64, 100)),
        ("2", "Linear", (64, 10)),
    ]
    assert [row.parameters for row in found.rows] == [0, 78500, 0, 1010]
    products = [2 * 64 * 784 * 100, 0, 2 * 64 * 100 * 10]
    per_element = [64 * 100, 64 * 100, 64 * 10]
    assert [row.flops for row in found.rows[1:]] == [
        a + b for a, b in zip(products, per_element, strict=True)
    ]
    assert [row.output_bytes for row in found.rows] == [0, 25600, 25600, 2560]
    assert found.total_parameters == found.trainable_parameters == 79510
    assert found.total_flops == sum(products) + sum(per_element)
    assert found.state_bytes == 79510 * 4
    assert found.input_bytes == 64 * 784 * 4
    assert found.activation_bytes == 25600 * 2 + 2560
    assert str(found) == repr(found)


def test_nothing_is_computed_drawn_or_allocated():
    net = nn.Sequential(nn.Linear(10**6, 10**6), nn.GELU(), nn.Linear(10**6, 10**6))
    shapes = nn.summary(nn.Sequential(nn.Linear(2, 2)), (1, 2))
    assert shapes.total_parameters == 6
    tracemalloc.start()
    found = nn.summary(net, (10**9, 10**6))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1e6
    assert found.total_parameters == 2 * (10**12 + 10**6)
    assert not any(parameter.is_drawn for parameter in net.parameters())
    assert "TiB" in str(found)


def test_frozen_shared_and_buffers():
    shared = nn.Linear(4, 4)
    net = nn.Sequential(shared, nn.BatchNorm(4), shared, nn.Linear(4, 4))
    net[3].weight = net[0].weight
    net[1].requires_grad_(False)
    found = nn.summary(net, (5, 4))
    assert [row.path for row in found.rows] == ["", "0", "1", "3"]
    assert [row.parameters for row in found.rows] == [0, 20, 8, 4]
    assert (found.total_parameters, found.trainable_parameters, found.total_buffers) == (32, 24, 9)
    assert rows(found)["0"].flops == 2 * (2 * 5 * 4 * 4 + 5 * 4)  # called twice
    assert found.state_bytes == (32 + 8) * 4 + 8
    assert "32, of which 24 are trained" in str(found)


def test_modules_of_a_user():
    class Net(nn.Module):
        def __init__(self):
            self.table = np.ones((7, 3), np.float32)
            self.inner = nn.Linear(3, 2)
            self.unused = nn.Linear(3, 2)

        def forward(self, pair, scale):
            x, y = pair
            return {"sum": ops.concat([x, y]) @ self.table * scale, "inner": self.inner(y[:, :3])}

    found = nn.summary(Net(), [(5, 7), Tensor(np.zeros((5, 7)))], 2.0)
    assert rows(found)[""].output_shape == {"sum": (10, 3), "inner": (5, 2)}
    assert rows(found)[""].flops == 2 * 10 * 7 * 3 + 30
    assert rows(found)["unused"].output_shape is None
    assert rows(found)["unused"].parameters == 8
    assert rows(found)["inner"].output_bytes == 5 * 2 * 8  # y is float64
    assert "(unused): Linear  -" in str(found)


def test_modules_that_pass_inputs_through_cost_nothing():
    net = nn.Sequential(nn.Identity(), nn.Flatten(), nn.Dropout(0.5))
    found = nn.summary(net, (5, 2, 3))
    assert found.activation_bytes == 0
    assert rows(found)["1"].output_shape == (5, 6)
    assert nn.summary(net, (5, 2, 3), training=True).activation_bytes == 5 * 6 * 4
    assert found.total_flops == 0


def test_dtypes():
    class Mean(nn.Module):
        def forward(self, x):
            return x.sum(axis=-1)

    wide, narrow = (nn.summary(Mean(), (5, 3), dtype=dtype) for dtype in ("float64", "float32"))
    assert (wide.activation_bytes, narrow.activation_bytes) == (40, 20)
    assert (wide.input_bytes, narrow.input_bytes) == (120, 60)
    assert wide.total_flops == 15


def test_lazy_modules_stay_lazy():
    net = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm())
    found = nn.summary(net, (5, 3))
    assert [row.kind for row in found.rows] == ["Sequential", "Linear", "BatchNorm"]
    assert found.total_parameters == 3 * 4 + 4 + 8
    assert nn.is_lazy(net)


def test_hooks_are_part_of_the_pass():
    net = nn.Sequential(nn.Linear(3, 2))
    net[0].register_forward_hook(lambda module, args, output: ops.concat([output, output], axis=1))
    assert rows(nn.summary(net, (5, 3)))["0"].output_shape == (5, 4)
    assert net([[1.0, 2.0, 3.0]]).shape == (1, 4)


@pytest.mark.filterwarnings("ignore:the training step is not compiled")
def test_a_fit_does_not_look_for_hooks_again_afterwards():
    """Steps that cannot be compiled are tried again when hooks have changed."""
    calls = []

    class Branching(nn.Linear):
        def forward(self, x):
            calls.append(1)
            return super().forward(x) if float(x.sum()) > 0 else x

    class Summarizes(Callback):
        def on_epoch_end(self, fit):
            before = len(calls)
            with contextlib.suppress(Exception):  # its code depends on values
                nn.summary(fit.model.module, (4, 3))
            del calls[before:]

    counts = []
    for callbacks in ([Summarizes()], []):
        calls.clear()
        Model(Branching(3, 1), random_state=0).fit(
            np.ones((8, 3)), np.ones((8, 1)), epochs=5, batch_size=4, callbacks=callbacks
        )
        counts.append(len(calls))
    assert counts[0] == counts[1]


def test_shapes_that_do_not_fit():
    net = nn.Sequential(nn.Linear(3, 2), nn.Linear(3, 2))
    with pytest.raises(ShapeError, match=r"Linear\(3, 2\): expected an input of shape \(..., 3\), got"):
        nn.summary(net, (5, 3))


def test_products_are_counted_as_in_pytorch():
    torch = pytest.importorskip("torch")
    flop_counter = pytest.importorskip("torch.utils.flop_counter")
    twin = torch.nn.Sequential(torch.nn.Linear(7, 5, bias=False), torch.nn.Linear(5, 3, bias=False))
    with flop_counter.FlopCounterMode(display=False) as counter:
        twin(torch.zeros(4, 2, 7))
    net = nn.Sequential(nn.Linear(7, 5, bias=False), nn.Linear(5, 3, bias=False))
    assert nn.summary(net, (4, 2, 7)).total_flops == counter.get_total_flops()


@pytest.mark.parametrize(
    ("name", "weight", "options"),
    [
        ("conv1d", (6, 2, 3), {"groups": 2, "padding": 1}),
        ("conv2d", (6, 4, 3, 2), {"stride": 2, "padding": 1}),
        ("conv_transpose1d", (4, 5, 3), {"stride": 2}),
        ("conv_transpose2d", (4, 3, 3, 2), {"groups": 2, "padding": 1}),
    ],
)
def test_convolutions_are_counted_as_in_pytorch(name, weight, options):
    torch = pytest.importorskip("torch")
    flop_counter = pytest.importorskip("torch.utils.flop_counter")
    shape = (5, 4, *(9, 8)[: len(weight) - 2])
    with flop_counter.FlopCounterMode(display=False) as counter:
        getattr(torch.nn.functional, name)(torch.zeros(shape), torch.zeros(weight), **options)
    layer = nn.Lambda(partial(getattr(ops, name), weight=np.zeros(weight, np.float32), **options))
    assert nn.summary(layer, shape).total_flops == counter.get_total_flops()
