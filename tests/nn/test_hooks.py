"""Hooks see and replace the values in a module, as in PyTorch."""

import copy
import itertools
import pickle
import warnings

import numpy as np
import pytest

from sknet import Model, Tensor, grad, nn, no_grad, ops
from sknet.callbacks import Callback
from sknet.compile import compile as compiled
from sknet.core import gradients
from sknet.exceptions import CaptureError, ShapeError
from sknet.nn import functional_call

X = np.random.default_rng(0).normal(size=(5, 3))


class Pair(nn.Module):
    """Two inputs, one of them a keyword, and two outputs."""

    def __init__(self):
        self.scale = nn.Parameter(np.array([2.0, 3.0, 4.0]))

    def forward(self, x, y, shift=0.0):
        return {"product": x * y * self.scale, "sum": x + y + shift}


def double(module, args, output=None):
    return args[0] * 2 if output is None else output * 2


# -- forward ------------------------------------------------------------------------------------


def test_forward_hooks_see_and_replace():
    layer, log = nn.Linear(3, 2).initialize(0), []
    expected = layer(X).numpy()
    layer.register_forward_pre_hook(lambda module, args: log.append(("pre", module, args)))
    layer.register_forward_hook(lambda module, args, output: log.append(("post", module, args, output)))
    output = layer(X)
    np.testing.assert_array_equal(output.numpy(), expected)
    assert [entry[:2] for entry in log] == [("pre", layer), ("post", layer)]
    assert log[0][2][0] is X
    assert log[1][3] is output
    layer.register_forward_pre_hook(double)
    layer.register_forward_hook(double)
    layer.register_forward_hook(lambda module, args, output: output + 1)
    weight, bias = layer.weight.numpy(), layer.bias.numpy()
    np.testing.assert_allclose(layer(X).numpy(), 2 * (2 * X @ weight + bias) + 1, rtol=1e-6)


def test_keywords():
    pair, seen = Pair(), []
    pair.register_forward_pre_hook(lambda module, args: seen.append(args))
    pair.register_forward_pre_hook(lambda module, args, kwargs: (args, {"shift": 10.0}), with_kwargs=True)
    pair.register_forward_pre_hook(lambda module, args, kwargs: None, with_kwargs=True)
    pair.register_forward_hook(
        lambda module, args, kwargs, output: {**output, "kwargs": kwargs}, with_kwargs=True
    )
    x = Tensor(X)
    output = pair(x, x, shift=1.0)
    np.testing.assert_allclose(output["sum"].numpy(), 2 * X + 10)
    assert output["kwargs"] == {"shift": 10.0}
    assert seen == [(x, x)]
    pair.register_forward_pre_hook(lambda module, args, kwargs: args, with_kwargs=True)
    with pytest.raises(TypeError, match=r"pre-hook of Pair with with_kwargs=True must return None or \(args"):
        pair(x, x)


def test_handles():
    layer = nn.Identity()
    first, second = layer.register_forward_hook(double), layer.register_forward_hook(double)
    assert (
        layer(
            1,
        )
        == 4
    )
    first.remove()
    first.remove()
    assert layer(1) == 2
    with layer.register_forward_hook(double):
        assert layer(1) == 4
    second.remove()
    assert layer(1) == 1
    assert "_hooks" not in vars(layer)  # a module without hooks is as before
    with pytest.raises(TypeError, match="a hook of Identity must be callable, got int"):
        layer.register_forward_hook(3)


def test_a_hook_may_remove_itself():
    layer, calls = nn.Identity(), []

    def once(module, args, output):
        calls.append(1)
        handle.remove()

    handle = layer.register_forward_hook(once)
    layer(1), layer(1)
    assert calls == [1]


def test_copies_keep_hooks_and_pickles_do_not():
    net = nn.Sequential(nn.Identity())
    handle = net[0].register_forward_hook(double)
    for twin in (net.copy(), copy.copy(net), copy.deepcopy(net)):
        assert twin(1) == 2
        twin[0].register_forward_hook(double)
        assert (twin(1), net(1)) == (4, 2)
    assert pickle.loads(pickle.dumps(net))(1) == 1
    twin = net.copy()
    handle.remove()
    assert (net(1), twin(1)) == (1, 2)


