"""The example service: its answers, its errors, and the batching of concurrent requests."""

import asyncio
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import sknet
from tests.project import ROOT

spec = importlib.util.spec_from_file_location("serve", ROOT / "examples" / "serve.py")
serve = importlib.util.module_from_spec(spec)
spec.loader.exec_module(serve)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
CITIES = np.array(["Bern", "Oslo", "Rome"])


@pytest.fixture(scope="module")
def classifier():
    with pytest.warns(ConvergenceWarning):
        clf = sknet.MLPClassifier((4,), max_iter=2, random_state=0).fit(X, CITIES[RNG.integers(0, 3, 60)])
    return clf.freeze()


class Client:
    """Calls a service in this process."""

    def __init__(self, app):
        self.runner, self.life = asyncio.Runner(), app.router.lifespan_context(app)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service")

    def __enter__(self):
        self.runner.run(self.life.__aenter__())
        return self

    def __exit__(self, *error):
        self.runner.run(self.client.aclose())
        self.runner.run(self.life.__aexit__(*error))
        self.runner.close()

    def get(self, path):
        return self.runner.run(self.client.get(path))

    def post(self, path, **content):
        return self.runner.run(self.client.post(path, **content))


class Named:
    """A pipeline of named columns, the second one text; it counts its batches."""

    n_features_in_ = 2
    feature_names_in_ = ("age", "city")

    def __init__(self):
        self.batches = []

    def predict(self, table):
        self.batches.append(len(table))
        unknown = [row[1] for row in table if row[1] not in CITIES]
        if unknown:
            raise ValueError(f"Found unknown category {unknown[0]!r} in column 'city'")
        return np.array([float(row[0]) for row in table])


def test_labels_and_probabilities(classifier, tmp_path):
    sknet.save(classifier, tmp_path / "model.safetensors")
    model = serve.loaded(tmp_path / "model.safetensors")
    with Client(serve.app_of(model)) as client:
        answer = client.post("/predict", json={"rows": X[:3].tolist()}).json()
        assert answer["predictions"] == classifier.predict(X[:3]).tolist()
        assert answer["probabilities"] == classifier.predict_proba(X[:3]).tolist()
        assert answer["classes"] == CITIES.tolist()
        health = client.get("/health").json()
        assert health["status"] == "ok"
        assert health["model"] == repr(classifier)
        assert health["columns"] == ["0", "1", "2"]
        client.post("/predict", json={"rows": []})
        metrics = client.get("/metrics").text.splitlines()
        assert {'sknet_requests_total{status="200"} 1', 'sknet_requests_total{status="422"} 1'} <= {*metrics}
        assert {"sknet_rows_total 3", "sknet_batches_total 1", "sknet_waiting_rows 0"} <= {*metrics}
        assert "sknet_request_seconds_count 2" in metrics


def test_a_regressor_has_predictions_alone():
    with pytest.warns(ConvergenceWarning):
        reg = sknet.MLPRegressor((4,), max_iter=2, random_state=0).fit(X, X[:, 0])
    with Client(serve.app_of(reg.freeze())) as client:
        answer = client.post("/predict", json={"rows": X[:2].tolist()}).json()
        assert answer == {"predictions": reg.freeze().predict(X[:2]).tolist()}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1, 2]], "row 0: expected 3 values or an object, got 2 values"),
        ([[1, 2, 3], [1, "x", 3]], "row 1: column '1' must be a number, got \"x\""),
        ([[1, [2], 3]], "row 0: column '1' must be a number, got [2]"),
        (
            [{"0": 1, "1": 2, "color": 3}],
            "row 0: no column is called 'color'; they are ['0', '1', '2']",
        ),
        ([{"0": 1, "1": 2}], "row 0: column '2' is missing"),
        ([[1, None, 3]], "row 0: column '1' must be a number, got null"),
        ([[1, 1e999, 3]], "row 0: column '1' must be finite, got inf"),
        ([[1, int("9" * 400), 3]], f"row 0: column '1' must be finite, got {'9' * 400}"),
        ([[1, "\ud800", 3]], "row 0: column '1' must be a number, got \"\\ud800\""),
        (["abc"], "row 0: expected 3 values or an object, got str"),
        ({}, 'expected {"rows": [...]} with at least one row'),
    ],
)
def test_rows_that_do_not_fit_are_named(classifier, rows, message):
    with Client(serve.app_of(classifier)) as client:
        done = client.post("/predict", content=json.dumps({"rows": rows}))
        assert (done.status_code, done.json()["detail"]) == (422, message)


