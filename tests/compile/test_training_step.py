"""The whole training step: forward, loss, backward and optimizer in one graph."""

import tracemalloc

import numpy as np
import pytest

from sknet import Model, Tensor, nn
from sknet.compile import compile
from sknet.core import gradients
from sknet.losses import Huber, LogLoss, SquaredError
from sknet.optim import SGD, Adam, AdamW, RMSprop
from tests.compile.helpers import Batches, hyper_arrays, network, training_step
from tests.trees import leaves, map_leaves

OPTIMIZERS = [Adam(1e-2), SGD(0.05, momentum=0.9, nesterov=True), AdamW(1e-2), RMSprop(1e-3, momentum=0.5)]


def compiled_step(module, loss, optimizer, data, **options):
    step = training_step(module, loss, optimizer, data.layout)
    args = (data.flat, data.slots, *data.batch(), hyper_arrays(optimizer, 1, data.dtype))
    compiled = compile(step, args, donate=(0, 1), **options)
    compiled.slots[0][:] = data.flat
    return compiled


def train(compiled, optimizer, data, batches):
    """Run the compiled step on batches, with everything else in the arena destroyed between steps."""
    losses = []
    for count, batch in enumerate(batches, 1):
        compiled.poison()
        flat, slots, loss = compiled(
            compiled.slots[0], compiled.slots[1], *batch, hyper_arrays(optimizer, count, data.dtype)
        )
        losses.append(loss.item())
    return flat, slots, losses


def train_eagerly(sizes, activation, loss, optimizer, data, batches):
    model = Model(
        network(*sizes, activation=activation),
        loss,
        optimizer,
        dtype=data.dtype,
        random_state=0,
        compile=False,
    )
    losses = [model.step(X, y, weight).loss for X, y, weight in batches]
    state = model.state
    flat = np.zeros_like(data.flat)
    data.layout.fill(flat, state.parameters)
    return flat, tuple(state.optimizer.slots.values()), losses


def both(sizes, activation, loss, optimizer, classes, dtype, *, exact, steps=50):
    module = network(*sizes, activation=activation)
    data = Batches(module, optimizer, (32, sizes[0]), classes, dtype)
    batches = [data.batch() for _ in range(steps)]
    compiled = compiled_step(module, loss, optimizer, data, exact=exact)
    expected = train_eagerly(sizes, activation, loss, optimizer, data, batches)
    return leaves(train(compiled, optimizer, data, batches)), leaves(expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda o: type(o).__name__)
@pytest.mark.parametrize(
    ("loss", "outputs", "classes"),
    [(LogLoss(), 3, 3), (LogLoss(), 1, 2), (SquaredError(), 1, 0), (Huber(), 1, 0)],
    ids=["multiclass", "binary", "squared", "huber"],
)
def test_same_bits_as_the_eager_model(loss, outputs, classes, optimizer, dtype):
    found, expected = both((20, 50, outputs), nn.ReLU, loss, optimizer, classes, dtype, exact=True)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "activation", [nn.ReLU, nn.Tanh, nn.GELU, nn.ELU, nn.SiLU, nn.LeakyReLU, nn.Softplus]
)
def test_activations_are_bitwise_identical(activation):
    found, expected = both((7, 16, 9, 3), activation, LogLoss(), Adam(), 3, np.float32, exact=True)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda o: type(o).__name__)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-4), (np.float64, 1e-10)])
@pytest.mark.parametrize(
    ("loss", "outputs", "classes"), [(LogLoss(), 3, 3), (LogLoss(), 1, 2), (SquaredError(), 1, 0)]
)
def test_same_numbers_to_rounding(loss, outputs, classes, optimizer, dtype, tolerance):
    """Rounding errors grow by a factor of some hundred in 50 steps."""
    found, expected = both((20, 50, outputs), nn.Tanh, loss, optimizer, classes, dtype, exact=False)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max())


@pytest.mark.parametrize("exact", [True, False])
def test_large_arrays_go_block_by_block(exact):
    sizes = (100, 300, 250, 5)
    found, expected = both(sizes, nn.ReLU, LogLoss(), Adam(), 5, np.float32, exact=exact, steps=5)
    for a, b in zip(found, expected, strict=True):
        tolerance = 0 if exact else 1e-4
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max())


def prepared(sizes, batch, optimizer=None):
    optimizer = optimizer or Adam()
    module = network(*sizes)
    data = Batches(module, optimizer, (batch, sizes[0]), sizes[-1], np.float32)
    return compiled_step(module, LogLoss(), optimizer, data), module, data


