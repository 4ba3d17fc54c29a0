"""Time predictions as in a service: one row, several clients, imports and file sizes, compared with peers.

Prints the median time of predicting one row, the requests per second of several clients with their median and
99th percentile latency, in threads and over HTTP, the seconds of imports in a fresh process, and file sizes
relative to the bytes of the parameters; for a row of mixed columns, also what pandas alone needs to read its
values. The network is 20-100-3 in float32, alone and behind a scaler. Rounds alternate between all
contenders, so that other load on the machine affects all alike.

Over HTTP, every contender is a pipeline of scaler and network behind the same service, examples/serve.py, in
a process of its own.

    python examples/benchmarks/serving.py [--quick] [--json PATH]
"""

import argparse
import asyncio
import importlib.util
import json
import pickle
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import timeit
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from measured import Table, parser_of, write
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier as ScikitLearnMLP
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import sknet

Predict = Callable[[np.ndarray], Any]
CONNECTIONS = 16
TABLES = {
    "rows": Table(
        "`predict_proba` of one row",
        {"us": ".1f", "requests / s of four threads": ".0f", "p50, us": ".0f", "p99, us": ".0f"},
        drawn=("us",),
        unit="microseconds per row",
    ),
    "frames": Table("prediction of one row of mixed columns", {"us": ".1f"}),
    "http": Table(
        f"HTTP, {CONNECTIONS} connections", {"requests / s": ".0f", "p50, ms": ".1f", "p99, ms": ".1f"}
    ),
    "sizes": Table("file", {"bytes / parameters": ".2f"}),
    "imports": Table("import", {"seconds of a fresh Python": ".2f"}),
}
MOST_SECONDS = 0.2  # of the calls of one contender in a round
WIDTHS = (30, 160, 200, 500, 2000)  # of the layer of networks whose files are compared
IMPORTS = (
    "import numpy",
    "import sklearn",
    "import sknet",
    "from sklearn.neural_network import MLPClassifier",
    "from sknet import MLPClassifier",
)


def fitted() -> tuple[Any, Any, np.ndarray]:
    """Return sknet's estimator, scikit-learn's, and rows."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((2000, 20), dtype=np.float32), rng.integers(0, 3, 2000)
    clf = sknet.MLPClassifier((100,), max_iter=5, random_state=0).fit(X, y)
    return clf, ScikitLearnMLP((100,), max_iter=5, random_state=0).fit(X, y), X


def onnx_session(clf: Any) -> Predict | None:
    """Return onnxruntime's prediction function of the exported estimator; None if it is not installed."""
    try:
        import onnxruntime

        from sknet import onnx

        model = onnx.export(clf).SerializeToString()
    except ImportError as error:
        print(
            f'{error.name} is not installed: pip install "scikit-neural[onnx,onnxruntime]"', file=sys.stderr
        )
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda X: session.run(["probabilities"], {"X": X})


def written(clf: Any, folder: Path) -> Predict:
    """Return the function of the estimator's Python file."""
    clf.freeze().to_python(folder / "written.py")
    namespace: dict[str, Any] = {}
    exec((folder / "written.py").read_text(), namespace)
    return namespace["predict_proba"]  # type: ignore[no-any-return]


def predictors(clf: Any, peer: Any, X: np.ndarray, folder: Path) -> dict[str, Predict]:
    """Return the contenders by name."""
    y = clf.predict(X)
    scaled = make_pipeline(StandardScaler(), ScikitLearnMLP((100,), max_iter=5, random_state=0)).fit(X, y)
    found: dict[str, Predict | None] = {
        "sknet, frozen": clf.freeze().predict_proba,
        "sknet, estimator": clf.predict_proba,
        "sknet, Python file": written(clf, folder),
        "onnxruntime": onnx_session(clf),
        "scikit-learn": peer.predict_proba,
        "scikit-learn, pipeline": scaled.predict_proba,
    }
    pipeline = make_pipeline(StandardScaler(), sknet.MLPClassifier((100,), max_iter=5, random_state=0))
    found["sknet, frozen pipeline"] = sknet.freeze(pipeline.fit(X, y)).predict_proba
    return {name: predict for name, predict in found.items() if predict is not None}


