"""Randomly changed safe files: each loads as the original, or raises a LoadError, without side effects.

Some changes keep the old checksum, as damage does; others write a new one, as an attacker does. An audit hook
observes the loading of a file: nothing is imported, no code executed, no file written and no process started,
and memory stays below twice the file's size.

    python -m tests.fuzz.files --cases 10000 --seed 0
"""

import base64
import datetime
import json
import sys
import tempfile
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.stats import uniform
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MaxAbsScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import sknet
from sknet import nn, ops
from sknet.callbacks import Checkpoint, EarlyStopping
from sknet.compile import Graph, capture
from sknet.exceptions import LoadError
from sknet.graphs import GraphModule
from sknet.model_selection import RandomizedSearchCV
from sknet.optim import EMA, SGD, Adam
from sknet.optim.schedules import Cosine
from sknet.persistence._container import WORDS
from sknet.tabular import TabularClassifier, TabularRegressor
from tests.fuzz.command import run
from tests.fuzz.layout import SUM, apart, deflated, signed, together, with_header, with_metadata, with_text

SPARE = 1 << 20  # bytes that a small file may need: its text is many times as large in Python
# Slots of an optimizer that begin at zero: the system reserves them, and gives no memory until they are used.
RESERVED = dict.fromkeys(("ensemble", "frozen ensemble", "compressed ensemble"), 2.0)  # times the file's size
COMPRESSED = (
    "classifier",
    "regressor",
    "net",
    "frozen",
    "search",
    "ensemble",
    "pipeline",
    "frozen columns",
    "large",
)
LARGE = 1_000_000  # elements
OF_SCIPY = "_attach_argparser_methods"  # of a distribution, from the names of its own parameters
RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 4))
DAY = datetime.datetime(2024, 2, 29, 12)
LABELS = np.array(["a", "b", "c"])[np.arange(20) % 3]
Y = X @ RNG.normal(size=4)
MOMENTS = np.array([DAY, DAY.date(), DAY.time(), DAY - datetime.datetime.min, b"a"] * 4, dtype=object)
HARMFUL = (
    *("os.system", "os.exec", "os.posix_spawn", "os.spawn"),
    *("subprocess.Popen", "socket.connect", "shutil."),
)
PAYLOAD = "__import__('os').system('true')"
NAMES = (
    *("os.system", "builtins.eval", "subprocess.Popen", "posix.system"),
    *("sknet.os.system", "sknet.nn.os.system"),
)


class Net(nn.Module):
    def __init__(self, n_features, n_outputs):
        self.body = nn.Sequential(nn.Linear(n_features, 3), nn.BatchNorm(3), nn.Tanh())
        self.head = nn.Linear(3, n_outputs)

    def forward(self, x):
        return self.head(self.body(x))


def branching(x, options):
    first, last = x[:, [0, 2]], x[..., 1::2]
    joined = ops.concat([first * options["scale"], last + options["y"][:2]], axis=1)
    return {"a": ops.pad(joined, ((0, 0), (1, 1))), "b": (joined.astype("float32"), "text")}


# -- files of every kind -----------------------------------------------------------------------------


def objects() -> dict[str, Any]:
    small = {"hidden_layer_sizes": (3,), "max_iter": 2, "random_state": 0}
    callbacks = [EarlyStopping("loss")]
    classifier = sknet.MLPClassifier(optimizer=EMA(Adam()), callbacks=callbacks, **small).fit(X, LABELS)
    regressor = sknet.MLPRegressor(optimizer=SGD(Cosine(0.1), 0.9), **small).fit(X, Y)
    network = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.GELU(), nn.Conv1d(1, 2, 3).initialize(0))
    model = sknet.Model(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm(3), nn.Linear(3, 1)), random_state=0)
    model.step(X, Y[:, None])
    return {
        "classifier": classifier,
        "regressor": regressor,
        "net": sknet.NetClassifier(Net, max_iter=2, random_state=0).fit(X, LABELS),
        "autoencoder": sknet.Autoencoder((3, 2), max_iter=2, random_state=0).fit(X),
        "unfitted": sknet.NetRegressor(nn.ModuleFactory(Net), loss="huber"),
        "model": model,
        "module": network,
        "drawn later": nn.LSTM(3, 2),
        "state": model.module.state_dict(),
        "frozen": classifier.freeze(),
        "exported": Net(4, 3).export(X.astype("float32")),
        "graph": capture(branching, X, {"scale": 2.0, "y": X[0]}),
        "search": search(small),
        "pipeline": make_pipeline(StandardScaler(), sknet.MLPClassifier(**small)).fit(X, LABELS),
        **tables(small),
        "large": nn.Linear(300, 500).initialize(0),
    }