def test_invalid_json_is_rejected(classifier):
    with Client(serve.app_of(classifier)) as client:
        done = client.post("/predict", content="rows")
        assert done.status_code == 422
        assert done.json()["detail"].startswith("the request is no JSON")
        assert client.post("/predict", json=[1]).status_code == 422


def test_columns_have_names_and_the_types_of_an_example():
    with Client(serve.app_of(Named(), {"age": 3, "city": "Bern"})) as client:
        rows = [{"city": "Oslo", "age": 41}, [3.5, "Rome"]]
        assert client.post("/predict", json={"rows": rows}).json()["predictions"] == [41.0, 3.5]
        for value, column, kind in ((3, "city", "a text"), ("x", "age", "a number")):
            row = {"city": "Oslo", "age": 41, column: value}
            detail = client.post("/predict", json={"rows": [row]}).json()["detail"]
            assert detail.startswith(f"row 0: column {column!r} must be {kind}, got ")
        done = client.post("/predict", json={"rows": [[1, "Paris"]]})
        assert done.status_code == 422
        assert done.json()["detail"] == "Found unknown category 'Paris' in column 'city'"


async def asked_together(model, requests, **params):
    """Send several requests at once; return the answer or error of each."""
    batcher = serve.Batcher(model, serve.Columns(model), **params)
    task = asyncio.create_task(batcher.run())
    found = await asyncio.gather(*[batcher.ask(rows) for rows in requests], return_exceptions=True)
    task.cancel()
    return found


def test_concurrent_requests_are_one_batch_up_to_a_number_of_rows():
    model = Named()
    requests = [[[float(i), "Bern"]] for i in range(10)]
    found = asyncio.run(asked_together(model, requests, most_rows=4, wait=1000))
    assert [answer["predictions"] for answer in found] == [[float(i)] for i in range(10)]
    assert model.batches[:2] == [4, 4]
    assert sum(model.batches) == 10


def test_a_batch_waits_for_a_bounded_time():
    model = Named()
    [found] = asyncio.run(asked_together(model, [[[1.0, "Bern"]]], most_rows=100, wait=1))
    assert found["predictions"] == [1.0]


def test_a_failing_row_affects_no_other_request():
    requests = [[[1.0, "Bern"]], [[2.0, "Paris"]], [[3.0, "Rome"]]]
    good, bad, also = asyncio.run(asked_together(Named(), requests, most_rows=100, wait=20))
    assert (good["predictions"], also["predictions"]) == ([1.0], [3.0])
    assert (bad.status_code, bad.detail) == (422, "Found unknown category 'Paris' in column 'city'")