def latencies(known: dict[str, Predict], row: np.ndarray, calls: int, rounds: int) -> dict[str, float]:
    """Return the median microseconds of a prediction of one row."""
    times: dict[str, list[float]] = {name: [] for name in known}
    for _ in range(rounds):
        for name, predict in known.items():
            once = timeit.timeit(lambda p=predict: p(row), number=1)  # type: ignore[misc]
            n = max(min(calls, int(MOST_SECONDS / once)), 1)
            times[name].append(timeit.timeit(lambda p=predict: p(row), number=n) / n * 1e6)  # type: ignore[misc]
    return {name: statistics.median(found) for name, found in times.items()}


# -- one row of a data frame ------------------------------------------------------------------------


def of_frames() -> dict[str, Callable[[], Any]]:
    """Return predictions for a row of mixed columns in several containers, and reading by pandas alone."""
    if importlib.util.find_spec("pandas") is None:
        print('pandas is not installed: pip install "scikit-neural[data]"', file=sys.stderr)
        return {}
    import pandas as pd

    rng, n = np.random.default_rng(0), 2000
    numbers = {"age": rng.normal(size=n), "income": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n))}
    texts = {"town": rng.choice(["Bern", "Basel", "Biel"], n), "plan": rng.choice(["a", "b"], n)}
    table, y = pd.DataFrame(numbers | texts), numbers["age"] > 0
    prepared = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), [*numbers]),
        (OneHotEncoder(handle_unknown="ignore"), ["town"]),
        (OrdinalEncoder(), ["plan"]),
    )
    ours = make_pipeline(prepared, sknet.MLPClassifier((100,), max_iter=5, random_state=0)).fit(table, y)
    peer = make_pipeline(prepared, ScikitLearnMLP((100,), max_iter=5, random_state=0)).fit(table, y)
    frozen, row = sknet.freeze(ours), table.iloc[[7]]
    array = row.to_numpy(dtype=object)
    rows = array.tolist()
    return {
        "sknet, frozen pipeline, data frame": lambda: frozen.predict(row),
        "sknet, frozen pipeline, array of objects": lambda: frozen.predict(array),
        "sknet, frozen pipeline, list": lambda: frozen.predict(rows),
        "sknet, pipeline, data frame": lambda: ours.predict(row),
        "scikit-learn, pipeline, data frame": lambda: peer.predict(row),
        "pandas alone: `frame.iat[0, i]` of each column": lambda: [row.iat[0, i] for i in range(4)],
        "pandas alone: `frame.iloc[0].tolist()`": lambda: row.iloc[0].tolist(),
        "pandas alone: `frame.to_numpy()`": lambda: row.to_numpy(),
    }


def load(predict: Predict, X: np.ndarray, seconds: float, clients: int) -> tuple[float, float, float]:
    """Let clients request rows one at a time; return requests per second, and latencies in microseconds."""
    waited: list[list[float]] = [[] for _ in range(clients)]
    end = time.perf_counter() + seconds

    def client(number: int) -> None:
        rows, mine = X[number::clients], waited[number]
        while (begun := time.perf_counter()) < end:
            predict(rows[len(mine) % len(rows)][None])
            mine.append(time.perf_counter() - begun)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begun
    every = np.concatenate([np.asarray(part) for part in waited])
    return len(every) / took, float(np.median(every) * 1e6), float(np.quantile(every, 0.99) * 1e6)


def loads(known: dict[str, Predict], X: np.ndarray, seconds: float, rounds: int) -> dict[str, list[float]]:
    """Return requests per second, p50 and p99 in microseconds, each the median of some rounds."""
    found: dict[str, list[Any]] = {name: [] for name in known}
    for _ in range(rounds):
        for name, predict in known.items():
            found[name].append(load(predict, X, seconds, clients=4))
    return {
        name: [statistics.median(part) for part in zip(*each, strict=True)] for name, each in found.items()
    }


# -- over HTTP ------------------------------------------------------------------------------------