def search(small: dict[str, Any]) -> Any:
    estimator, values = sknet.MLPClassifier(**small), {"alpha": uniform(1e-4, 1.0)}
    return RandomizedSearchCV(estimator, values, n_iter=2, cv=2, random_state=0).fit(X, LABELS)


def tables(small: dict[str, Any]) -> dict[str, Any]:
    """Return what reads tables, and frozen pipelines."""
    rows = np.c_[np.where(np.abs(X) > 2, np.nan, X).astype(object), LABELS]
    encoded = sknet.MLPClassifier(encoder="table", **small).fit(rows, LABELS)
    members = {"n_folds": 2, "budget": 0.02, "random_state": 0}
    ensemble = TabularClassifier(**members).fit(rows, LABELS)
    numbers = make_pipeline(SimpleImputer(add_indicator=True), KBinsDiscretizer(3), MaxAbsScaler())
    columns = ColumnTransformer([("numbers", numbers, slice(0, 4)), ("words", OneHotEncoder(), [4])])
    powers = PowerTransformer(method="box-cox")
    union = FeatureUnion(
        [("a", PCA(2)), ("b", QuantileTransformer(n_quantiles=5)), ("c", PowerTransformer())]
    )
    features = make_pipeline(union, PolynomialFeatures(2), SelectKBest(k=4), sknet.MLPRegressor(**small))
    target = TransformedTargetRegressor(features, transformer=StandardScaler())
    return {
        "encoder": sknet.TableEncoder(random_state=0).fit(rows, LABELS),
        "levels": sknet.TableEncoder().fit(np.c_[X[:, :3], MOMENTS], LABELS),
        "encoded": encoded,
        "frozen encoded": encoded.freeze(),
        "ensemble": ensemble,
        "frozen ensemble": TabularRegressor(**members).fit(rows, Y).freeze(),
        "frozen columns": sknet.freeze(
            make_pipeline(columns, sknet.MLPClassifier(**small)).fit(rows, LABELS)
        ),
        "frozen features": sknet.freeze(target.fit(X, Y)),
        "frozen powers": sknet.freeze(make_pipeline(powers, RobustScaler(), Normalizer()).fit(np.exp(X))),
    }


