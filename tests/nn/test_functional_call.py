"""Modules as pure functions: nothing is mutated, and threads do not see each other."""

import threading

import numpy as np
import pytest

from sknet import Tensor, grad, nn
from sknet.core import gradients
from sknet.exceptions import StateError
from sknet.nn import Scope, bindings, functional_call, run
from tests.threads import run_in_threads

X = np.random.default_rng(0).normal(size=(8, 3))


def make_net():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm(4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 1))
    return net.to(dtype="float64").initialize(0)


def values_of(net, shift=0.0):
    return {path: Tensor(parameter.numpy() + shift) for path, parameter in net.named_parameters()}


def test_bindings_have_the_paths_of_parameters_and_buffers():
    net = make_net()
    paths = [path for path, _ in net.named_parameters()] + [path for path, _ in net.named_buffers()]
    assert list(bindings(net)) == paths


def test_it_computes_with_the_values_it_is_given():
    net, other = make_net(), make_net()
    other.load_state_dict(
        {path: value + 0.5 for path, value in other.state_dict().items() if "num" not in path}, False
    )
    state = {path: value for path, value in other.state_dict().items() if "num" not in path}
    output, buffers = functional_call(net, state, X, training=False)
    np.testing.assert_array_equal(output.numpy(), other.eval()(X).numpy())
    assert buffers == {}


def test_missing_values_are_the_modules_own():
    net = make_net().eval()
    output, _ = functional_call(net, {}, X, training=False)
    np.testing.assert_array_equal(output.numpy(), net(X).numpy())


def test_nothing_is_mutated():
    net = make_net()
    before, objects = net.state_dict(), [id(part) for part in (*net.parameters(), *net.buffers())]
    functional_call(net, values_of(net, 0.1), X, key=(0, 0))
    assert net.training
    assert [id(part) for part in (*net.parameters(), *net.buffers())] == objects
    for path, value in net.state_dict().items():
        np.testing.assert_array_equal(value, before[path])


def test_buffers_are_returned_and_can_be_handed_on():
    net, stateful = make_net(), make_net()
    buffers = {}
    for _ in range(3):
        _, buffers = functional_call(net, buffers, X, key=(0, 0))
        stateful(X)
    assert list(buffers) == ["1.running_mean", "1.running_var", "1.num_batches"]
    for path, value in dict(stateful.named_buffers()).items():
        np.testing.assert_array_equal(buffers[path].numpy(), value.numpy())


def test_a_buffer_set_in_a_pass_is_read_back():
    class Counter(nn.Module):
        def __init__(self):
            self.register_buffer("count", np.zeros(()))

        def forward(self, x):
            self.count = self.count + 1.0
            self.count = self.count + 1.0
            return self.count + x, dict(self.named_buffers())["count"]

    net = Counter()
    (output, listed), buffers = functional_call(net, {"count": 5.0}, 0.0)
    assert (output.item(), listed.item(), buffers["count"].item()) == (7.0, 7.0, 7.0)
    assert net.count.item() == 0.0


def test_gradients_flow_to_the_values():
    net = make_net()

    def loss(weight):
        output, _ = functional_call(net, {"0.weight": weight}, X, key=(1, 2))
        return (output * output).sum()

    stateful = make_net()
    stateful.load_state_dict(net.state_dict())
    slope = grad(loss)(Tensor(net[0].weight.numpy()))
    output, _ = functional_call(stateful, {}, X, key=(1, 2))
    [expected] = gradients((output * output).sum(), [stateful[0].weight])
    np.testing.assert_allclose(slope.numpy(), expected.numpy(), rtol=1e-12)
    assert net[0].weight.grad is None


def test_parameters_listed_inside_a_pass_are_the_values():
    class Penalised(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)

        def forward(self, x):
            return sum((parameter.sum() for parameter in self.parameters()), start=x)

    output, _ = functional_call(Penalised(), {"layer.weight": [[2.0]], "layer.bias": [3.0]}, 1.0)
    assert output.item() == 6.0


def test_a_shared_parameter_is_replaced_everywhere():
    net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    net[1].weight = net[0].weight
    output, _ = functional_call(net, {"0.weight": [[3.0]]}, [[1.0]])
    assert output.item() == 9.0


def test_mode():
    net = make_net().eval()
    first, _ = functional_call(net, {}, X, training=True, key=(0, 0))
    second, _ = functional_call(net, {}, X, training=False)
    assert not np.array_equal(first.numpy(), second.numpy())
    assert not net.training