class Exported:
    """A pipeline in onnxruntime, with the methods that a service calls."""

    n_features_in_ = 20

    def __init__(self, model: bytes, classes: np.ndarray) -> None:
        self.model, self.classes_, self.session = model, classes, None

    def outputs(self, X: Any) -> Any:
        import onnxruntime

        if self.session is None:  # of the process that serves
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            self.session = onnxruntime.InferenceSession(self.model, options)
        return self.session.run(None, {"X": np.asarray(X, np.float32)})

    def predict(self, X: Any) -> Any:
        return self.outputs(X)[0]

    def predict_proba(self, X: Any) -> Any:
        return self.outputs(X)[1]


def services(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return pipelines of scaler and network to serve, by name."""
    ours = make_pipeline(StandardScaler(), sknet.MLPClassifier((100,), max_iter=5, random_state=0)).fit(X, y)
    peer = make_pipeline(StandardScaler(), ScikitLearnMLP((100,), max_iter=5, random_state=0)).fit(X, y)
    found = {"sknet, frozen pipeline": sknet.freeze(ours), "sknet, pipeline": ours}
    found["scikit-learn, pipeline"] = peer
    try:
        from skl2onnx import to_onnx

        model = to_onnx(peer, X[:1], options={"zipmap": False}).SerializeToString()
        found["onnxruntime, pipeline"] = Exported(model, peer.classes_)
    except ImportError:
        pass
    return found


def serve(path: str, port: int) -> None:
    """Serve the pickled model of a file by examples/serve.py."""
    import uvicorn

    spec = importlib.util.spec_from_file_location("serve", Path(__file__).parents[1] / "serve.py")
    assert spec is not None
    assert spec.loader is not None
    service = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(service)
    with open(path, "rb") as file:
        model = pickle.load(file)
    uvicorn.run(service.app_of(model), port=port, log_level="error", access_log=False)


@contextmanager
def served(model: Any, folder: Path) -> Iterator[int]:
    """Serve a model in a process of its own; yield the port."""
    (folder / "model.pickle").write_bytes(pickle.dumps(model))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, __file__, "--serve", str(folder / "model.pickle"), str(port)]
    process = subprocess.Popen(command)
    try:
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


async def connected(port: int, requests: list[bytes], end: float, waited: list[float]) -> None:
    """Send requests over one connection until the end, each after the answer to the one before."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while (begun := time.perf_counter()) < end:
        writer.write(requests[len(waited) % len(requests)])
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if length is None or b" 200 " not in head.splitlines()[0]:
            raise RuntimeError(f"the service answers {head!r}")
        await reader.readexactly(int(length[1]))
        waited.append(time.perf_counter() - begun)
    writer.close()


async def requested(port: int, X: np.ndarray, seconds: float) -> list[float]:
    """Return the latencies of requests over several connections at a time, in seconds."""
    requests = []
    for row in X.tolist():
        body = json.dumps({"rows": [row]}).encode()
        head = f"POST /predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        requests.append(head.encode() + body)
    parts: list[list[float]] = [[] for _ in range(CONNECTIONS)]
    end = time.perf_counter() + seconds
    await asyncio.gather(
        *[connected(port, requests[i::CONNECTIONS], end, part) for i, part in enumerate(parts)]
    )
    return [latency for part in parts for latency in part]


def over_http(
    X: np.ndarray, y: np.ndarray, folder: Path, seconds: float, rounds: int
) -> dict[str, list[float]]:
    """Return requests per second, p50 and p99 in microseconds of each service, medians of some rounds."""
    if importlib.util.find_spec("fastapi") is None or importlib.util.find_spec("uvicorn") is None:
        print('fastapi or uvicorn is not installed: pip install "scikit-neural[serve]"', file=sys.stderr)
        return {}
    found: dict[str, list[Any]] = {}
    models = services(X, y)
    for _ in range(rounds):
        for name, model in models.items():
            with served(model, folder) as port:
                asyncio.run(requested(port, X[:64], seconds / 4))  # starts, and compiles
                waited = np.array(asyncio.run(requested(port, X, seconds))) * 1e6
            rate = len(waited) / seconds
            found.setdefault(name, []).append((rate, np.median(waited), np.quantile(waited, 0.99)))
    return {
        name: [float(statistics.median(part)) for part in zip(*each, strict=True)]
        for name, each in found.items()
    }


# -- files and imports ----------------------------------------------------------------------------


def sizes(clf: Any, peer: Any, folder: Path) -> dict[str, float]:
    """Return the sizes of files relative to that of the parameters."""
    own, other = (sum(a.nbytes for a in (*e.coefs_, *e.intercepts_)) for e in (clf, peer))
    found = {
        "sknet, pickle": len(pickle.dumps(clf)) / own,
        "sknet, pickle of `slim()`": len(pickle.dumps(clf.slim())) / own,
        "sknet, pickle of `freeze()`": len(pickle.dumps(clf.freeze())) / own,
        "scikit-learn, pickle": len(pickle.dumps(peer)) / other,
        "sknet, Python file": (folder / "written.py").stat().st_size / own,
    }
    for name, model, params in (
        ("sknet, safe file", clf, {}),
        ('sknet, safe file, `include="predict"`', clf, {"include": "predict"}),
        ("sknet, safe file of `freeze()`", clf.freeze(), {}),
    ):
        sknet.save(model, folder / "model.safetensors", **params)
        found[name] = (folder / "model.safetensors").stat().st_size / own
    return found | {
        f'sknet, safe file, `include="predict"`, {own / 1000:.1f} kB of parameters': size / own
        for own, size in growing(folder)
    }


def growing(folder: Path) -> Iterator[tuple[int, int]]:
    """Yield the bytes of the parameters and of the file for predictions, for layers of growing widths."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 20), dtype=np.float32), rng.integers(0, 3, 200)
    for width in WIDTHS:
        clf = sknet.MLPClassifier((width,), max_iter=1, random_state=0).fit(X, y)
        sknet.save(clf, folder / "model.safetensors", include="predict")
        own = sum(a.nbytes for a in (*clf.coefs_, *clf.intercepts_))
        yield own, (folder / "model.safetensors").stat().st_size


def import_seconds(rounds: int) -> dict[str, float]:
    """Return the median seconds of imports in a fresh process, including its start, alternating."""
    seconds: dict[str, list[float]] = {statement: [] for statement in IMPORTS}
    for _ in range(rounds):
        for statement, times in seconds.items():
            command = [sys.executable, "-c", statement]
            times.append(timeit.timeit(lambda command=command: subprocess.run(command, check=True), number=1))
    return {statement: statistics.median(times) for statement, times in seconds.items()}


def measured(quick: bool) -> None:
    """Measure all figures, and add them to the tables."""
    calls, rounds, seconds, starts = (20, 3, 0.05, 1) if quick else (500, 9, 1.0, 9)
    clf, peer, X = fitted()
    with tempfile.TemporaryDirectory() as name:
        known = predictors(clf, peer, X, Path(name))
        for predict in known.values():
            predict(X[:1])  # compiles
        alone = latencies(known, X[:1], calls, rounds)
        for contender, figures in loads(known, X, seconds, rounds if quick else 5).items():
            TABLES["rows"].add(contender, alone[contender], *figures)
        frames = {name: lambda _, f=f: f() for name, f in of_frames().items()}
        for contender, took in latencies(frames, X[:1], calls, rounds).items():
            TABLES["frames"].add(contender, took)
        served_rows = over_http(X, clf.predict(X), Path(name), 4 * seconds, 1 if quick else 3)
        for contender, (rate, middle, late) in served_rows.items():
            TABLES["http"].add(contender, rate, middle / 1e3, late / 1e3)
        for contender, size in sizes(clf, peer, Path(name)).items():
            TABLES["sizes"].add(contender, size)
        for statement, took in import_seconds(starts).items():
            TABLES["imports"].add(f"`{statement}`", took)


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds; figures mean nothing")
    parser.add_argument("--serve", nargs=2, metavar=("FILE", "PORT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve(given.serve[0], int(given.serve[1]))
    warnings.simplefilter("ignore")
    measured(given.quick)
    write(given.json, TABLES)


if __name__ == "__main__":
    main()
