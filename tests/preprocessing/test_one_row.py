"""A single row is encoded as it is among other rows, by one encoder or by several at once."""

import contextlib
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pyarrow import ArrowException

from sknet.preprocessing import TableEncoder
from tests.fuzz.frames import RARE
from tests.fuzz.tables import KINDS

FITTED = pd.DataFrame(
    {
        "n": np.arange(40.0),
        "texts": ["u", "v", "w", "x"] * 10,
        "codes": pd.Categorical([0, 1, 2, 3] * 10),
        "truth": [True, False] * 20,
        "dates": pd.date_range("2020-01-01", periods=40, freq="17h"),
    }
)


def outcome(encoder, rows):
    """Return the outputs, or what an error says without its row and value."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "column '[a-z]+': all levels are unseen, since they are")
            return encoder.transform(rows)
    except (TypeError, ValueError) as error:
        found = re.search("column '[a-z]+'", str(error))
        return type(error), str(error) if found is None else found[0]


@pytest.mark.parametrize("name", ["n", "texts", "codes", "truth", "dates"])
@pytest.mark.parametrize("kind", [*RARE, *(f"drawn {i}" for i in range(12))])
def test_a_row_of_a_frame_is_read_as_it_is_among_others(kind, name):
    """Columns of a frame to encode may have any dtype, whatever that of the fit was."""
    rng = np.random.default_rng(len(kind))
    n = len(FITTED)
    if kind in RARE:
        column = pd.Series(RARE[kind][0](rng, n))
    else:
        column = KINDS[int(kind.split()[1]) % len(KINDS)](np.random.default_rng(int(kind.split()[1])), n)
    without_dates = [each for each in FITTED if each != "dates"]
    for columns in [list(FITTED), *([without_dates] if name != "dates" else [])]:
        encoder = TableEncoder(sparse_output=False, min_count=1).fit(FITTED[columns])
        for rows in containers(FITTED[columns].assign(**{name: column})):
            whole = outcome(encoder, rows)
            if isinstance(whole, tuple):
                assert whole[1] == f"column '{name}'"
                each = (outcome(encoder, rows[i : i + 1]) for i in range(n))
                assert whole in (one for one in each if isinstance(one, tuple))
                continue
            for i in range(0, n, 3):  # texts, codes and truth recur every four rows
                one = outcome(encoder, rows[i : i + 1])
                np.testing.assert_array_equal(one, whole[i : i + 1], err_msg=f"row {i}")


def containers(frame):
    """Yield a frame of pandas, and of polars where that has such columns."""
    yield frame
    unknown = (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError, ArrowException)
    with contextlib.suppress(*unknown):
        frame = pl.from_pandas(frame)
    if isinstance(frame, pl.DataFrame):
        yield frame
