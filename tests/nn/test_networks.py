"""Networks by name: what they read, and that padding counts nothing."""

import numpy as np
import pytest

from sknet import nn
from sknet.exceptions import ShapeError

RNG = np.random.default_rng(0)
IMAGES = (nn.ConvNet, nn.ResNet)
SEQUENCES = (nn.RecurrentNet, nn.TransformerNet, nn.TemporalConvNet)


@pytest.mark.parametrize("kind", IMAGES)
def test_the_channels_of_images_may_be_first_last_or_left_out(kind):
    x = RNG.normal(size=(3, 12, 10)).astype(np.float32)
    given = {(12, 10): x, (1, 12, 10): x[:, None], (12, 10, 1): x[..., None]}
    outputs = []
    for shape, images in given.items():
        network = kind(shape, 4, channels=4).initialize(0).eval()
        outputs.append(network(images).numpy())
    assert outputs[0].shape == (3, 4)
    for other in outputs[1:]:
        np.testing.assert_array_equal(other, outputs[0])


@pytest.mark.parametrize("kind", IMAGES)
@pytest.mark.parametrize(("size", "width"), [(3, 4), (6, 8), (12, 16), (40, 16)])
def test_stages_follow_the_size_of_images(kind, size, width):
    network = kind((3, size, size + 2), 2, channels=4, depth=2)
    n_positions = 1
    if kind is nn.ConvNet:
        side = size * 4 // width
        n_positions = min(side, 7) * min((size + 2) * 4 // width, 7)
    assert network.head[-1].weight.shape == (width * n_positions, 2)
    assert network(np.ones((2, 3, size, size + 2), np.float32)).shape == (2, 2)


@pytest.mark.parametrize("make", [
    lambda n: nn.ConvNet((8, 8), 2, depth=n), lambda n: nn.ResNet((8, 8), 2, depth=n),
    lambda n: nn.RecurrentNet((6, 3), 2, num_layers=n), lambda n: nn.TransformerNet((6, 3), 2, num_layers=n),
    lambda n: nn.TemporalConvNet((6, 3), 2, num_layers=n), lambda n: nn.TransformerEncoder(n, 4, 2),
    lambda n: nn.LSTM(3, 4, num_layers=n), lambda n: nn.GRU(3, 4, num_layers=n),
    lambda n: nn.RNN(3, 4, num_layers=n),
])  # fmt: skip
def test_more_layers_than_memory_holds_are_refused(make):
    with pytest.raises(ValueError, match=r"'(depth|num_layers)' parameter .* range \[1, 10000\]"):
        make(2**31)


@pytest.mark.parametrize("kind", IMAGES)
def test_rows_of_pixels_are_no_images(kind):
    with pytest.raises(ShapeError, match=r"X\.reshape\(-1, height, width\)"):
        kind((784,), 10)


def test_augmentations_by_name_and_as_layers():
    network = nn.ConvNet((8, 8), 2, augment=("shift", "flip", nn.RandomErasing(3)))
    assert [type(each) for each in network.augment] == [nn.RandomShift, nn.RandomFlip, nn.RandomErasing]
    assert isinstance(nn.ConvNet((8, 8), 2, augment="crop").augment[0], nn.RandomShift)
    assert isinstance(nn.ConvNet((8, 8), 2, augment="mixup").augment[0], nn.Mixup)
    with pytest.raises(
        ValueError, match=r"'augment' parameter of ConvNet must be a str among .* mean 'flip'"
    ):
        nn.ConvNet((8, 8), 2, augment="flipp")


@pytest.mark.parametrize("kind", SEQUENCES)
@pytest.mark.parametrize(("shape", "n_ids"), [((9,), None), ((9, 3), None), ((9,), 20)])
def test_steps_beyond_the_lengths_count_nothing(kind, shape, n_ids):
    draw = RNG.normal if n_ids is None else lambda size: RNG.integers(0, 20, size)
    x, lengths = draw(size=(3, *shape)), np.array([9, 2, 5])
    network = kind(shape, 2, n_ids=n_ids).to(dtype="float64").initialize(0).eval()
    expected = network(x, lengths=lengths).numpy()
    alone = np.concatenate([network(x[[i], :n]).numpy() for i, n in enumerate(lengths)])
    np.testing.assert_allclose(expected, alone, rtol=1e-9, atol=1e-12)
    other = x.copy()
    other[1, 2:], other[2, 5:] = draw(size=other[1, 2:].shape), draw(size=other[2, 5:].shape)
    np.testing.assert_array_equal(network(other, lengths=lengths).numpy(), expected)
    longer = np.concatenate([x, x[:, :4]], axis=1)
    np.testing.assert_allclose(network(longer, lengths=lengths).numpy(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", SEQUENCES)
def test_ids_above_those_of_the_fit_are_alike(kind):
    network = kind((4,), 2, n_ids=10).eval()
    x = np.array([[1, 2, 10, 3], [1, 2, 999, 3]])
    assert network(x).shape == (2, 2)
    np.testing.assert_array_equal(network(x[:1]).numpy(), network(x[1:]).numpy())
    assert not network.vectors.weight.numpy()[10].any()


@pytest.mark.parametrize("kind", SEQUENCES)
def test_what_is_no_sequence(kind):
    with pytest.raises(ShapeError, match=r"is for sequences, X of shape \(n, steps\)"):
        kind((3, 4, 5), 2)
    with pytest.raises(ShapeError, match=r"reads one sequence, and input_shape has inputs \['a', 'b'\]"):
        kind({"a": (3,), "b": (4,), "lengths": ()}, 2)
