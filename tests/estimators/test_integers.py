"""Integers of any container and width stay integers where a network needs them."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sknet import Model, NetClassifier, nn

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
IDS = RNG.integers(0, 17, (60, 5))
Y = IDS[:, 0] % 2
FRAME = pd.DataFrame(IDS, columns=list("abcde"))
WIDTHS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

CONTAINERS = {
    "array": lambda kind: IDS.astype(kind),
    "big-endian array": lambda kind: IDS.astype(np.dtype(kind).newbyteorder(">")),
    "array of objects": lambda kind: IDS.astype(kind).astype(object),
    "list of lists": lambda kind: IDS.tolist(),
    "list of arrays": lambda kind: list(IDS.astype(kind)),
    "pandas": lambda kind: FRAME.astype(kind),
    "pandas, nullable": lambda kind: FRAME.astype(kind.replace("u", "U").replace("i", "I")),
    "pandas, Arrow": lambda kind: FRAME.astype(f"{kind}[pyarrow]"),
    "pandas, signed and not": lambda kind: FRAME.astype(
        {"a": kind, "b": "int8", "c": "uint64", "d": "Int16"}
    ),
    "polars, signed and not": lambda kind: pl.DataFrame(IDS.astype(kind)).with_columns(
        pl.nth(1).cast(pl.Int8), pl.nth(2).cast(pl.UInt64)
    ),
    "Arrow, signed and not": lambda kind: pa.table(
        [pa.array(IDS[:, k].astype(to)) for k, to in enumerate([kind, "i1", "u8", "i2", "u4"])],
        names=list("abcde"),
    ),
    "pandas, several widths": lambda kind: FRAME.astype(
        {"a": kind, "b": kind, "c": "uint8", "d": "UInt8", "e": "UInt16"}
    ),
    "pandas, objects": lambda kind: FRAME.astype(object),
    "polars": lambda kind: pl.DataFrame(FRAME.astype(kind)),
    "Arrow": lambda kind: pa.Table.from_pandas(FRAME.astype(kind)),
    "torch": lambda kind: pytest.importorskip("torch").asarray(IDS.astype(kind)),
}  # fmt: skip
NAMES = [pytest.param(name, marks=pytest.mark.oracle) if name == "torch" else name for name in CONTAINERS]


def network() -> NetClassifier:
    return NetClassifier(
        nn.Sequential(nn.Embedding(17, 4), nn.Flatten(), nn.LazyLinear(1)), max_iter=2, random_state=0
    )


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    return network().fit(IDS, Y).predict_proba(IDS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", WIDTHS)
@pytest.mark.parametrize("container", NAMES)
def test_fits_predictions_and_frozen_predictors_read_ids_in_any_container(container, kind, expected):
    ids = CONTAINERS[container](kind)
    fitted = network().fit(ids, Y)
    if "list" in container or "array" in container:
        assert not hasattr(fitted, "feature_names_in_")
    for predictor in (fitted, fitted.freeze(), network().partial_fit(ids, Y, classes=[0, 1]).fit(IDS, Y)):
        np.testing.assert_allclose(predictor.predict_proba(ids), expected, rtol=1e-6)


@pytest.mark.parametrize("kind", WIDTHS)
@pytest.mark.parametrize("container", NAMES)
def test_models_and_their_streams_read_ids_in_any_container(container, kind):
    def trained(ids, stream):
        model = Model(
            nn.Sequential(nn.Embedding(17, 4), nn.Flatten(), nn.Linear(20, 1)),
            loss="squared_error",
            random_state=0,
        )
        if stream:
            model.train([(ids, Y.astype(float))], epochs=2)
        else:
            model.fit(ids, Y.astype(float), epochs=2)
            model.step(ids, Y.astype(float)[:, None])
        return model

    for stream in (False, True):
        ids = CONTAINERS[container](kind)
        np.testing.assert_allclose(
            trained(ids, stream).predict(ids), trained(IDS, stream).predict(IDS), rtol=1e-6
        )


class Both(nn.Module):
    """Two inputs, of which the first is of integers."""

    def __init__(self, n_outputs):
        self.words = nn.Embedding(17, 4)
        self.head = nn.LazyLinear(n_outputs)

    def forward(self, words, numbers):
        return self.head(self.words(words).mean(axis=1) + numbers.mean(axis=1, keepdims=True))


@pytest.mark.parametrize("container", NAMES)
def test_ids_among_several_inputs_may_be_in_any_container(container):
    numbers = RNG.normal(size=(60, 3))
    reference = NetClassifier(Both, max_iter=1, random_state=0).fit({"words": IDS, "numbers": numbers}, Y)
    given = {"words": CONTAINERS[container]("int64"), "numbers": numbers}
    fitted = NetClassifier(Both, max_iter=1, random_state=0).fit(given, Y)
    for predictor in (fitted, fitted.freeze()):
        np.testing.assert_allclose(
            predictor.predict_proba(given),
            reference.predict_proba({"words": IDS, "numbers": numbers}),
            rtol=1e-6,
        )


def test_columns_of_a_frame_for_several_inputs_may_be_nullable():
    named = FRAME.rename(columns=lambda name: f"words__{name}").assign(numbers__0=1.0, numbers__1=0.5)
    plain = NetClassifier(Both, max_iter=1, random_state=0).fit(named, Y)
    nullable = named.astype({name: "Int64" for name in named if name.startswith("words")})
    fitted = NetClassifier(Both, max_iter=1, random_state=0).fit(nullable, Y)
    np.testing.assert_allclose(fitted.predict_proba(nullable), plain.predict_proba(named), rtol=1e-6)


def test_a_missing_id_is_an_error_that_says_so():
    ids = FRAME.astype("Int64")
    ids.iloc[3, 1] = pd.NA
    with pytest.raises(ValueError, match="NaN"):
        network().fit(ids, Y)
    with pytest.raises(ValueError, match="input 'X' contains NaN or infinity: impute or drop such rows"):
        network().fit(IDS, Y).predict(ids)


def test_names_of_columns_are_learned_from_integers_too():
    for frame in (FRAME, FRAME.astype("Int64"), pl.DataFrame(FRAME)):
        assert network().fit(frame, Y).feature_names_in_.tolist() == list("abcde")


def test_integers_become_real_numbers_where_the_network_takes_those():
    net = NetClassifier(nn.Sequential(nn.LazyLinear(1)), max_iter=2, random_state=0)
    expected = net.fit(IDS.astype(float), Y).predict_proba(IDS.astype(float))
    for container in CONTAINERS:
        ids = CONTAINERS[container]("int16")
        np.testing.assert_allclose(net.fit(ids, Y).predict_proba(ids), expected, rtol=1e-4, err_msg=container)
