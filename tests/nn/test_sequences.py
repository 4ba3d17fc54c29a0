"""Padding of sequences of different lengths."""

import numpy as np
import pytest

from sknet import NetClassifier, nn
from sknet.exceptions import ShapeError
from sknet.nn import pad_sequences


class Last(nn.Module):
    """The last output of a recurrent layer."""

    def __init__(self, n_outputs):
        self.vectors = nn.Embedding(10, 4)
        self.layer, self.head = nn.GRU(4, 4), nn.Linear(4, n_outputs)

    def forward(self, x, lengths=None):
        _, last = self.layer(self.vectors(x), lengths=lengths)
        return self.head(last[-1])


@pytest.mark.parametrize("value", [0, -1])
@pytest.mark.parametrize("maxlen", [None, 2, 6])
def test_ids(maxlen, value):
    sequences = [[5, 3, 8], [2], [], [7, 1]]
    padded, lengths = pad_sequences(sequences, maxlen=maxlen, value=value)
    steps = maxlen or 3
    expected = [(row[:steps] + [value] * steps)[:steps] for row in sequences]
    assert padded.tolist() == expected
    assert padded.dtype == np.int64
    assert lengths.tolist() == [min(len(row), steps) for row in sequences]


def test_steps_with_features():
    rng = np.random.default_rng(0)
    sequences = [rng.normal(size=(n, 2)).astype("f4") for n in (4, 0, 1)]
    padded, lengths = pad_sequences(sequences, value=np.nan)
    assert padded.shape == (3, 4, 2)
    assert padded.dtype == np.float32
    for row, sequence, length in zip(padded, sequences, lengths, strict=True):
        assert np.array_equal(row[:length], sequence)
        assert np.isnan(row[length:]).all()


def test_a_dtype_for_all():
    padded, _ = pad_sequences([[1, 2], [3]], dtype="f4", value=0.5)
    assert padded.dtype == np.float32
    assert padded.tolist() == [[1.0, 2.0], [3.0, 0.5]]
    assert pad_sequences([[1], [0.5, 2.0]])[0].dtype == np.float64


@pytest.mark.parametrize(
    ("sequences", "options", "error", "message"),
    [
        ([], {}, ValueError, "at least one sequence"),
        (
            [[1], 2],
            {},
            ShapeError,
            r"sequences\[1\] must be numbers of shape \('n_steps',\), got 2: one without steps is \[\]",
        ),
        ([["a"], ["b", "c"]], {}, ShapeError, r"sequences\[0\] must be numbers"),
        (
            [np.ones((2, 3)), np.ones((2, 4))],
            {},
            ShapeError,
            r"shape \('n_steps', 3\), got float64 of shape \(2, 4\)",
        ),
        ([[1]], {"maxlen": 0}, ValueError, "maxlen must be at least 1, got 0"),
        ([[1], [1, 2]], {"value": 0.5}, ValueError, "int64 does not hold value=0.5: pass dtype=float"),
        ([[1.5], [1, 2]], {"dtype": int}, ValueError, r"int64 does not hold sequences\[0\]"),
    ],
)
def test_what_is_no_list_of_sequences(sequences, options, error, message):
    with pytest.raises(error, match=message):
        pad_sequences(sequences, **options)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_predictions_do_not_depend_on_the_padding():
    rng = np.random.default_rng(0)
    sequences = [rng.integers(1, 10, n).tolist() for n in rng.integers(1, 6, 30)]
    padded, lengths = pad_sequences(sequences)
    labels = [row[-1] > 5 for row in sequences]
    net = NetClassifier(Last, max_iter=3, random_state=0).fit(padded, labels, lengths=lengths)
    longer, _ = pad_sequences(sequences, maxlen=9, value=3)
    np.testing.assert_allclose(
        net.predict_proba(longer, lengths=lengths), net.predict_proba(padded, lengths=lengths), rtol=1e-5
    )
