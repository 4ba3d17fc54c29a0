"""Random pipelines and tables for them."""

import warnings

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

import sknet

ROWS = 60
WORDS = ["ant", "bee", "cat", "dog", "eel"]


def choice(rng, values):
    return values[int(rng.integers(len(values)))]


def scaler(rng):
    made = choice(
        rng,
        [
            lambda: StandardScaler(
                with_mean=choice(rng, [True, False]), with_std=choice(rng, [True, True, False])
            ),
            lambda: MinMaxScaler((-1, 2), clip=choice(rng, [True, False])),
            lambda: MaxAbsScaler(),
            lambda: RobustScaler(with_centering=choice(rng, [True, False])),
            lambda: FunctionTransformer(choice(rng, [None, np.arcsinh, np.tanh])),
        ],
    )
    return made()


def imputer(rng):
    strategy = choice(rng, ["mean", "median", "most_frequent", "constant"])
    return SimpleImputer(
        strategy=strategy,
        fill_value=-7 if strategy == "constant" else None,
        add_indicator=choice(rng, [True, False]),
        keep_empty_features=choice(rng, [True, False]),
    )


def numbers(rng):
    return choice(rng, [lambda: make_pipeline(imputer(rng), scaler(rng)), lambda: imputer(rng)])()


def one_hot(rng):
    handle = choice(rng, ["error", "ignore", "infrequent_if_exist"])
    rare = choice(rng, [{}, {"min_frequency": 10}, {"max_categories": 3}])
    drop = choice(rng, [None, "first", "if_binary"])
    return OneHotEncoder(
        sparse_output=choice(rng, [True, False]),
        handle_unknown=handle,
        drop=drop,
        dtype=choice(rng, [np.float64, np.float32]),
        **rare,
    )


def ordinal(rng):
    rare = choice(rng, [{}, {"min_frequency": 10}, {"max_categories": 3}])
    if choice(rng, [True, False]):
        return OrdinalEncoder(**rare)
    value = choice(rng, [-1, 97])
    return OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=value, **rare)


def filled_in(encoder):
    return make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), encoder)


def finite(encoder):
    """Return an encoder whose output has no NaN."""
    return make_pipeline(encoder, SimpleImputer(strategy="constant", fill_value=-3))


def categories(rng, *, are_words):
    encoder = choice(rng, [lambda: one_hot(rng), lambda: finite(ordinal(rng))])()
    return choice(rng, [encoder, filled_in(encoder)]) if are_words else encoder


def last(rng):
    net = {"hidden_layer_sizes": (choice(rng, [3, 16]),), "max_iter": 2, "random_state": 0}
    net["dtype"] = choice(rng, ["float32", "float64"])
    return choice(
        rng,
        [
            None,
            sknet.MLPClassifier(**net),
            sknet.MLPRegressor(**net),
            TransformedTargetRegressor(sknet.MLPRegressor(**net), transformer=StandardScaler()),
            TransformedTargetRegressor(sknet.MLPRegressor(**net), func=np.log1p, inverse_func=np.expm1),
        ],
    )


def frame(rng, n=ROWS, *, is_seen=True):
    """Return a table of numbers and categories, some of them unseen unless it is for a fit."""
    words = WORDS if is_seen else [*WORDS, "a fox of a longer name"]
    table = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n),
            "size": rng.normal(0, 1, n).astype("float32"),
            "count": rng.integers(0, 9, n),
            "is_on": rng.integers(0, 2, n).astype(bool),
            "animal": rng.choice(np.array(words, dtype=object), n),
            "grade": rng.integers(0, 4 if is_seen else 6, n),
            "place": rng.choice(np.array(["north", "south"], dtype=object), n),
            "note": rng.choice(np.array(["x", "y", None], dtype=object), n),
        }
    )
    table.loc[rng.random(n) < 0.2, "age"] = np.nan
    if choice(rng, [True, False]):
        table.loc[rng.random(n) < 0.2, "animal"] = np.nan
    return table


def random_pipeline(rng, *, by_name):
    """Return an unfitted pipeline for tables from `frame`."""
    names = ["age", "size", "count", "is_on", "animal", "grade", "place", "note"]

    def at(*chosen):
        return list(chosen) if by_name else [names.index(name) for name in chosen]

    parts = [
        ("numbers", numbers(rng), at("age", "size")),
        (
            "animals",
            categories(rng, are_words=True),
            at("animal", "note") if rng.random() < 0.5 else at("animal"),
        ),
        ("grades", categories(rng, are_words=False), at("grade")),
        ("flags", choice(rng, ["passthrough", "drop", StandardScaler()]), at("count", "is_on")),
    ]
    parts = [parts[i] for i in rng.permutation(4)]
    if not by_name and rng.random() < 0.5:
        parts.append(("first", SimpleImputer(), slice(0, 2)))
    weights = choice(rng, [None, {"numbers": 0.5}])
    columns = ColumnTransformer(
        parts,
        remainder=choice(rng, ["drop", OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)]),
        sparse_threshold=choice(rng, [0.0, 0.3, 1.0]),
        transformer_weights=weights,
    )
    steps = [("columns", columns), ("none", choice(rng, [None, "passthrough"]))]
    steps.append(("holes", SimpleImputer(strategy="constant", fill_value=0.0)))
    if rng.random() < 0.5:
        steps.append(("scale", MaxAbsScaler()))
    steps.append(("net", last(rng)))
    return Pipeline(steps)


def fitted(pipeline, X, rng):
    """Return the pipeline, fitted on X."""
    final = pipeline[-1]
    is_classifier = isinstance(final, sknet.MLPClassifier)
    y = rng.choice(["no", "yes", "maybe"], len(X)) if is_classifier else rng.random(len(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pipeline.fit(X, y)
