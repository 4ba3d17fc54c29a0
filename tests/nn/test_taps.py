"""Outputs of layers inside a network agree with an eager pass with forward hooks."""

import numpy as np
import pytest

from sknet import Tensor, nn, ops
from sknet.exceptions import StateError
from sknet.nn._layer_outputs import Call, Calls, run_to

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3))


class Shared(nn.Module):
    """Registers in another order than it calls, and calls one activation twice."""

    def __init__(self):
        self.act = nn.Tanh()
        self.last = nn.Linear(3, 2)
        self.first = nn.Linear(3, 5)
        self.middle = nn.Linear(5, 3)
        self.unused = nn.Linear(1, 1)

    def forward(self, x):
        return self.last(self.act(self.middle(self.act(self.first(x)))))


class Wrapper(nn.Module):
    """Calls a single module, as many user networks do."""

    def __init__(self, net):
        self.net = net

    def forward(self, x):
        return self.net(x)


class Encoder(nn.Module):
    """Two parts and something in between that is not a module."""

    def __init__(self):
        self.encoder = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm(4), nn.ReLU())
        self.head = nn.Residual(nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()))
        self.twice = nn.ModuleDict({"same": self.encoder})

    def forward(self, x):
        try:
            hidden = self.encoder(x) * 2
        except Exception:  # what ends a pass is not an Exception
            hidden = ops.zeros(())
        return self.head(hidden)


def tuples(x):
    return x, x + 1


NETWORKS = {
    "flat": lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2)),
    "nested": lambda: nn.Sequential(
        nn.Sequential(nn.Linear(3, 4), nn.ReLU()), nn.Sequential(nn.Sequential(nn.Tanh()), nn.Linear(4, 2))
    ),
    "wrapped": lambda: Wrapper(Wrapper(nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1)))),
    "shared": Shared,
    "parts": Encoder,
    "side by side": lambda: nn.Sequential(nn.Parallel(nn.Linear(3, 2), nn.Linear(3, 3)), nn.Linear(5, 1)),
    "alone": lambda: nn.Linear(3, 2),
}
LAYERS = {
    "flat": ["0", "1", "2", "3"],
    "nested": ["0.0", "0.1", "1.0.0", "1.1"],
    "wrapped": ["net.net.0", "net.net.1", "net.net.2"],
    "shared": ["first", "act", "middle", "act", "last"],
    "parts": ["encoder.0", "encoder.1", "encoder.2", "head"],
    "side by side": ["0", "1"],
    "alone": [""],
}


def seen_by_hooks(module, x):
    """Return the outputs of all modules' calls by path, using hooks."""
    outputs = {}
    for path, each in module.named_modules():
        each.register_forward_hook(
            lambda module, args, output, path=path: outputs.setdefault(path, []).append(output.numpy())
        )
    module(x)
    return outputs


def made(name):
    return NETWORKS[name]().to(dtype="float64").initialize(0).eval()


def calls_of(module):
    return Calls(module, lambda twin: twin(X[:1]))


@pytest.mark.parametrize("name", NETWORKS)
def test_indices_count_the_calls_of_the_pass(name):
    module = made(name)
    calls = calls_of(module)
    assert [call.path for call in calls.layers] == LAYERS[name]
    for i, call in enumerate(calls.layers):
        assert calls.find(i) == calls.find(np.int64(i - len(calls.layers))) == call


@pytest.mark.parametrize("name", NETWORKS)
def test_every_call_of_every_module(name):
    module = made(name)
    calls, outputs = calls_of(module), seen_by_hooks(made(name), X)
    for path, found in outputs.items():
        for number, expected in enumerate(found):
            call = calls.find(f"{path}:{number}")
            assert calls.find(f"{path}:{number - len(found)}") == call
            np.testing.assert_array_equal(run_to(module, call, nn.Scope({}), (X,)).numpy(), expected)
            assert calls.shapes[call] == (1, *expected.shape[1:])
        if len(found) == 1:
            assert calls.find(path) == Call(path)


def test_a_shared_module_is_found_by_every_path():
    assert calls_of(made("parts")).find("twice.same.1") == Call("encoder.1")