def test_too_many_waiting_rows_are_rejected():
    requests = [[[1.0, "Bern"]] * (serve.MOST_WAITING // 2 + 1)] * 2
    first, second = asyncio.run(asked_together(Named(), requests, most_rows=10, wait=1))
    assert len(first["predictions"]) == len(requests[0])
    assert second.status_code == 503


def test_a_request_of_more_rows_than_can_ever_wait_is_too_large():
    rows = [[1.0, "Bern"]] * (serve.MOST_WAITING + 1)
    [error] = asyncio.run(asked_together(Named(), [rows], most_rows=10, wait=1))
    assert (error.status_code, error.detail) == (
        413,
        "a request has at most 10000 rows, got 10001: send several",
    )


@pytest.mark.parametrize("depth", [300, 900, 100_000])
@pytest.mark.parametrize("around", ['{"rows": %s}', '{"rows": [[1, %s, 3]]}'])
def test_deep_nesting_is_refused(classifier, depth, around):
    with Client(serve.app_of(classifier)) as client:
        done = client.post("/predict", content=around % ("[" * depth + "]" * depth))
        assert done.status_code == 422
        assert 0 < len(done.json()["detail"]) <= serve.MOST_SAID + 3


def test_long_values_are_not_sent_back(classifier):
    with Client(serve.app_of(classifier)) as client:
        for rows in ([[1, "x" * 10**6, 3]], [{"x" * 10**6: 1}]):
            done = client.post("/predict", json={"rows": rows})
            assert (done.status_code, len(done.json()["detail"])) == (422, serve.MOST_SAID + 3)


class Fails(Named):
    """Predicts the ages, of which one is not finite, and fails for another one."""

    def predict(self, table):
        found = super().predict(table)
        if 13 in found:
            raise RuntimeError("as told")
        return np.where(found == 7, np.inf, found)


def test_a_prediction_that_overflows_is_refused_alone():
    with Client(serve.app_of(Fails())) as client:
        done = client.post("/predict", json={"rows": [[1, "Bern"], [7, "Bern"]]})
        assert (done.status_code, done.json()["detail"]) == (
            422,
            "row 1: predictions are not finite, got inf",
        )
        assert client.post("/predict", json={"rows": [[1, "Bern"]]}).json() == {"predictions": [1.0]}


def test_probabilities_that_are_not_finite_are_refused():
    class Unsure(Named):
        def predict_proba(self, table):
            return np.array([[0.5, 0.5], [np.nan, np.nan]])[: len(table)]

    with Client(serve.app_of(Unsure())) as client:
        detail = client.post("/predict", json={"rows": [[1, "Bern"], [2, "Bern"]]}).json()["detail"]
        assert detail == "row 1: probabilities are not finite, got [nan, nan]"


def test_a_model_that_fails_is_told_of_as_json():
    with Client(serve.app_of(Fails())) as client:
        done = client.post("/predict", json={"rows": [[13, "Bern"]]})
        assert done.status_code == 500
        assert done.json()["detail"] == "the prediction failed: the log of the service has the error"


def test_integers_beyond_those_of_64_bits_are_floating():
    with Client(serve.app_of(Named())) as client:
        done = client.post("/predict", json={"rows": [[10**300, "Bern"], [2**63, "Bern"]]})
        assert done.json()["predictions"] == [1e300, 2.0**63]


def test_no_more_of_a_request_is_read_than_is_accepted(classifier):
    sent = []

    async def parts():
        for _ in range(1000):
            sent.append(1)
            yield b" " * (1 << 20)

    with Client(serve.app_of(classifier)) as client:
        done = client.post("/predict", content=parts())
        assert done.status_code == 413
        assert done.json()["detail"] == "a request has at most 16777216 bytes: send fewer rows at a time"
    assert len(sent) <= 18


@pytest.mark.slow
def test_a_client_that_disconnects_is_one_line_of_the_log(classifier, tmp_path):
    sknet.save(classifier, tmp_path / "model.safetensors")
    with running(tmp_path / "model.safetensors") as client:
        for _ in range(3):
            with socket.create_connection((client.base_url.host, client.base_url.port)) as dropped:
                dropped.sendall(b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{")
        deadline = time.monotonic() + 20
        while 'status="499"} 3' not in client.get("/metrics").text and time.monotonic() < deadline:
            time.sleep(0.01)
        assert 'sknet_requests_total{status="499"} 3' in client.get("/metrics").text
    said = client.said.splitlines()
    assert [line.split(": ", 1)[1].strip() for line in said] == [
        "a client has disconnected before its request was read"
    ] * 3


@contextmanager
def running(path, *arguments):
    """Run the service as a user does; yield a client."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        str(ROOT / "examples" / "serve.py"),
        str(path),
        "--port",
        str(port),
        *arguments,
    ]
    process = subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            for _ in range(600):
                try:
                    client.get("/health")
                    break
                except httpx.ConnectError:
                    assert process.poll() is None, process.stderr.read()
                    time.sleep(0.05)
            yield client
    finally:
        process.terminate()
        _, client.said = process.communicate(timeout=30)
    assert process.returncode in (0, -signal.SIGTERM)


def frame(n):
    rng = np.random.default_rng(n)
    return pd.DataFrame(
        {"age": rng.normal(size=n), "city": rng.choice(np.array(["Bern", "Oslo"], dtype=object), n)}
    )


@pytest.mark.slow
def test_in_a_process_of_its_own(tmp_path):
    table, labels = frame(60), CITIES[np.arange(60) % 3]
    columns = ColumnTransformer(
        [
            ("age", make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
            ("city", OneHotEncoder(), ["city"]),
        ]
    )
    with pytest.warns(ConvergenceWarning):
        pipeline = make_pipeline(columns, sknet.MLPClassifier((4,), max_iter=2, random_state=0)).fit(
            table, labels
        )
    frozen = sknet.freeze(pipeline)
    sknet.save(frozen, tmp_path / "model.safetensors")
    rows = [[age, city] for age, city in zip(table["age"], table["city"], strict=True)]
    with running(tmp_path / "model.safetensors", "--most-rows", "16", "--wait", "20") as client:
        assert client.get("/health").json() == {
            "status": "ok", "model": repr(frozen), "columns": ["age", "city"],
        }  # fmt: skip
        with ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda row: client.post("/predict", json={"rows": [row]}).json(), rows))
        assert [answer["predictions"][0] for answer in answers] == pipeline.predict(table).tolist()
        together = client.post("/predict", json={"rows": rows}).json()
        assert together["probabilities"] == pipeline.predict_proba(table).tolist()
        for wrong, message in (
            ([[1.0, "Rome"]], "Found unknown category 'Rome' in column 'city'"),
            ([{"age": 1.0, "town": "Bern"}], "row 0: no column is called 'town'; they are ['age', 'city']"),
            ([{"age": 1.0}], "row 0: column 'city' is missing"),
            ([[1.0, ["Bern"]]], "row 0: column 'city' must be a number or a text, got [\"Bern\"]"),
        ):
            done = client.post("/predict", json={"rows": wrong})
            assert (done.status_code, done.json()["detail"]) == (422, message)
        metrics = dict(
            line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines() if line[0] != "#"
        )
        assert metrics['sknet_requests_total{status="200"}'] == "61"
        assert metrics['sknet_requests_total{status="422"}'] == "4"
        assert int(metrics["sknet_batches_total"]) < 61


def test_a_frozen_table_encoder_takes_texts_and_missing_values(tmp_path):
    table, labels = frame(60), CITIES[np.arange(60) % 3]
    with pytest.warns(ConvergenceWarning):
        clf = sknet.MLPClassifier((4,), encoder="table", max_iter=2, random_state=0).fit(table, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows have no names
        with Client(serve.app_of(clf.freeze())) as client:
            found = client.post(
                "/predict", json={"rows": [{"city": None, "age": 1.5}, [None, "Bern"]]}
            ).json()
    expected = clf.predict_proba(pd.DataFrame({"age": [1.5, None], "city": [None, "Bern"]}))
    assert found["probabilities"] == expected.tolist()


@pytest.mark.parametrize("package", ["fastapi", "uvicorn"])
def test_a_missing_package_is_named_with_its_extra(package, tmp_path):
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError('no', name={package!r})")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, str(ROOT / "examples" / "serve.py"), "x"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 1
    assert (
        f'{package} is not installed, which the service needs: pip install "scikit-neural[serve]"'
        in done.stderr
    )
