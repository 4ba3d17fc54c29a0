"""Serve a frozen pipeline or predictor: rows as JSON in, labels and probabilities out.

    pip install "scikit-neural[serve]"
    python examples/serve.py digits.safetensors --port 8000
    curl localhost:8000/predict -H "content-type: application/json" -d '{"rows": [[0, 0.5, 1]]}'

The file was written by `sknet.save`; loading it executes nothing. Rows are lists, or objects keyed by column
names. Concurrent requests are batched: at most `--most-rows` rows, which wait at most `--wait` milliseconds.
`/health` describes the model, `/metrics` has counters in Prometheus format.

Every answer is JSON, but for `/metrics`. Requests that cannot be answered get a status of 4xx and the reason:
422 for rows that do not fit, or whose prediction is not finite, 413 for more bytes or rows than are accepted.
"""

import argparse
import asyncio
import json
import logging
import math
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import sknet

try:
    import uvicorn
    from fastapi import FastAPI, HTTPException, Request
    from fastapi.responses import PlainTextResponse, Response
    from starlette.requests import ClientDisconnect
except ImportError as error:
    raise SystemExit(
        f'{error.name} is not installed, which the service needs: pip install "scikit-neural[serve]"'
    ) from None

MOST_ROWS = 64
WAIT = 2.0  # milliseconds
MOST_WAITING = 10_000  # rows, beyond which a request is rejected
MOST_BYTES = 1 << 24  # of a request
MOST_SAID = 1000  # characters of a message
INT64 = range(-(1 << 63), 1 << 63)

log = logging.getLogger("uvicorn.error")


# -- rows -----------------------------------------------------------------------------------------


class Columns:
    """The format of a row.

    `example` is a row: columns with a string in it take strings, all others numbers. Without an example,
    predictors take numbers, and pipelines, which may begin with encoders, also strings.
    """

    def __init__(self, model: Any, example: Any = None) -> None:
        count = int(model.n_features_in_)
        names = getattr(model, "feature_names_in_", None)
        self.named = names is not None
        self.names = [str(name) for name in (names if self.named else range(count))]
        values = None if example is None else self.ordered(example, 0)
        # Pipelines may begin with encoders, or with an imputer.
        may_be_text = self.may_be_missing = bool(getattr(model, "reads_tables", True))
        self.texts: list[bool | None] = (
            [None if may_be_text else False] * count if values is None else [type(v) is str for v in values]
        )

    def ordered(self, row: Any, number: int) -> list[Any]:
        """Return the values of a row in the order of the columns."""
        if isinstance(row, dict):
            unknown = [name for name in row if name not in self.names]
            missing = [name for name in self.names if name not in row]
            if unknown:
                raise refused(f"row {number}: no column is called {unknown[0]!r}; they are {self.names}")
            if missing:
                raise refused(f"row {number}: column {missing[0]!r} is missing")
            return [row[name] for name in self.names]
        if not isinstance(row, list) or len(row) != len(self.names):
            got = f"{len(row)} values" if isinstance(row, list) else type(row).__name__
            raise refused(f"row {number}: expected {len(self.names)} values or an object, got {got}")
        return row

    def read(self, rows: Any) -> list[list[Any]]:
        """Return the rows of a request; an invalid row raises an error with the reason."""
        if not isinstance(rows, list) or not rows:
            raise refused('expected {"rows": [...]} with at least one row')
        return [
            [self.value(v, i, j) for j, v in enumerate(self.ordered(row, i))] for i, row in enumerate(rows)
        ]

    def value(self, value: Any, row: int, column: int) -> Any:
        """Return one value; null is a missing value."""
        where, text = f"row {row}: column {self.names[column]!r}", self.texts[column]
        if value is None and self.may_be_missing:
            return math.nan if text is False else None
        is_number = type(value) in (int, float, bool)
        if is_number and not is_finite(value):
            raise refused(f"{where} must be finite, got {shown(value)}")
        if (is_number and text) or (text is False and not is_number) or not (is_number or type(value) is str):
            expected = {True: "a text", False: "a number", None: "a number or a text"}[text]
            raise refused(f"{where} must be {expected}, got {shown(value)}")
        return float(value) if type(value) is int and value not in INT64 else value

    def table(self, rows: list[list[Any]]) -> Any:
        """Return rows as the model's input."""
        return np.array(rows, dtype=object if any(text is not False for text in self.texts) else np.float64)