def test_blocks_are_used():
    compiled, *_ = prepared((100, 300, 250, 5), 16)
    assert "in blocks0:" in compiled.source


def test_gradients_are_written_into_the_flat_buffer():
    compiled, *_ = prepared((20, 30, 3), 16)
    [assembled] = [e for e in compiled.graph.equations if e.primitive.name == "assemble"]
    assert all(compiled.plan.is_in_place(assembled, i) for i in range(len(assembled.operands)))
    assert not any(e.primitive.name in ("concat", "scatter_add") for e in compiled.graph.equations)


def test_parameters_and_slots_are_updated_in_place():
    compiled, *_ = prepared((20, 30, 3), 16)
    flat, slots, _ = compiled.result
    assert flat is compiled.slots[0]
    assert all(a is b for a, b in zip(slots, compiled.slots[1], strict=True))
    assert compiled.plan.copies == []


def test_the_arena_is_not_much_larger_than_what_is_live():
    nets = [((20, 100, 2), 32), ((54, 256, 256, 7), 256), ((784, 256, 128, 10), 200), ((9, 3), 1)]
    for sizes, batch in nets:
        plan = prepared(sizes, batch)[0].plan
        assert plan.peak_live <= plan.arena_size <= 1.5 * plan.peak_live


def test_a_step_allocates_no_arrays():
    compiled, _, data = prepared((20, 100, 100, 3), 512)
    compiled(*compiled.slots[:2], *data.batch(), hyper_arrays(Adam(), 1, np.float32))
    tracemalloc.start()
    try:
        before = tracemalloc.take_snapshot()
        peak_before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        compiled.run()
        peak = tracemalloc.get_traced_memory()[1]
        after = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    numpys = tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)
    kept = after.filter_traces([numpys]).compare_to(before.filter_traces([numpys]), "filename")
    assert sum(s.size_diff for s in kept) <= 0
    # Not even one hidden layer's activations, for a moment: only NumPy's buffer of 8192 elements for casts.
    assert peak - peak_before < 512 * 100 * 4 / 2


def state_step(module, loss, optimizer, layout):
    """Return a step that carries buffers and a random stream, too."""

    def step(flat, slots, buffers, count, X, y, hyper):
        flat.requires_grad = True
        values = {name: flat[part].reshape(layout.shapes[name]) for name, part in layout.slices.items()}
        output, updates = nn.functional_call(module, {**values, **buffers}, X, key=(3, 4), step=count)
        mean = loss.values(output, y).mean()
        [gradient] = gradients(mean, [flat])
        delta, slots = optimizer.rule(gradient, flat.detach(), slots, hyper)
        buffers = {name: updates.get(name, value) for name, value in buffers.items()}
        return flat.detach() + delta, slots, {n: b.detach() for n, b in buffers.items()}, count + 1, mean

    return step


@pytest.mark.parametrize("exact", [True, False])
def test_buffers_and_random_streams(exact):
    module = nn.Sequential(
        nn.Linear(8, 16), nn.BatchNorm(16), nn.ReLU(), nn.Dropout(0.3), nn.LayerNorm(16), nn.Linear(16, 3)
    )
    optimizer = SGD(0.05, momentum=0.9)  # Adam would amplify the rounding of zero gradients
    data = Batches(module, optimizer, (32, 8), 3, np.float32)
    buffers = {name: buffer.numpy() for name, buffer in module.named_buffers()}
    step = state_step(module, LogLoss(), optimizer, data.layout)
    args = (data.flat, data.slots, buffers, np.array(0))
    X, y, _ = data.batch()
    first = hyper_arrays(optimizer, 1, np.float32)
    compiled = compile(step, (*args, X, y, first), donate=(0, 1, 2, 3), exact=exact)
    mine = theirs = args
    for count in range(1, 21):
        X, y, _ = data.batch()
        rest = (X, y, hyper_arrays(optimizer, count, np.float32))
        compiled.poison()
        *mine, loss = compiled(*mine, *rest)
        *theirs, expected = step(*map_leaves(lambda x: Tensor(np.array(x)), (*theirs, *rest)))
        theirs = map_leaves(Tensor.numpy, theirs)
        np.testing.assert_allclose(loss, expected.numpy(), rtol=0 if exact else 1e-5)
    for a, b in zip(leaves(mine), leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=0 if exact else 1e-3, atol=0 if exact else 1e-5)
