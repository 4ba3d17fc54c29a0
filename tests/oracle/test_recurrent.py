"""Recurrent layers against PyTorch's, with its weights: values and gradients, in float64."""

import numpy as np
import pytest

from sknet import Tensor, nn
from sknet.core import gradients
from tests.combinations import every

torch = pytest.importorskip("torch", reason="needs PyTorch, a second opinion that sknet does not depend on")

N, STEPS, FEATURES, SIZE = 4, 6, 3, 5
LENGTHS = np.array([3, 6, 1, 4])


def copied(name, theirs, **params):
    """Return our layer with the weights of PyTorch's."""
    ours = getattr(nn, name)(FEATURES, SIZE, **params).to(dtype="float64")
    weights = {key: value.detach().numpy() for key, value in theirs.state_dict().items()}
    state = {}
    for i in range(theirs.num_layers):
        for end in ("", "_reverse") if theirs.bidirectional else ("",):
            at, to = f"_l{i}{end}", f"l{i}{end}"
            state[f"{to}.weight_ih"] = weights["weight_ih" + at].T
            state[f"{to}.weight_hh"] = weights["weight_hh" + at].T
            first, second = weights["bias_ih" + at], weights["bias_hh" + at].copy()
            if name == "GRU":  # the candidate's second bias stays apart
                last = second[-SIZE:].copy()
                second[-SIZE:] = 0
                state[f"{to}.bias"] = np.concatenate([first + second, last])
            else:
                state[f"{to}.bias"] = first + second
    ours.load_state_dict(state)
    return ours


def flat(state):
    return list(state) if isinstance(state, tuple) else [state]


@pytest.mark.parametrize("packed", [False, True], ids=["whole", "packed"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "both"])
@every(layers=[1, 2], name=["RNN", "RNN relu", "LSTM", "GRU"])
def test_values_and_gradients(name, layers, bidirectional, packed):
    torch.manual_seed(0)
    name, _, activation = name.partition(" ")
    params = {"num_layers": layers, "bidirectional": bidirectional}
    theirs = getattr(torch.nn, name)(
        FEATURES, SIZE, batch_first=True, dtype=torch.float64, **params,
        **({"nonlinearity": activation} if activation else {}),
    )  # fmt: skip
    ours = copied(name, theirs, **params, **({"activation": activation} if activation else {}))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, STEPS, FEATURES))
    cells = layers * (1 + bidirectional)
    first = [rng.normal(size=(cells, N, SIZE)) for _ in range(2 if name == "LSTM" else 1)]

    their_x, *their_first = (torch.tensor(a, requires_grad=True) for a in (x, *first))
    given = tuple(their_first) if name == "LSTM" else their_first[0]
    if packed:
        sequence = torch.nn.utils.rnn.pack_padded_sequence(
            their_x, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False
        )
        output, final = theirs(sequence, given)
        output, _ = torch.nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
    else:
        output, final = theirs(their_x, given)
    expected = [output, *flat(final)]
    weights = [rng.normal(size=part.shape) for part in expected]
    sum((part * torch.tensor(w)).sum() for part, w in zip(expected, weights, strict=True)).backward()

    my_x, *my_first = (Tensor(a, requires_grad=True) for a in (x, *first))
    given = tuple(my_first) if name == "LSTM" else my_first[0]
    output, final = ours(my_x, given, lengths=LENGTHS if packed else None)
    found = [output, *flat(final)]
    for mine, their in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine.numpy(), their.detach().numpy(), rtol=1e-9, atol=1e-12)
    total = sum(((part * w).sum() for part, w in zip(found, weights, strict=True)), Tensor(0.0))
    paths, parameters = zip(*ours.named_parameters(), strict=True)
    slopes = gradients(total, [my_x, *my_first, *parameters])
    for slope, leaf in zip(slopes, (their_x, *their_first), strict=False):
        np.testing.assert_allclose(slope.numpy(), leaf.grad.numpy(), rtol=1e-9, atol=1e-12)
    gradient = {key: value.grad.numpy() for key, value in theirs.named_parameters()}
    for path, slope in zip(paths, slopes[1 + len(first) :], strict=True):
        layer, _, kind = path.partition(".")
        their = gradient[f"{'bias_ih' if kind == 'bias' else kind}_{layer}"]
        if kind == "bias" and name == "GRU":
            their = np.concatenate([their, gradient[f"bias_hh_{layer}"][-SIZE:]])
        np.testing.assert_allclose(slope.numpy(), their.T, rtol=1e-9, atol=1e-12)