# -- backward -----------------------------------------------------------------------------------


def torch_pair(torch):
    class TorchPair(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor([2.0, 3.0, 4.0], dtype=torch.float64))

        def forward(self, x, y):
            return x * y * self.scale, x + y

    return TorchPair()


class TuplePair(Pair):
    def forward(self, x, y):
        return tuple(super().forward(x, y).values())


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # as it should, where no input needs one
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize(
    ("needs", "used"),
    [
        *itertools.product([(True, True), (True, False)], [(1.0, 1.0), (1.0, None), (None, 1.0)]),
        ((False, False), (1.0, None)),
    ],
)
def test_backward_hooks_as_in_pytorch(needs, replace, used):
    torch = pytest.importorskip("torch")

    def run(pair, inputs, read):
        log = []

        def pre(module, grad_output):
            log.append([read(g) for g in grad_output])
            return tuple(g * 2 for g in grad_output) if replace and None not in used else None

        def post(module, grad_input, grad_output):
            log.append([read(g) for g in (*grad_input, *grad_output)])
            return tuple(None if g is None else g + 1 for g in grad_input) if replace else None

        pair.register_full_backward_pre_hook(pre)
        pair.register_full_backward_hook(post)
        outputs = pair(*inputs)
        sum((o * o).sum() * w for o, w in zip(outputs, used, strict=True) if w is not None).backward()
        return [*log, [read(x.grad) for x in (*inputs, pair.scale)]]

    def read(g):
        return np.zeros(()) if g is None else np.asarray(g.detach())

    ours = run(TuplePair(), [Tensor(X + i, requires_grad=n) for i, n in enumerate(needs)], read)
    theirs = run(torch_pair(torch), [torch.tensor(X + i, requires_grad=n) for i, n in enumerate(needs)], read)
    for mine, yours in zip(ours, theirs, strict=True):
        for a, b in zip(mine, yours, strict=True):
            if a.shape == b.shape:
                np.testing.assert_allclose(a, b, rtol=1e-12)
            else:  # None in one, zeros in the other: no gradient
                assert not np.any([a.any(), b.any()])


def test_gradients_of_gradients_go_through_hooks():
    torch = pytest.importorskip("torch")
    layer = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1)).to(dtype="float64").initialize(0)
    twin = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1)).double()
    twin.load_state_dict({path: torch.tensor(value.T) for path, value in layer.state_dict().items()})
    for net in (layer, twin):
        net[1].register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 3.0,))
        net[2].register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] ** 2,))

    def slope(x):
        return (grad(lambda x: layer(x).sum())(x) ** 2).sum()

    x = torch.tensor(X, requires_grad=True)
    [first] = torch.autograd.grad(twin(x).sum(), x, create_graph=True)
    [second] = torch.autograd.grad((first**2).sum(), x)
    np.testing.assert_allclose(grad(slope)(Tensor(X, requires_grad=True)).numpy(), second.numpy(), rtol=1e-10)


def test_walks_may_repeat_and_stop_halfway():
    layer, log = nn.Tanh(), []
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: log.append(grad_input))
    x = Tensor(X, requires_grad=True)
    middle = x * 1.0
    loss = layer(middle).sum()
    first, second = gradients(loss, [x]), gradients(loss, [x, middle])
    np.testing.assert_array_equal(first[0].numpy(), second[0].numpy())
    assert len(log) == 2


def test_without_gradients_there_is_no_backward():
    layer = nn.Linear(3, 2).initialize(0)
    layer.register_full_backward_hook(lambda *arguments: pytest.fail("called"))
    with no_grad():
        assert not layer(Tensor(X, requires_grad=True)).requires_grad
    assert nn.Identity().requires_grad_(False)(3) == 3


@pytest.mark.parametrize(
    ("kind", "new", "message"),
    [
        ("hook", (Tensor([1.0]),), r"backward hook of Tanh .* shapes \[\(5, 3\)\], got \[\(1,\)\]"),
        ("hook", (None,), r"got \[None\]"),
        ("pre_hook", (), r"backward pre-hook of Tanh .* got \[\]"),
    ],
)
def test_gradients_that_do_not_fit(kind, new, message):
    layer = nn.Tanh()
    getattr(layer, f"register_full_backward_{kind}")(lambda *arguments: new)
    loss = layer(Tensor(X, requires_grad=True)).sum()
    with pytest.raises(ShapeError, match=message):
        loss.backward()