@cache
def originals() -> dict[str, bytes]:
    """Return the bytes of a file of every kind."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {}
        known = objects()
        for name, x in known.items():
            sknet.save(x, Path(folder, "it"))
            found[name] = Path(folder, "it").read_bytes()
        for name in COMPRESSED:
            sknet.save(known[name], Path(folder, "it"), include="predict")
            found[f"compressed {name}"] = Path(folder, "it").read_bytes()
        checkpoint = Checkpoint(Path(folder, "checkpoint"))
        sknet.MLPClassifier((3,), max_iter=2, random_state=0, callbacks=[checkpoint]).fit(X, LABELS)
        found["checkpoint"] = Path(folder, "checkpoint", "last.safetensors").read_bytes()
        return found


# -- changes ------------------------------------------------------------------------------------------

Change = Callable[[Generator, bytes], bytes]
CHANGES: list[Change] = []


def change(times: int) -> Callable[[Change], Change]:
    def register(function: Change) -> Change:
        CHANGES.extend([function] * times)
        return function

    return register


@change(2)
def bits(rng: Generator, raw: bytes) -> bytes:
    changed = bytearray(raw)
    for place in rng.integers(0, len(raw), int(rng.integers(1, 4))):
        changed[place] ^= 1 << int(rng.integers(8))
    return bytes(changed)


@change(1)
def cut_off(rng: Generator, raw: bytes) -> bytes:
    return raw[: int(rng.integers(0, len(raw)))]


@change(1)
def appended(rng: Generator, raw: bytes) -> bytes:
    return raw + rng.bytes(int(rng.integers(1, 64)))


@change(1)
def blocks(rng: Generator, raw: bytes) -> bytes:
    a, b, c = sorted(int(n) for n in rng.integers(0, len(raw), 3))
    return raw[:a] + raw[b:c] + raw[a:b] + raw[c:]


@change(2)
def header_of_another(rng: Generator, raw: bytes) -> bytes:
    other = originals()[str(rng.choice(list(originals())))]
    length = int.from_bytes(other[:8], "little")
    own = int.from_bytes(raw[:8], "little")
    return signed(other[: 8 + length] + raw[8 + own :])


@change(3)
def signed_bits(rng: Generator, raw: bytes) -> bytes:
    return signed(bits(rng, raw))


@change(3)
def characters(rng: Generator, raw: bytes) -> bytes:
    """Change some characters of the header."""
    length, changed = int.from_bytes(raw[:8], "little"), bytearray(raw)
    for _ in range(int(rng.integers(1, 4))):
        changed[int(rng.integers(SUM.stop, 8 + length))] = int(rng.choice(list(b'0123456789{}[]",:.-eN\\ x')))
    return signed(bytes(changed))


@change(1)
def long_header(rng: Generator, raw: bytes) -> bytes:
    length = [0, 1, len(raw), 2**31, 2**62, 2**64 - 1][int(rng.integers(6))]
    return signed(length.to_bytes(8, "little") + raw[8:])


ODD = [
    *(None, True, -1, 0, 2**40, 2**63, 2**200, 1e308, "F64", "../../x", PAYLOAD),
    *([], [0], {}, {"a": 1}, [[[]]]),
]


def odd(rng: Generator) -> Any:
    return ODD[int(rng.integers(len(ODD)))]


@change(3)
def places(rng: Generator, raw: bytes) -> bytes:
    """Change the description of an array."""
    header, document, arrays = apart(raw)
    names = [name for name in header if name != "__metadata__"]
    if names:
        place = header[str(rng.choice(names))]
        key = str(rng.choice(["dtype", "shape", "data_offsets"]))
        options: list[Any] = [odd(rng)]
        options += [[odd(rng)]] if key == "dtype" else [[*place[key][:-1], odd(rng)], place[key][::-1]]
        options += ["BOOL", "F16", "I64"] if key == "dtype" else [[*place[key], 0], [2**62, 0], ["NaN"]]
        place[key] = options[int(rng.integers(len(options)))]
    return together(header, document, arrays)


@change(1)
def not_a_number(rng: Generator, raw: bytes) -> bytes:
    header, document, arrays = apart(raw)
    names = [name for name in header if name != "__metadata__"]
    if names:
        header[str(rng.choice(names))]["shape"] = [float(rng.choice([np.nan, np.inf]))]
    return together(header, document, arrays)


@change(1)
def twice(rng: Generator, raw: bytes) -> bytes:
    """Duplicate a key in the header or in the document."""
    length = int.from_bytes(raw[:8], "little")
    text = raw[8 : 8 + length].decode().rstrip()
    if rng.random() < 0.5:
        return with_header(text[:-1] + ',"__metadata__":{}}', raw[8 + length :])
    header, document, arrays = apart(raw)
    content = json.dumps(document)
    return with_text(header, content[:-1] + f", {content[1:]}" if content[0] == "{" else content, arrays)


@change(1)
def nested(rng: Generator, raw: bytes) -> bytes:
    """Nest something deeply in the document."""
    header, document, arrays = apart(raw)
    depth = int(10 ** rng.uniform(1, 4.5))
    opened, closed = [("[", "]"), ('{"tuple":[', "]}"), ('{"dict":{"a":', "}}")][int(rng.integers(3))]
    marked = replaced(document, chosen(rng, document), "MARK")
    content = json.dumps(marked).replace('"MARK"', opened * depth + "1" + closed * depth)
    return with_text(header, content, arrays)


@change(2)
def inflated(rng: Generator, raw: bytes) -> bytes:
    """Compress a text that is thousands of times as large as what is left of it."""
    header, _, arrays = apart(raw)
    unit = [b" ", b"[],", b'{"a":{}},', b'"' + bytes(90) + b'",', b"1e9,"][int(rng.integers(5))]
    length = int(10 ** rng.uniform(2, 8))
    text = b"[" + unit * (length // len(unit)) + b"1]"
    metadata = {**header["__metadata__"], "format": "sknet 2", "compressed": deflated(text)}
    return with_metadata(header, metadata, arrays)


@change(2)
def wrongly_compressed(rng: Generator, raw: bytes) -> bytes:
    """Compress the document in other ways, or another text."""
    header, document, arrays = apart(raw)
    text = json.dumps(document).encode()
    right = deflated(text)
    code = bytearray(base64.b64decode(right))
    code[int(rng.integers(len(code)))] ^= 1 << int(rng.integers(8))
    options: list[Any] = [
        *(deflated(text, b""), deflated(text, WORDS[1:]), right[: len(right) // 8 * 4], right + right, ""),
        *(base64.b64encode(bytes(code)).decode(), base64.b64encode(rng.bytes(90)).decode(), "\u00e9\ud800"),
        *(deflated(rng.bytes(90)), deflated(b"\xef\xbb\xbf" + text), deflated(text + b" " * 9), odd(rng)),
        *(deflated(text.decode().encode("utf-16")), f" {right}\n", right.replace("=", ""), text.decode()),
    ]
    written = options[int(rng.integers(len(options)))]
    number = str(
        rng.choice(
            ["sknet 1", "sknet 2", "sknet 3", "sknet 4", "sknet 02", "sknet"],
            p=[0.1, 0.6, 0.05, 0.05, 0.1, 0.1],
        )
    )
    return with_metadata(header, {**header["__metadata__"], "format": number, "compressed": written}, arrays)


Path_ = tuple[Any, ...]


def paths(tree: Any, above: Path_ = ()) -> Iterator[Path_]:
    """Yield the places in a document."""
    yield above
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from paths(value, (*above, key))


def chosen(rng: Generator, tree: Any) -> Path_:
    known = list(paths(tree))
    return known[int(rng.integers(len(known)))]


def at(tree: Any, path: Path_) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def replaced(tree: Any, path: Path_, value: Any) -> Any:
    """Return a document with another value in a place."""
    if not path:
        return value
    copied = tree.copy()
    copied[path[0]] = replaced(tree[path[0]], path[1:], value)
    return copied


def tagged(rng: Generator) -> Any:
    """Return the description of a value that hardly fits."""
    name = str(
        rng.choice([*NAMES, "sknet.nn.Linear", "sknet.ops.tanh", "sknet.Model", "sknet.callbacks.Checkpoint"])
    )
    found = [
        *({"function": name}, {"class": name}, {"object": int(rng.integers(-2, 20))}, {"object": 0.5}),
        *({"numbers": [1, 2]}, {"dtype": "O"}, {"dtype": "V8"}, {"device": "cuda:9"}, {"device": PAYLOAD}),
        *({"$float": "nan"}, {"$array": "value"}, {"$array": 3}, {"tuple": {"a": 1}}, {"dict": [1]}),
        *({"draw": ["draw_bias", {"object": 0}]}, {"draw": ["__class__", {"object": 0}]}),
        *({"partial": [{"function": name}, [PAYLOAD], {"dict": {}}]}, {"range": [0, 2**70, 1]}),
        *({"cells": [[2**40], [1]]}, {"times": ["M8[s]", 3]}, {"scalar": 1}, {"set": [[1]]}, {"slice": []}),
        *({"date": "2024-13-01"}, {"datetime": [1]}, {"time": PAYLOAD}, {"timedelta": [2**200]}),
        *({"scorer": "accuracy"}, {"scorer": PAYLOAD}, {"scorer": {"object": 3}}, {"scorer": [1]}),
        *({"distribution": [name, [], {"dict": {}}]}, {"distribution": ["norm", [PAYLOAD], {"dict": {}}]}),
        *({"distribution": ["distributions", [], {"dict": {}}]}, {"masked": [1, 2, 3]}, {"masked": 1}),
        *({"bytes": "0g"}, {"bytes": 5}, {"date": "0001-01-01"}, {"timedelta": {"a": 1}}),
        *({"pairs": [[[], 1]]}, {"turned": 1}, {"complex": "x"}, {"texts": [1]}, [name, {"dict": {}}]),
    ]
    return found[int(rng.integers(len(found)))]


@change(8)
def values(rng: Generator, raw: bytes) -> bytes:
    """Put other values into the document."""
    header, document, arrays = apart(raw)
    for _ in range(int(rng.integers(1, 3))):
        value = odd(rng) if rng.random() < 0.4 else tagged(rng)
        document = replaced(document, chosen(rng, document), value)
    return together(header, document, arrays)


@change(4)
def parts(rng: Generator, raw: bytes) -> bytes:
    """Swap parts of the document."""
    header, document, arrays = apart(raw)
    a, b = chosen(rng, document), chosen(rng, document)
    value = at(document, b)
    return together(header, replaced(document, a, value), arrays)


@change(2)
def left_out(rng: Generator, raw: bytes) -> bytes:
    header, document, arrays = apart(raw)
    path = chosen(rng, document)
    holder = at(document, path)
    if isinstance(holder, (dict, list)) and holder:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        del holder[keys[int(rng.integers(len(keys)))]]
    return together(header, document, arrays)


@change(3)
def texts(rng: Generator, raw: bytes) -> bytes:
    """Replace a string, or all equal ones, by a harmful name."""
    header, document, arrays = apart(raw)
    known = [path for path in paths(document) if isinstance(at(document, path), str)]
    if known:
        old = at(document, known[int(rng.integers(len(known)))])
        new = str(rng.choice([*NAMES, PAYLOAD]))
        for path in known:
            if at(document, path) == old:
                document = replaced(document, path, new)
    return together(header, document, arrays)


@change(2)
def keys(rng: Generator, raw: bytes) -> bytes:
    """Replace a key by a harmful name, or by the name of an attribute of the class."""
    header, document, arrays = apart(raw)
    holders = [path for path in paths(document) if isinstance(at(document, path), dict)]
    holder = at(document, holders[int(rng.integers(len(holders)))])
    if holder:
        old = str(rng.choice(list(holder)))
        new = str(
            rng.choice([*NAMES, PAYLOAD, "forward", "predict", "__class__", "__setstate__", "_hooks", "fit"])
        )
        holder[new] = holder.pop(old)
    return together(header, document, arrays)


# -- checks ---------------------------------------------------------------------------------------------


class Watch:
    """Records Python's audit events while it is active."""

    def __init__(self) -> None:
        self.looks_at: tuple[str, ...] = ()
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.looks_at or not event.startswith(self.looks_at):
            return
        if event == "import" and arguments[0] in sys.modules:
            return
        if event == "exec" and sys._getframe(1).f_code.co_name == OF_SCIPY:  # with its own text
            return
        if event == "ctypes.string_at":  # of a random state's own memory, by a `RandomSnapshot`
            return
        if event == "open" and not (isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")):
            return
        self.seen.append(f"{event}{arguments[:2]!r}")

    @contextmanager
    def at(self, *events: str) -> Iterator[None]:
        self.looks_at, self.seen = events, []
        try:
            yield
        finally:
            self.looks_at = ()


@cache
def watch() -> Watch:
    return Watch()


LOADING = ("import", "exec", "open", "ctypes.", *HARMFUL)


def is_large(x: Any) -> bool:
    """Tell whether a graph computes something much larger than its inputs."""
    if isinstance(x, Graph):
        found = [*x.constants, *[equation.output for equation in x.equations]]
    elif isinstance(x, GraphModule):
        found = list(x.symbolic.verified(len(X))[-1])
    else:
        return False
    return any(variable.size > LARGE for variable in found)


def used(x: Any) -> None:
    """Use a loaded object as a user would; it may fail, since its content makes no sense."""
    if is_large(x):
        return
    for does in (
        lambda: repr(x),
        lambda: x.predict(X),
        lambda: x(X.astype("float32")),
        lambda: x(X, {"scale": 2.0, "y": X[0]}),
        lambda: x.transform(X),
        lambda: x.initialize(0)(X.astype("float32")),
        lambda: x.partial_fit(X, LABELS),
    ):
        try:
            does()
        except Exception:
            continue


def mismatch(seed: int) -> str | None:
    """Return what is wrong with how a changed file is read, or None."""
    rng = np.random.default_rng(seed)
    name = str(rng.choice(list(originals())))
    how = CHANGES[int(rng.integers(len(CHANGES)))]
    raw = originals()[name]
    changed = how(rng, raw)
    most = (2 + RESERVED.get(name, 0.0)) * max(len(raw), len(changed)) + SPARE
    found = judged(changed, is_same=changed == raw, uses=seed % 10 == 0, most=most)
    return None if found is None else f"seed {seed}, {how.__name__} of {name}: {found}"


@cache
def folder() -> "tempfile.TemporaryDirectory[str]":
    made = tempfile.TemporaryDirectory()
    warm = Path(made.name, "it")
    sknet.trusted_types()  # imports all of sknet, so that loading imports nothing
    for raw in originals().values():
        warm.write_bytes(raw)
        used(sknet.load(warm, trusted=[Net]))
    return made


def judged(raw: bytes, *, is_same: bool, uses: bool, most: float) -> str | None:
    path = Path(folder().name, "it")
    path.write_bytes(raw)
    x, error, told = None, None, ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tracemalloc.start()
        with watch().at(*LOADING):
            try:
                x = sknet.load(path, trusted=[Net])
            except LoadError as refused:
                told = str(refused)
            except BaseException as other:
                error = other
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        if error is not None:
            return f"{type(error).__name__}: {error}"
        if watch().seen:
            return f"what happened: {watch().seen[:3]}"
        if peak > most:
            return f"{peak} bytes of memory for {len(raw)} in the file"
        if told:
            return "it was refused" if is_same else None if str(path) in told else f"unclear: {told}"
        if uses:
            with watch().at(*HARMFUL):
                used(x)
            if watch().seen:
                return f"what happened later: {watch().seen[:3]}"
    return None


if __name__ == "__main__":
    sys.exit(run(mismatch, __doc__, cases=10_000))