def is_finite(value: float) -> bool:
    """Tell whether a number is finite in float64."""
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer
        return False


def shown(value: Any) -> str:
    """Return a value as a message names it."""
    try:
        return repr(value) if isinstance(value, float) else json.dumps(value)
    except RecursionError:
        return "a value that is nested too deeply"


def refused(message: str) -> HTTPException:
    """Return the response to invalid rows."""
    if len(message) > MOST_SAID:
        message = f"{message[:MOST_SAID]}..."
    return HTTPException(422, message.encode("utf-8", "backslashreplace").decode())  # half of a character


async def received(request: Request) -> Any:
    """Read the JSON of a request, of which no more bytes are read than are accepted."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise HTTPException(413, f"a request has at most {MOST_BYTES} bytes: send fewer rows at a time")
    try:
        return json.loads(body)
    except RecursionError:
        raise refused("the request is no JSON of rows: it is nested too deeply") from None
    except ValueError as error:
        raise refused(f"the request is no JSON: {error}") from None


def written(answer: dict[str, Any]) -> str:
    """Return an answer as JSON, which has no infinities."""
    try:
        return json.dumps(answer, allow_nan=False, default=str)
    except ValueError:
        for key, values in answer.items():
            for number, value in enumerate(values):
                if not np.isfinite(np.asarray(value, np.float64)).all():
                    raise refused(f"row {number}: {key} are not finite, got {value!r}") from None
        raise


# -- batches --------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """The rows of a request, and the future of its answer."""

    rows: list[list[Any]]
    answer: "asyncio.Future[dict[str, Any]]"


class Batcher:
    """Batches the rows of concurrent requests."""

    def __init__(self, model: Any, columns: Columns, most_rows: int, wait: float) -> None:
        self.model, self.columns = model, columns
        self.most_rows, self.wait = most_rows, wait / 1000
        self.queue: asyncio.Queue[Asked] = asyncio.Queue()
        self.waiting = 0
        self.counts: Counter[str] = Counter()

    async def ask(self, rows: list[list[Any]]) -> dict[str, Any]:
        """Return the answer for some rows."""
        if len(rows) > MOST_WAITING:
            raise HTTPException(
                413, f"a request has at most {MOST_WAITING} rows, got {len(rows)}: send several"
            )
        if self.waiting + len(rows) > MOST_WAITING:
            raise HTTPException(503, f"{self.waiting} rows are waiting already: try again later")
        self.waiting += len(rows)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.queue.put_nowait(Asked(rows, answer))
        try:
            return await answer
        finally:
            self.waiting -= len(rows)

    async def run(self) -> None:
        """Collect requests, predict them in a thread, and answer, forever."""
        while True:
            batch = await self.collected()
            answers = await asyncio.to_thread(self.answers, [asked.rows for asked in batch])
            for asked, answer in zip(batch, answers, strict=True):
                if asked.answer.done():
                    continue  # the client has disconnected
                if isinstance(answer, Exception):
                    asked.answer.set_exception(answer)
                else:
                    asked.answer.set_result(answer)

    async def collected(self) -> list[Asked]:
        """Return the requests of the next batch: up to a number of rows, or until the first has waited."""
        batch = [await self.queue.get()]
        end, count = time.monotonic() + self.wait, len(batch[0].rows)
        while count < self.most_rows:
            try:
                left = end - time.monotonic()
                arrived = asyncio.wait_for(self.queue.get(), left) if left > 0 else None
                asked = self.queue.get_nowait() if arrived is None else await arrived
            except (TimeoutError, asyncio.QueueEmpty):
                break
            batch.append(asked)
            count += len(asked.rows)
        return batch

    def answers(self, requests: list[list[list[Any]]]) -> list[Any]:
        """Return an answer or error for each request."""
        self.counts["batches"] += 1
        try:
            whole = self.predicted([row for rows in requests for row in rows])
        except Exception as error:
            if len(requests) == 1:
                return [refused(str(error)) if isinstance(error, (ValueError, OverflowError)) else error]
            return [answer for rows in requests for answer in self.answers([rows])]  # find the failing one
        found, start = [], 0
        for rows in requests:
            stop = start + len(rows)
            found.append({key: values[start:stop] for key, values in whole.items()})
            start = stop
        return found

    def predicted(self, rows: list[list[Any]]) -> dict[str, list[Any]]:
        """Return predictions, and probabilities if the model has any."""
        X = self.columns.table(rows)
        self.counts["rows"] += len(rows)
        found = {"predictions": self.model.predict(X).tolist()}
        if hasattr(self.model, "predict_proba"):
            shares = self.model.predict_proba(X)
            if isinstance(shares, list):  # an array for each column of labels
                found["probabilities"] = [
                    list(row) for row in zip(*[p.tolist() for p in shares], strict=True)
                ]
            else:
                found["probabilities"] = shares.tolist()
        return found


# -- the service ----------------------------------------------------------------------------------


def app_of(model: Any, example: Any = None, most_rows: int = MOST_ROWS, wait: float = WAIT) -> FastAPI:
    """Return the service for a model."""
    columns = Columns(model, example)
    batcher = Batcher(model, columns, most_rows, wait)
    classes = getattr(model, "classes_", None)
    labels = None if classes is None else [x.tolist() if hasattr(x, "tolist") else x for x in classes]
    seconds = 0.0

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(batcher.run())
        yield
        task.cancel()

    app = FastAPI(title="sknet", lifespan=lifespan)

    @app.post("/predict")
    async def predict(request: Request) -> Response:
        nonlocal seconds
        begun, status = time.perf_counter(), 500
        try:
            body = await received(request)
            answer = await batcher.ask(columns.read(body.get("rows") if isinstance(body, dict) else None))
            text = written(answer if labels is None else {**answer, "classes": labels})
            status = 200
            return Response(text, media_type="application/json")
        except HTTPException as error:
            status = error.status_code
            raise
        except ClientDisconnect:
            status = 499  # as other servers count it; nobody reads the response
            log.warning("a client has disconnected before its request was read")
            return Response(status_code=status)
        except Exception:
            log.exception("a prediction failed")
            raise HTTPException(500, "the prediction failed: the log of the service has the error") from None
        finally:
            batcher.counts[f"status {status}"] += 1
            seconds += time.perf_counter() - begun

    @app.get("/health")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "model": repr(model), "columns": columns.names}

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> str:
        counts = batcher.counts
        statuses = [name for name in sorted(counts) if name.startswith("status ")]
        lines = [
            "# TYPE sknet_requests_total counter",
            *[f'sknet_requests_total{{status="{name.split()[1]}"}} {counts[name]}' for name in statuses],
            "# TYPE sknet_rows_total counter",
            f"sknet_rows_total {counts['rows']}",
            "# TYPE sknet_batches_total counter",
            f"sknet_batches_total {counts['batches']}",
            "# TYPE sknet_waiting_rows gauge",
            f"sknet_waiting_rows {batcher.waiting}",
            "# TYPE sknet_request_seconds summary",
            f"sknet_request_seconds_sum {seconds:.6f}",
            f"sknet_request_seconds_count {sum(counts[name] for name in statuses)}",
        ]
        return "\n".join(lines) + "\n"

    return app


def loaded(path: Path) -> Any:
    """Return the frozen content of a file."""
    model = sknet.load(path)
    if not hasattr(model, "fit"):
        return model
    freeze = getattr(model, "freeze", None)
    return freeze() if freeze is not None else sknet.freeze(model)


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(description="Serve a frozen pipeline or predictor.")
    parser.add_argument("path", type=Path, help="a file that sknet.save has written")
    parser.add_argument("--example", type=json.loads, help="a row as JSON, which tells numbers from texts")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--most-rows", type=int, default=MOST_ROWS, help="rows that are predicted together")
    parser.add_argument("--wait", type=float, default=WAIT, help="milliseconds that a row waits for others")
    given = parser.parse_args()
    app = app_of(loaded(given.path), given.example, given.most_rows, given.wait)
    uvicorn.run(app, host=given.host, port=given.port, log_level="warning")


if __name__ == "__main__":
    main()