# -- hooks, pure functions and compiled passes ----------------------------------------------------


def test_functional_call_runs_hooks():
    layer, seen = nn.Linear(3, 2).initialize(0), []
    layer.register_forward_hook(lambda module, args, output: seen.append(module.weight.numpy().sum()))
    layer.register_forward_hook(double)
    output, _ = functional_call(layer, {"weight": np.ones((3, 2)), "bias": np.zeros(2)}, X)
    np.testing.assert_allclose(output.numpy(), 2 * X.sum(axis=1, keepdims=True) * np.ones(2))
    assert seen == [6.0]


def test_a_pass_with_hooks_is_not_captured():
    layer = nn.Linear(3, 2).initialize(0)
    values = {path: parameter.numpy() for path, parameter in layer.named_parameters()}

    def forward(values, x):
        return functional_call(layer, values, x)[0]

    compiled(forward, (values, X))
    handle = layer.register_forward_hook(double)
    with pytest.raises(CaptureError, match="Linear has hooks, which Python runs in every pass"):
        compiled(forward, (values, X))
    handle.remove()
    compiled(forward, (values, X))


def fit(model, epochs=2):
    model.fit(X, np.array([0, 1, 0, 1, 0]), epochs=epochs, batch_size=2, shuffle=False)
    return model


def model(loss="log_loss"):
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    return Model(net, loss, random_state=0, dtype="float64")


def test_a_fit_runs_hooks_in_every_step():
    hooked, plain, calls = model(), fit(model()), []
    hooked.module[0].register_forward_hook(lambda module, args, output: calls.append(output.shape))
    with pytest.warns(UserWarning, match="not compiled, which is slower: Linear has hooks"):
        fit(hooked)
    assert calls == [(1, 4), *[(2, 4), (2, 4), (1, 4)] * 2]  # a look at the output is first
    for name, array in plain.parameters.items():
        np.testing.assert_allclose(hooked.parameters[name], array, rtol=1e-9)


def test_a_fit_sees_hooks_that_come_in_between():
    net, calls = model(), []

    class Hooking(Callback):
        def on_epoch_end(self, fit):
            calls.append(0)
            if fit.epoch == 2:
                fit.model.module.register_forward_hook(lambda module, args, output: calls.append(1))

    with pytest.warns(UserWarning, match="Sequential has hooks"):
        net.fit(X, np.array([0, 1, 0, 1, 0]), epochs=4, batch_size=2, callbacks=[Hooking()])
    assert calls == [0, 0, 1, 1, 1, 0, 1, 1, 1, 0]


def test_compiled_predictions_see_hooks_come_and_go():
    net = model("squared_error")  # whose predictions are outputs
    row = X[:1]
    before = net.predict(row)
    with net.module.register_forward_hook(double):
        np.testing.assert_allclose(net.predict(row), 2 * before, rtol=1e-12)
    np.testing.assert_array_equal(net.predict(row), before)


def test_models_keep_hooks_in_copies():
    net, calls = model(), []
    net.module.register_forward_hook(lambda module, args, output: calls.append(1))
    net.copy()(X)
    net.replace(net.state)(X)
    assert calls == [1, 1]
    pickle.loads(pickle.dumps(net))(X)
    assert calls == [1, 1]


def test_hooks_may_compute_with_ops():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).initialize(0)
    net[0].register_forward_hook(lambda module, args, output: ops.clip(output, -0.1, 0.1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert net(X).numpy().max() <= 0.1


def test_gradients_stay_on_their_device(fake_device):
    layer, seen = nn.Linear(3, 2, device=fake_device).initialize(0), []
    layer.register_full_backward_hook(lambda module, found, given: seen.extend([*found, *given]))
    x = Tensor(X.astype("float32"), requires_grad=True, device=fake_device)
    layer(x).sum().backward()
    assert [gradient.device for gradient in (*seen, x.grad)] == [fake_device] * 3
