"""Members of an ensemble: each is a separate linear layer; PyTorch's gradients; messages."""

import numpy as np
import pytest

from sknet import Model, Tensor, nn, ops
from sknet.exceptions import InvalidParameterError, ShapeError

RNG = np.random.default_rng(0)


def randomised(layer):
    layer.to(dtype="float64").initialize(0)
    for parameter in layer.parameters():
        parameter.data = RNG.normal(size=parameter.shape)
    return layer


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("lead", [(5,), (2, 5), (), (0,)])
def test_each_member_of_a_batch_ensemble_is_a_linear_layer(lead, bias):
    torch = pytest.importorskip("torch")
    layer = randomised(nn.BatchEnsembleLinear(3, 2, 4, bias=bias))
    values, slope = RNG.normal(size=(*lead, 4, 3)), RNG.normal(size=(*lead, 4, 2))
    x, tx = Tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    theirs = {name: torch.tensor(p.numpy(), requires_grad=True) for name, p in layer.named_parameters()}
    members = []
    for k in range(4):
        weight = theirs["in_factors"][k][:, None] * theirs["weight"] * theirs["out_factors"][k]
        offset = theirs["bias"][k] if bias else None
        members.append(torch.nn.functional.linear(tx[..., k, :], weight.T, offset))
    expected = torch.stack(members, -2)
    (expected * torch.tensor(slope)).sum().backward()
    out = layer(x)
    ops.sum(out * slope).backward()
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(x.grad.numpy(), tx.grad.numpy(), rtol=1e-10, atol=1e-12)
    for name, parameter in layer.named_parameters():
        np.testing.assert_allclose(
            parameter.grad.numpy(), theirs[name].grad.numpy(), rtol=1e-9, atol=1e-11, err_msg=name
        )


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("reduce", ["mean", None])
@pytest.mark.parametrize("lead", [(5,), (2, 5), (2, 3, 5), (0,)])
def test_a_head_is_a_linear_layer_for_each_member(lead, reduce, bias):
    torch = pytest.importorskip("torch")
    layer = randomised(nn.EnsembleLinear(3, 2, 4, reduce, bias))
    values = RNG.normal(size=(*lead, 4, 3))
    x, tx = Tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    theirs = {name: torch.tensor(p.numpy(), requires_grad=True) for name, p in layer.named_parameters()}
    expected = torch.einsum("...ki,kio->...ko", tx, theirs["weight"])
    expected = expected + theirs["bias"] if bias else expected
    expected = expected.mean(-2) if reduce else expected
    slope = RNG.normal(size=tuple(expected.shape))
    (expected * torch.tensor(slope)).sum().backward()
    out = layer(x)
    ops.sum(out * slope).backward()
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(x.grad.numpy(), tx.grad.numpy(), rtol=1e-10, atol=1e-12)
    for name, parameter in layer.named_parameters():
        np.testing.assert_allclose(
            parameter.grad.numpy(), theirs[name].grad.numpy(), rtol=1e-9, atol=1e-11, err_msg=name
        )


@pytest.mark.parametrize("factors", ["ones", "signs", "normal"])
def test_how_factors_begin(factors):
    layer = nn.BatchEnsembleLinear(50, 2, 40, factors).initialize(0)
    drawn = layer.in_factors.numpy()
    np.testing.assert_array_equal(layer.out_factors.numpy(), np.ones((40, 2)))
    if factors == "ones":
        np.testing.assert_array_equal(drawn, np.ones((40, 50)))
    elif factors == "signs":
        assert set(np.unique(drawn)) == {-1.0, 1.0}
        assert abs(drawn.mean()) < 4 / np.sqrt(drawn.size)
    else:
        assert drawn.std() == pytest.approx(1.0, rel=0.1)


def test_a_view_shows_every_row_to_every_member():
    x = RNG.normal(size=(2, 5, 3))
    np.testing.assert_array_equal(nn.EnsembleView(4)(x).numpy(), np.stack([x] * 4, axis=-2))


@pytest.mark.parametrize("compile", [True, False])
def test_members_of_one_start_stay_one_and_others_differ(compile):
    x = RNG.normal(size=(200, 3)).astype(np.float32)
    y = np.sin(2 * x[:, :1])
    spreads = {}
    for factors in ("ones", "signs"):
        body = [nn.EnsembleView(6), nn.BatchEnsembleLinear(3, 16, 6, factors), nn.ReLU()]
        head = nn.EnsembleLinear(16, 1, 6, init="zeros")
        model = Model(nn.Sequential(*body, head), random_state=0, compile=compile)
        model.fit(x, y, epochs=20, batch_size=50)
        weight = model.module[3].weight.numpy()
        spreads[factors] = np.abs(weight - weight[0]).max()
    assert spreads["ones"] < 1e-6
    assert spreads["signs"] > 1e-2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.BatchEnsembleLinear(0, 2), "'in_features' parameter of BatchEnsembleLinear"),
        (lambda: nn.BatchEnsembleLinear(2, 2, 0), "'n_members' parameter of BatchEnsembleLinear"),
        (lambda: nn.BatchEnsembleLinear(2, 2, 2, "random"), "'factors' parameter of BatchEnsembleLinear"),
        (lambda: nn.EnsembleLinear(2, 0), "'out_features' parameter of EnsembleLinear"),
        (lambda: nn.EnsembleLinear(2, 2, 2, "sum"), "'reduce' parameter of EnsembleLinear"),
        (lambda: nn.EnsembleView(0), "'n_members' parameter of EnsembleView"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(InvalidParameterError, match=message):
        make()


@pytest.mark.parametrize("layer", [nn.BatchEnsembleLinear(3, 2, 4), nn.EnsembleLinear(3, 2, 4)])
@pytest.mark.parametrize("shape", [(5, 3), (4, 2), (5, 3, 3), (3,)])
def test_wrong_input(layer, shape):
    message = r"expected an input of shape \(\.\.\., 4, 3\), got \(.*nn\.EnsembleView\(4\) shows rows"
    with pytest.raises(ShapeError, match=message):
        layer(np.ones(shape))


def test_a_single_number_has_no_members():
    with pytest.raises(ShapeError, match=r"EnsembleView\(2\): expected an input"):
        nn.EnsembleView(2)(1.0)
