"""Edited safe files: one or two fields of an object get values that its class never wrote.

For every class that a file may name, a field gets a value of another type, or a huge, negative, non-finite,
empty, deeply nested, shared or circular one, a text with code, a name with quotes and line ends, or one that
contradicts other fields: one more or less, another order, another object. What still loads is used as a user
would: represented, called, fitted, continued, frozen, saved, and written as Python and as ONNX; no use ends
in an error of Python that the object had not before. A process of its own does so, so that a crash and a hang
are seen, too. An audit hook fails on code made from a text of the file, a write elsewhere, an import from
outside of a list, a process and a connection.

    python -m tests.fuzz.structured --cases 20000 --seed 0
"""

import importlib.util
import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import tempfile
import traceback
import tracemalloc
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from numpy.random import Generator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer, MinMaxScaler, OrdinalEncoder

import sknet
from sknet import nn, onnx, ops
from sknet.callbacks import Callback
from sknet.exceptions import LoadError
from sknet.files._registry import all_known, stored_name
from sknet.losses import Loss, Quantile
from sknet.model_selection import GridSearchCV, HalvingGridSearchCV, HyperbandSearchCV
from sknet.nn.init import Initializer
from sknet.optim import BaseOptimizer
from sknet.optim.schedules import Schedule
from sknet.persistence import read_any, write
from sknet.tabular import Members, TabularClassifier, TabularRegressor
from tests.fuzz.command import run
from tests.fuzz.estimators import Both
from tests.fuzz.files import LABELS, NAMES, Net, X, Y, originals, paths
from tests.fuzz.guard import MARK, Guard
from tests.project import ROOT
from tests.test_pickling import BASES, made