def test_given_values_are_not_drawn_for():
    net = nn.Linear(2, 1)
    functional_call(net, {"weight": np.ones((2, 1)), "bias": np.ones(1)}, np.ones((1, 2)))
    assert not net.weight.is_drawn


def test_arguments():
    class Sum(nn.Module):
        def forward(self, a, b=0.0):
            return a + b

    assert functional_call(Sum(), {}, (Tensor(1.0), 2.0))[0].item() == 3.0
    assert functional_call(Sum(), {}, Tensor(1.0))[0].item() == 1.0


def test_unknown_paths():
    with pytest.raises(
        StateError, match=r"Sequential has no parameter or buffer '0\.wieght' \(did you mean '0\.weight'\?\)"
    ):
        functional_call(make_net(), {"0.wieght": 1.0}, X)


def test_random_layers_need_a_key():
    with pytest.raises(StateError, match=r"given no key for them: pass key=\(seed, stream\)"):
        functional_call(make_net(), {}, X)


def test_the_scope_ends_with_an_error():
    net = make_net()
    with pytest.raises(ValueError, match=r"Linear\(3, 4\): expected an input of shape"):
        functional_call(net, values_of(net, 1.0), np.ones((2, 7)), training=False)
    assert net.training
    assert net[0].weight is next(net.parameters())


def test_nested_calls():
    class Outer(nn.Module):
        def __init__(self):
            self.a = nn.Linear(1, 1, bias=False)
            self.b = nn.Linear(1, 1, bias=False)
            self.inner = nn.Sequential(self.a, self.b)

        def forward(self, x):
            inner, _ = functional_call(self.inner, {"1.weight": [[5.0]]}, x, training=False)
            return inner, self.b(x), self.training

    (inner, outside, training), _ = functional_call(
        Outer(), {"a.weight": [[2.0]], "b.weight": [[3.0]]}, [[1.0]]
    )
    assert inner.item() == 10.0
    assert outside.item() == 3.0
    assert training


def test_a_nested_call_sees_the_buffers_set_before():
    class Outer(nn.Module):
        def __init__(self):
            self.norm = nn.BatchNorm(1)

        def forward(self, x):
            self.norm(x)
            _, buffers = functional_call(self.norm, {}, x)
            return buffers["num_batches"]

    seen, buffers = functional_call(Outer(), {}, X[:, :1])
    assert seen.item() == 2
    assert buffers["norm.num_batches"].item() == 1


def test_a_scope_can_be_prepared_once():
    net = make_net()
    keys = bindings(net)
    scope = Scope({keys[path]: value for path, value in values_of(net).items()}, training=True, key=(3, 4))
    outputs = []
    for step in (0, 1, 0):
        scope.step = step
        outputs.append(run(net, scope, (X,)).numpy())
    assert len(scope.updates) == 3
    np.testing.assert_array_equal(outputs[0], outputs[2])
    assert not np.array_equal(outputs[0], outputs[1])
    expected, _ = functional_call(net, {}, X, key=(3, 4), step=0)
    np.testing.assert_array_equal(outputs[0], expected.numpy())


def test_threads_have_their_own_scopes():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm(4), nn.Linear(4, 1)).to(dtype="float64").initialize(0)
    before = net.state_dict()
    shifts = [0.0, 1.0, 2.0, 3.0]
    expected = [functional_call(net, values_of(net, s), X, training=s > 1)[0].numpy() for s in shifts]
    barrier, failures = threading.Barrier(len(shifts)), []

    def work(i):
        values = values_of(net, shifts[i])
        barrier.wait()
        for _ in range(50):
            output, buffers = functional_call(net, values, X, training=shifts[i] > 1)
            if not np.array_equal(output.numpy(), expected[i]) or bool(buffers) != (shifts[i] > 1):
                failures.append(i)

    run_in_threads(work, [(i,) for i in range(len(shifts))])
    assert failures == []
    for path, value in net.state_dict().items():
        np.testing.assert_array_equal(value, before[path])


def test_a_thread_started_inside_a_pass_sees_the_module_itself():
    seen = []

    class Spy(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter([1.0])

        def forward(self, x):
            thread = threading.Thread(target=lambda: seen.append(self.weight.item()))
            thread.start()
            thread.join()
            return self.weight * x

    functional_call(Spy(), {"weight": [2.0]}, 1.0)
    assert seen == [1.0]