def test_later_layers_are_not_computed():
    ran = []
    module = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Lambda(lambda x: ran.append(1) or x)).initialize(0)
    run_to(module, Call("1"), nn.Scope({}), (X,))
    assert not ran


def test_a_scope_is_seen_inside():
    """Its parameters and buffers are used, for the layer itself and those before it."""
    module = made("parts")
    places = nn.bindings(module)
    state = module.state_dict()
    values = {path: (9 * RNG.random(value.shape)).astype(value.dtype) for path, value in state.items()}
    other = made("parts")
    other.load_state_dict(values)
    scope = nn.Scope({places[path]: Tensor(value) for path, value in values.items()})
    expected = seen_by_hooks(other, X)
    for path in ("encoder.1", "encoder", "head"):
        np.testing.assert_array_equal(run_to(module, Call(path), scope, (X,)).numpy(), expected[path][0])


def test_user_hooks_run_and_see_the_same_values():
    module = made("flat")
    module[1].register_forward_hook(lambda module, args, output: output * 3)
    module.register_forward_pre_hook(lambda module, args: args[0] * 2)
    expected = np.maximum(2 * X @ module[0].weight.numpy() + module[0].bias.numpy(), 0) * 3
    np.testing.assert_allclose(run_to(module, Call("1"), nn.Scope({}), (X,)).numpy(), expected)


def test_the_network_is_left_alone():
    module = made("parts")
    before = {path: (each, dict(vars(each))) for path, each in module.named_modules()}
    calls_of(module)
    run_to(module, Call("encoder.1"), nn.Scope({}), (X,))
    for path, each in module.named_modules():
        assert before[path] == (each, vars(each))


BAD = [
    ("flat", 4, ValueError, r"there is no layer 4: Sequential has 4, 0: '0' \(Linear\), .*from -4 to 3"),
    ("flat", -5, ValueError, "there is no layer -5"),
    ("flat", True, TypeError, "layer must be a number or the path of a module, .* got True of type bool"),
    ("flat", 1.0, TypeError, "got 1.0 of type float"),
    ("flat", None, TypeError, "got None"),
    (
        "parts",
        "encodr.1",
        ValueError,
        r"there is no layer 'encodr.1' \(did you mean 'encoder.1'\?\): Encoder",
    ),
    (
        "parts",
        "twice",
        ValueError,
        "layer 'twice' has no output: the forward pass of Encoder does not call it",
    ),
    ("shared", "unused", ValueError, "layer 'unused' has no output"),
    ("shared", "act", ValueError, "layer 'act' is called 2 times .* 'act:0' to 'act:1'"),
    ("shared", "act:2", ValueError, "there is no call 'act:2': layer 'act' is called 2 time"),
    ("shared", "act:-3", ValueError, "there is no call 'act:-3'"),
    ("alone", -2, ValueError, r"Linear has no hidden layer, .* its only layer is .*\. Give layer=-1 for"),
]


@pytest.mark.parametrize(("name", "layer", "kind", "message"), BAD)
def test_bad_layers(name, layer, kind, message):
    with pytest.raises(kind, match=message):
        calls_of(made(name)).find(layer)


def test_a_call_that_depends_on_the_input():
    class Sometimes(nn.Module):
        def __init__(self):
            self.act = nn.Tanh()

        def forward(self, x):
            return self.act(x) if x.shape[0] == 1 else x

    module = Sometimes()
    call = calls_of(module).find("act")
    with pytest.raises(StateError, match=r"layer 'act' was not called 1 time\(s\) .* depends on its input"):
        run_to(module, call, nn.Scope({}), (Tensor(X),))


def test_the_output_of_a_pass_that_returns_several_arrays():
    module = nn.Sequential(nn.Lambda(tuples), nn.Lambda(lambda pair: pair[0]))
    calls = Calls(module, lambda twin: twin(Tensor(X)))
    assert calls.shapes[Call("0")] == (4, 3)
    assert len(run_to(module, Call("0"), nn.Scope({}), (Tensor(X),))) == 2