Document = dict[str, Any]
Place = tuple[Any, ...]
SPARE = 16 << 20
LIMIT = 8 << 30  # bytes of memory of the process, which huge arrays exceed
SECONDS = 2.0  # after which a use is interrupted
HANGS = 90.0  # after which the process is ended
FIRST = (
    *("sknet.estimators.MLPClassifier", "sknet.tabular.TabularClassifier", "sknet.freezing.FrozenPipeline"),
    *("sknet.callbacks.ProgressBar", "sknet.callbacks.TensorBoardLog"),
)
OWN = (Net, Both)
TABLE = np.c_[X.astype(object), LABELS]
STEPS, IMAGES = np.stack([X, -X], axis=1), np.resize(X, (len(X), 1, 4, 4))
ANIMALS = ("fox", "owl", "bear", "wolf", "hare")
ABOUT = [f"the {('red', 'blue')[i % 2]} {ANIMALS[i % 5]} that runs {i} miles" for i in range(len(X))]
# Columns of every kind that an encoder guesses or is told, under names that need quotes.
FRAME = pandas.DataFrame(
    {
        "day": [f"{1 + i}.04.2021" for i in range(len(X))],
        'pr"ice': [f"${i * 700:,}" for i in range(len(X))],
        "p\naid": ["yes" if i % 3 else "no" for i in range(len(X))],
        "user_id": np.arange(len(X)) + 100,
        "about'": ABOUT,
        "city": pandas.Categorical(["Rome", "Bern", None, "Oslo"] * (len(X) // 4)),
        "when": pandas.date_range("2021-01-01", periods=len(X), tz="Europe/Rome"),
        "size": np.where(X[:, 0] > 1, np.nan, X[:, 0]),
    }
)
RAW = (AttributeError, TypeError, LookupError, ArithmeticError, AssertionError)
CODES = [
    f"{MARK}()", f"{MARK}() if %d else 1", f"1; {MARK}()", f'"""\n{MARK}()\n"""', f"'+{MARK}()+'",
    f'"+{MARK}()+"', f"x\n{MARK}()\n#", f"x\n    {MARK}()\n    ", f"{{{MARK}()}}", f"np.add({MARK}())",
    f"\\\n{MARK}()", f"a\r{MARK}()", f"a\x0c{MARK}()", f"\u2028{MARK}()", f"\0{MARK}()", f"lambda: {MARK}()",
    f"]\n{MARK}()\n[", f"),{MARK}(),(", f"x: [{MARK}() for _ in (1,)]", f"\u202e{MARK}()",
    f"__import__('os').system('{MARK}')", "quo'te", 'quo"te', "'''", '"""', "back\\", "\n", "", " ", "\0",
    "\ud800", "ä∂", "a" * 5000, "../up", "%s", "{0}",
]  # fmt: skip
N_CODES = sum(MARK in text for text in CODES)
NUMBERS = [
    *(
        None,
        True,
        False,
        -1,
        0,
        1,
        2,
        7,
        2**15,
        2**31 - 1,
        2**31,
        2**32,
        2**40,
        2**63 - 1,
        2**63,
        2**64,
        2**200,
    ),
    *(-(2**31), -(2**63), -(2**200), 10**400, 0.0, -0.0, 0.5, -0.5, 1e-320, 1e308, -1e308),
    *(float("nan"), float("inf"), float("-inf")),
]


# -- documents of every class -----------------------------------------------------------------------


@cache
def documents() -> list[tuple[str, Document]]:
    """Return kinds and documents of files that together hold every class."""
    found = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder, "it")
        for raw in originals().values():
            path.write_bytes(raw)
            found.append(read_any(path))
        known = {name for _, document in found for name, _ in document.get("objects", ())}
        for cls in sorted(set(filter(is_class, all_known())), key=stored_name):
            if stored_name(cls) in known or stored_name(cls) in BASES:
                continue
            try:
                sknet.save(made(cls), path)
                sknet.load(path)
            except (AssertionError, TypeError, ValueError):  # a part that is never alone in a file
                continue
            found.append(read_any(path))
        for x in others():
            sknet.save(x, path)
            found.append(read_any(path))
    return found


def others() -> list[Any]:
    """Return objects with parts that those of `tests.fuzz.files` do not have."""
    small: dict[str, Any] = {"hidden_layer_sizes": (3,), "max_iter": 2, "random_state": 0}
    inputs = {"words": np.arange(60).reshape(20, 3) % 5, "numbers": X}
    steps, tags = np.stack([X, -X], axis=1), np.stack([LABELS, LABELS], axis=1)
    own = {"max_iter": 2, "random_state": 0}
    both = sknet.NetClassifier(Both, **own).fit(inputs, LABELS)
    tagger = sknet.NetClassifier(nn.LazyLinear(3), **own).fit(steps, tags)
    joined = sknet.MLPRegressor(n_members=2, **small).fit(X, Y)
    again = sknet.MLPRegressor(early_stopping=True, warm_start=True, **small).fit(X, Y)
    simple = make_pipeline(Binarizer(), FunctionTransformer(np.sign), sknet.MLPRegressor(**small)).fit(X, Y)
    levels = ColumnTransformer([("levels", OrdinalEncoder(), [4])])
    ordinal = make_pipeline(levels, sknet.MLPClassifier(**small)).fit(TABLE, LABELS)
    encoded = make_pipeline(sknet.TableEncoder(), sknet.MLPClassifier(**small)).fit(TABLE, LABELS)
    tied = sknet.Autoencoder((3, 2), tied=True, **own).fit(X)
    columns = sknet.MLPClassifier(**small).fit(X, tags)
    stream = (
        sknet.MLPClassifier(**small).partial_fit(X, LABELS, classes=["a", "b", "c"]).partial_fit(X, LABELS)
    )
    rows = sknet.NetTransformer(nn.LazyLinear(2), target="y", code="last", **own).fit(steps, steps[..., :2])
    frozen = [x.freeze() for x in (both, tagger, joined, tied, columns, rows)]
    tabular = TabularRegressor(n_folds=2, budget=0.02, random_state=0)
    ensemble = make_pipeline(MinMaxScaler(), tabular).fit(X, X[:, :2])
    pipelines = map(sknet.freeze, (simple, ordinal, encoded, ensemble))
    texts = np.array([[text] for text in ABOUT], dtype=object)
    words = sknet.TableEncoder(columns={0: "text"}, random_state=0).fit(texts, LABELS)
    made = [both, tagger, joined, tied, again, columns, stream, words, *searches(), *frozen, *pipelines]
    return [*made, *tables(small), *uncertain(small), *named_networks(own)]


def tables(small: dict[str, Any]) -> list[Any]:
    """Return what reads a frame whose columns are guessed: texts as dates, numbers, booleans and words."""
    encoder = sknet.TableEncoder(columns={"user_id": "id", "city": "category"}, random_state=0)
    network = sknet.MLPClassifier(encoder="table", **small).fit(FRAME, LABELS)
    members = {"n_folds": 2, "budget": 0.02, "random_state": 0}
    ensemble = TabularClassifier(**members).fit(FRAME, LABELS)
    pipeline = make_pipeline(sknet.TableEncoder(random_state=0), sknet.MLPRegressor(**small)).fit(FRAME, Y)
    written = [network.freeze(), ensemble.freeze(), sknet.freeze(pipeline)]
    amounts = TabularRegressor(sharp=Members(log_link=True), **members).fit(X, np.exp(Y))
    compared = with_neighbors(members)
    return [encoder.fit(FRAME, LABELS), network, ensemble, amounts, *compared, *written]


def with_neighbors(members: dict[str, Any]) -> list[Any]:
    """Return ensembles of enough rows for neighbors; they are left out where they would have no weight."""
    spread = np.random.default_rng(0).uniform(size=(1000, 4))
    board = (spread[:, :2] // 0.2).sum(axis=1)
    found = [
        TabularClassifier(smooth=None, **members).fit(spread, board % 3),
        TabularRegressor(sharp=None, **members).fit(spread[:, :2], np.sin(9 * spread[:, 0])),
    ]
    assert all("neighbors" in each.mix_ for each in found)
    return found


def uncertain(small: dict[str, Any]) -> list[Any]:
    """Return estimators with units, calibrations, missing targets, failure times and several heads."""
    held_out = {"early_stopping": True, "validation_fraction": 0.5}
    times, numbers = np.c_[np.exp(Y), np.arange(len(Y)) % 2], pandas.DataFrame(X, columns=[*"ab", "'", "\n"])
    constant = np.where(np.arange(4) == 1, 3.0, X)
    both, heads = np.c_[Y, np.where(X[:, 0] > 0, np.nan, Y)], {"size": Y, "kind": LABELS}
    found = [
        sknet.MLPClassifier(calibrate="conformal", **held_out, **small).fit(numbers, LABELS),
        sknet.MLPClassifier(calibrate="temperature", **held_out, **small).fit(X, LABELS),
        sknet.MLPRegressor(calibrate="conformal", **held_out, **small).fit(X, Y),
        sknet.MLPRegressor(loss=Quantile([0.1, 0.5, 0.9]), **small).fit(X, Y),
        sknet.MLPRegressor(scale_target=True, dropout=0.5, **small).fit(X, 1e9 * both),
        sknet.MLPRegressor(loss="gaussian_nll", n_members=2, **small).fit(X, Y),
        *[sknet.MLPRegressor(loss=loss, **small).fit(X, times) for loss in ("cox", "aft")],
        sknet.MultiHeadNet(nn.LazyLinear(4), {"size": "huber", "kind": "log_loss"}, max_iter=2).fit(X, heads),
        sknet.MLPClassifier(sampler="balanced", **small).fit(X, LABELS),
    ]
    stream = sknet.MLPRegressor(**small).partial_fit(constant[:12], Y[:12])
    return [*found, stream, *[each.freeze() for each in found]]


def named_networks(own: dict[str, Any]) -> list[Any]:
    """Return networks by name, with augmented images and sequences of different lengths."""
    narrow = {
        **{name: {"channels": 2, "augment": "shift"} for name in ("conv", "resnet")},
        **{name: {"hidden_size": 3} for name in ("lstm", "gru")},
        **{"tcn": {"channels": 4, "num_layers": 1}, "transformer": {"embed_dim": 4, "num_layers": 1}},
    }
    ragged = [x[: 1 + i % 2] for i, x in enumerate(STEPS)]
    found = []
    for name, arguments in narrow.items():
        rows = IMAGES if name in ("conv", "resnet") else ragged if name == "gru" else STEPS
        net = sknet.NetClassifier(name, **own).set_params(**{f"module__{k}": v for k, v in arguments.items()})
        found.append(net.fit(rows, LABELS))
    return [*found, *[each.freeze() for each in found]]


def searches() -> list[Any]:
    """Return fitted searches of other kinds."""
    estimator = sknet.MLPClassifier((3,), max_iter=2, random_state=0)
    values, common = {"alpha": [1e-4, 0.1], "activation": ["relu", "tanh"]}, {"cv": 2}
    found = [
        GridSearchCV(estimator, values, scoring=["accuracy", "f1_macro"], refit="accuracy", **common),
        HalvingGridSearchCV(estimator, values, random_state=0, **common),
        HyperbandSearchCV(estimator, values, random_state=0, **common),
    ]
    return [search.fit(X, LABELS) for search in found]


def is_class(x: Any) -> bool:
    return isinstance(x, type)


def classes() -> dict[str, type]:
    """Return all classes of sknet that files may name."""
    return {stored_name(each): each for each in all_known() if isinstance(each, type)}


@cache
def places() -> dict[str, list[tuple[int, int]]]:
    """Return where objects of each class are: the numbers of documents, and of objects in them."""
    found = defaultdict(list)
    for i, (_, document) in enumerate(documents()):
        for k, (name, _) in enumerate(document.get("objects", ())):
            found[name].append((i, k))
    return dict(sorted(found.items()))


@cache
def fields() -> list[tuple[str, list[tuple[int, int, Place]]]]:
    """Return the fields of all classes: the name of the class, and where objects have the field."""
    found = defaultdict(list)
    for name, known in places().items():
        for i, k in known:
            for place in paths(documents()[i][1]["objects"][k][1]):
                key = tuple("#" if isinstance(part, int) else part for part in place if part != "dict")
                found[name, key[:3]].append((i, k, place))
    return [(name, known) for (name, _), known in sorted(found.items())]


@cache
def weights() -> tuple[list[str], Any]:
    """Return the classes, and how often each is changed: more often if it has many fields."""
    sizes = {}
    for name, known in places().items():
        sizes[name] = max(sum(1 for _ in paths(documents()[i][1]["objects"][k][1])) for i, k in known[:3])
    shares = np.log2(2 + np.array(list(sizes.values())))
    return list(sizes), shares / shares.sum()


# -- changes ------------------------------------------------------------------------------------------


def pick(rng: Generator, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def walk(rng: Generator, tree: Any) -> Place:
    """Return a random place in the description of an object: a number or text, or anything above one."""
    if rng.random() < 0.6:
        known = [place for place in paths(tree) if not isinstance(at(tree, place), (dict, list))]
        if known:
            return pick(rng, known)
    place: Place = ()
    while isinstance(tree, (dict, list)) and tree and (not place or rng.random() < 0.75):
        key = pick(rng, list(tree) if isinstance(tree, dict) else range(len(tree)))
        place, tree = (*place, key), tree[key]
    return place


def at(tree: Any, place: Place) -> Any:
    for key in place:
        tree = tree[key]
    return tree


def with_value(tree: Any, place: Place, value: Any) -> Any:
    """Return a tree with another value in a place; the rest is shared."""
    if not place:
        return value
    copied = tree.copy()
    copied[place[0]] = with_value(tree[place[0]], place[1:], value)
    return copied


def array(rng: Generator, old: Any) -> Any:
    """Return an array that is like another in some respects."""
    if not isinstance(old, np.ndarray):
        old = np.arange(float(rng.integers(0, 9)))
    old = np.atleast_1d(old)
    edge = [np.nan, np.inf, -1, 0, 2**31, -(2**31), 1e308, 255]
    with np.errstate(all="ignore"):
        return pick(
            rng,
            [
                lambda: old[:0], lambda: old.reshape(-1), lambda: old[..., None], lambda: np.array(old.size),
                lambda: old.reshape(-1)[: old.size // 2], lambda: np.concatenate([old.reshape(-1)] * 2),
                lambda: old.astype(pick(rng, ["?", "i1", "u1", "i2", "i8", "u8", "f2", "f4", "f8", "u4"])),
                lambda: np.full(old.shape, pick(rng, edge)), lambda: -old.astype(float),
                lambda: np.where(rng.random(old.shape) < 0.3, pick(rng, edge), old.astype(float)),
                lambda: np.zeros((int(rng.integers(0, 4)),) * int(rng.integers(0, 5))),
                lambda: np.zeros((0, 2**31)), lambda: np.ones((1,) * 40), lambda: old.T,
            ],
        )()  # fmt: skip


def near(rng: Generator, number: int, old: Any) -> Any:
    """Return a value of the same type that contradicts others: one more, one less, or in another order."""
    if isinstance(old, np.ndarray) and old.ndim and max(old.shape) < 2**20:
        axis = int(rng.integers(old.ndim))
        rows, first = np.arange(old.shape[axis]), old.take(range(min(1, old.shape[axis])), axis)
        return pick(rng, [old.take(rows[:-1], axis), np.concatenate([old, first], axis), np.flip(old, axis)])
    if isinstance(old, str):
        return pick(rng, [old + "x", old[:-1], old.upper()])
    if isinstance(old, (bool, int, float)):
        return not old if isinstance(old, bool) else old + pick(rng, [1, -1])
    if isinstance(old, list):
        return pick(rng, [old[:-1], old[1:], old + old[-1:], old[::-1]])
    if not isinstance(old, dict) or not old:
        return pick(rng, [0, False, [], ""])
    if "object" in old:
        return {"object": int(rng.integers(number + 1))}
    (key, item), *others = old.items()
    return pick(rng, [dict(others), {**old, f"{key}_": item}, dict([*others, (key, item)])])


def nested(rng: Generator) -> Any:
    value: Any = pick(rng, [1, MARK, []])
    for _ in range(int(10 ** rng.uniform(0.5, 2.2))):
        value = pick(rng, [[value], {"tuple": [value]}, {"dict": {"a": value}}])
    return value


def tagged(rng: Generator, number: int, old: Any) -> Any:
    """Return the description of a value: of another kind, of another object, of the object itself."""
    named = pick(rng, [*places(), *NAMES, "sknet.ops.tanh", "sknet.ops.exp"])
    text = pick(rng, CODES)
    inner = [pick(rng, [pick(rng, NUMBERS), text]) for _ in range(int(rng.integers(0, 4)))]
    return pick(
        rng,
        [
            {"object": int(rng.integers(0, number + 3))}, {"object": number}, {"object": number - 1},
            {"class": named}, {"function": named}, {"tuple": inner}, {"set": inner}, {"frozenset": inner},
            {"dict": {text: old}}, {"dict": {}}, {"pairs": [[text, old], [0, old]]},
            {"slice": [*inner, None, 0, 1][:3]}, {"range": [0, pick(rng, [5, 2**20, 2**31]), 1]},
            {"dtype": pick(rng, ["<f4", "|O", "<U9", "<M8[ns]", text])}, {"ellipsis": []}, {"bytes": "00ff"},
            {"device": pick(rng, ["cpu", "meta", "cuda:0", text])}, {"numbers": array(rng, old)},
            {"texts": array(rng, old)}, {"texts": np.zeros((2**16, 0), np.uint32)},
            {"complex": array(rng, old)}, {"scalar": array(rng, old)}, {"turned": array(rng, old)},
            {"times": ["M8[ns]", array(rng, old)]}, {"cells": [[len(inner)], inner]},
            {"cells": [[2**31], inner]}, {"masked": [old, array(rng, old), 0]}, {"date": "2026-01-01"},
            {"datetime": text}, {"timedelta": [2**40, 0, 0]},
            {"partial": [{"function": "sknet.ops.tanh"}, inner, {"dict": {}}]},
            {"partial": [{"function": named}, [old], {"dict": {text: old}}]}, {"draw": ["draw", old]},
            {"scorer": text}, {"distribution": [text, inner]}, {text: old},
        ],
    )  # fmt: skip


def value(rng: Generator, number: int, old: Any) -> Any:
    """Return a value for a field, given the number of the object and the value before."""
    if rng.random() < 0.25:
        return near(rng, number, old)
    kind = rng.random()
    if kind < 0.4:
        text = pick(rng, CODES[:N_CODES] if rng.random() < 0.8 else CODES)
        return text if rng.random() < 0.7 or not isinstance(old, str) else old + text
    if kind < 0.55:
        return pick(rng, NUMBERS)
    if kind < 0.65 and isinstance(old, (int, float)):
        return pick(rng, [-old, old + 1, old - 1, old * 1000 + 1, [old], {"tuple": [old, old]}])
    if kind < 0.75:
        return array(rng, old)
    if kind < 0.78:
        return nested(rng)
    if kind < 0.82:
        return pick(rng, [[], {}, [old], [old] * 100, [[]], [None] * 3])
    return tagged(rng, number, old)


def edited(rng: Generator, state: Any, number: int, within: Place = ()) -> Any:
    """Return the description of an object with a change in one place, at or below another."""
    place = (*within, *walk(rng, at(state, within))) if rng.random() < 0.5 else within or walk(rng, state)
    old = at(state, place)
    way = rng.random()
    if way < 0.8 or not place:
        return with_value(state, place, value(rng, number, old))
    holder = at(state, place[:-1]).copy()
    key = place[-1]
    if way < 0.86:
        del holder[key]
    elif isinstance(holder, list):
        holder.insert(int(rng.integers(len(holder) + 1)), value(rng, number, old))
    elif way < 0.93:
        holder[pick(rng, [*CODES, "__class__", "predict", "forward", "_hooks", "fit", "__setstate__"])] = old
    else:
        other = pick(rng, list(holder))
        holder[key], holder[other] = holder[other], holder[key]
    return with_value(state, place[:-1], holder)


def edited_document(rng: Generator, seed: int) -> tuple[str, int, Document]:
    """Return the name of the class, the number of a document, and it with a changed object of the class.

    Every second seed has the next field of all, so that each is changed; every 20th, a checkpoint, or the
    value of a file, of which the objects are parts.
    """
    if seed % 20 == 10:
        i = int(rng.integers(len(documents())))
        kind, document = documents()[i]
        if "objects" in document:
            return "value", i, {**document, "value": edited(rng, document["value"], 0)}
        return kind, i, edited(rng, document, 0)
    if seed % 2:
        name, known = fields()[seed // 2 % len(fields())]
        i, k, place = pick(rng, known)
        document = documents()[i][1]
        objects = list(document["objects"])
        objects[k] = [name, edited(rng, objects[k][1], k, place)]
        return name, i, {**document, "objects": objects}
    names, shares = weights()
    name = str(rng.choice(names, p=shares))
    i, k = pick(rng, places()[name])
    document = documents()[i][1]
    objects = list(document["objects"])
    for _ in range(1 if rng.random() < 0.8 else 2):
        objects[k] = [name, edited(rng, objects[k][1], k)]
    return name, i, {**document, "objects": objects}


# -- uses ---------------------------------------------------------------------------------------------


class LateError(BaseException):
    """A use has taken too long; it isn't caught by what catches exceptions."""


def interrupted(*_: Any) -> None:
    raise LateError


def uses(x: Any, folder: Path, path: Path) -> Iterator[Callable[[], Any]]:
    """Yield what a user does with an object from a file."""
    if isinstance(x, dict):  # the state of a fit
        yield lambda: sknet.MLPClassifier((3,), max_iter=3, random_state=0).fit(X, LABELS, resume_from=path)
        return
    given = [each for rows in (X, TABLE, FRAME, STEPS, IMAGES) for each in (rows, rows[:1])]
    yield lambda: (repr(x), str(x))
    yield lambda: x._repr_html_()
    yield lambda: x.summary()
    for rows in given:
        yield lambda rows=rows: x.predict(rows)
        yield lambda rows=rows: x.predict_proba(rows)
        yield lambda rows=rows: x.transform(rows)
        yield lambda rows=rows: x.partial_fit(rows, LABELS[: len(rows)])
    yield lambda: x(X.astype("float32"))
    yield lambda: x(X, {"scale": 2.0, "y": X[0]})
    yield lambda: x.initialize(0)(X.astype("float32"))
    yield lambda: x.step(X, Y[:, None])
    for rows in (X, FRAME):
        yield lambda rows=rows: x.predict_interval(rows, coverage=0.5)
        yield lambda rows=rows: x.predict_set(rows, coverage=0.5)
        yield lambda rows=rows: x.predict_samples(rows, 2)
        yield lambda rows=rows: x.integrated_gradients(rows[:2])
    yield lambda: (x.notes, x.get_feature_names_out(), x.feature_importances_)
    for rows in (X, TABLE, FRAME):
        yield lambda rows=rows: written_as_python(x, folder, rows)
    yield lambda: written_as_python(x.freeze(), folder, X)
    yield lambda: sknet.freeze(x).predict(X[:1])
    yield lambda: sknet.save(x, folder / "again")
    yield lambda: sknet.load(folder / "again", trusted=OWN)
    yield lambda: onnx.export(x, folder / "it.onnx", X.astype("float32"))
    yield lambda: x.export(X.astype("float32"))(X[:1].astype("float32"))
    for rows, y in ((X, LABELS), (X, Y), (TABLE, LABELS), (FRAME, LABELS), (STEPS, LABELS)):
        yield lambda rows=rows, y=y: x.fit(rows, y)
    yield lambda: written_as_python(x.freeze(), folder, X)
    yield lambda: as_part(x)


def as_part(x: Any) -> None:
    """Train with a part of an estimator."""
    small: dict[str, Any] = {"hidden_layer_sizes": (3,), "max_iter": 2, "random_state": 0}
    kinds = {
        Loss: lambda: sknet.MLPRegressor(loss=x, **small),
        BaseOptimizer: lambda: sknet.MLPRegressor(optimizer=x, **small),
        Schedule: lambda: sknet.MLPRegressor(optimizer=sknet.optim.SGD(x), **small),
        Callback: lambda: sknet.MLPRegressor(callbacks=[x], **small),
        Initializer: lambda: sknet.NetRegressor(nn.Sequential(nn.Linear(4, 1, weight_init=x)), max_iter=2),
        nn.Module: lambda: sknet.NetRegressor(x, max_iter=2, random_state=0),
    }
    for kind, make in kinds.items():
        if isinstance(x, kind):
            make().fit(X, Y).freeze().to_python("part.py")


def written_as_python(x: Any, folder: Path, rows: Any) -> None:
    """Write an object as Python, import that, and predict a row and several."""
    path = folder / "written.py"
    x.to_python(path)
    spec = importlib.util.spec_from_file_location("written", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in module.__all__:
        for part in (rows, rows[:1]):
            getattr(module, name)(part)


# -- one case -----------------------------------------------------------------------------------------


OTHER_ARGUMENTS = re.compile(rf"({'|'.join(ops.__all__)})\(\) (takes|missing|got) ")


def is_raw(error: BaseException) -> bool:
    """Tell whether a computation in sknet, and no statement, has raised an error."""
    while error.__cause__ is not None:
        error = error.__cause__
    if OTHER_ARGUMENTS.match(str(error)):  # of a function that a file names in place of the user's
        return False
    last = traceback.extract_tb(error.__traceback__)[-1:]
    is_ours = bool(last) and last[0].filename.startswith(os.path.dirname(sknet.__file__))
    return is_ours and isinstance(error, RAW) and not (last[0].line or "").startswith("raise")


class Trial:
    """Loads and uses edited files, in a process that may end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "inner").mkdir(exist_ok=True)  # "../it" is a file in the folder, too
        os.chdir(folder / "inner")
        sknet.trusted_types()  # imports all of sknet, so that loading imports nothing
        self.guard = Guard(os.path.realpath(folder))
        self.raw: dict[int, str] = {}  # errors of Python, by the number of the use
        signal.signal(signal.SIGALRM, interrupted)
        for name in FIRST:  # without the guard: other packages are imported, in more than `SECONDS`
            i, _ = places()[name][0]
            write(folder / "it", documents()[i][1], documents()[i][0])
            self._use(sknet.load(folder / "it", trusted=OWN), folder / "it")
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))

    def finding(self, seed: int) -> str | None:
        """Return what is wrong with how an edited file is read and used, or None."""
        rng = np.random.default_rng(seed)
        name, i, document = edited_document(rng, seed)
        path = self.folder / "it"
        try:
            write(path, document, documents()[i][0])
        except (TypeError, ValueError, RecursionError):  # no file can hold it
            return None
        self.guard.seen.clear()
        self.raw.clear()
        found = self._judged(path) or (self._raw(i) if name != "value" else None)
        return f"seed {seed}, {name}: {found}" if found else None

    def _judged(self, path: Path) -> str | None:
        x, error = None, None
        tracemalloc.start()
        try:
            with self.guard.on(loading=True):
                x = sknet.load(path, trusted=OWN)
        except LoadError as refused:
            error = refused if str(path) not in str(refused) else None
            x = None
        except BaseException as other:
            error = other
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        most = 2 * path.stat().st_size + SPARE
        if error is not None:
            return f"{type(error).__name__} at load: {error!s:.300}"
        if peak > most:
            return f"{peak} bytes of memory to load {path.stat().st_size}"
        if x is not None and not self.guard.seen:
            with self.guard.on():
                self._use(x, path)
        return "; ".join(self.guard.seen[:3]) or None

    def _raw(self, i: int) -> str | None:
        """Return an error of Python in a use that succeeds with the object of a document as it was."""
        found = self.raw.copy()
        if not found:
            return None
        path, (kind, document) = self.folder / "it", documents()[i]
        write(path, document, kind)
        self._use(sknet.load(path, trusted=OWN), path, failed := set[int]())
        return next((text for number, text in found.items() if number not in failed), None)

    def _use(self, x: Any, path: Path, failed: set[int] | None = None) -> None:
        for number, does in enumerate(uses(x, self.folder, path)):
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, SECONDS)
                    does()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except (Exception, LateError) as error:  # the alarm may ring as it is turned off
                if failed is not None:
                    failed.add(number)
                if is_raw(error):
                    self.raw[number] = f"{type(error).__name__}: {error!s:.200}"
                continue
            if self.guard.seen:
                return


def serve(folder: Path) -> None:
    """Answer seeds on the standard input with findings."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is used may print
    warnings.simplefilter("ignore")
    trial = Trial(folder)
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(trial.finding(int(line))), file=answers, flush=True)


class Worker:
    """The other end of `serve`: starts the process, and again after a crash."""

    def __init__(self) -> None:
        in_memory = Path("/dev/shm")  # files are flushed to disk, which takes longer than all else
        self._folder = tempfile.TemporaryDirectory(dir=in_memory if in_memory.is_dir() else None)
        self._process: subprocess.Popen[str] | None = None

    def __call__(self, seed: int) -> str | None:
        """Return the finding of a seed."""
        process = self._process
        if process is None:
            cache_folder = str(Path(self._folder.name, "cache"))
            command = [sys.executable, "-m", "tests.fuzz.structured", "--serve", self._folder.name]
            process = self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=os.environ | {"SKNET_CACHE_DIR": cache_folder, "PYTHONDONTWRITEBYTECODE": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            if self._answer(process, 10 * HANGS) != "ready":
                raise RuntimeError("the process for edited files cannot start")
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # where it crashed after its last answer
            process.stdin.write(f"{seed}\n")
            process.stdin.flush()
        found = self._answer(process, HANGS)
        if found not in ("crash", "hang"):
            return found
        return f"seed {seed}: {found}, exit status {self._ended(is_killed=found == 'hang')}"

    def _answer(self, process: "subprocess.Popen[str]", seconds: float) -> Any:
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], seconds)[0]:
            return "hang"
        line = process.stdout.readline()
        return json.loads(line) if line else "crash"

    def _ended(self, *, is_killed: bool) -> int:
        process, self._process = self._process, None
        assert process is not None
        if is_killed:
            process.kill()
        with suppress(BrokenPipeError), process:  # closes its pipes, and waits
            pass
        return process.wait()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._ended(is_killed=True)
        self._folder.cleanup()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(Path(sys.argv[2]))
    else:
        worker = Worker()
        try:
            sys.exit(run(worker, __doc__, cases=20_000))
        finally:
            worker.close()
