"""The op table: one row per op. A public op or a primitive without a row fails a test.

The rows are the `ROWS` of the files `rows_<family>.py`.
"""

import inspect
import itertools
import pkgutil
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from typing import Any

import pytest

import tests.contracts
from tests.contracts.table import Case, Row

FAMILIES = sorted(
    found.name for found in pkgutil.iter_modules(tests.contracts.__path__) if found.name.startswith("rows_")
)
ROWS: list[Row] = [row for name in FAMILIES for row in import_module(f"tests.contracts.{name}").ROWS]


def name(row: Row, case: Case) -> str:
    """Name a case in the report."""
    shown = ",".join(str(getattr(x, "shape", x)) for x in case.operands)
    return f"{row.op}-{shown}-{case.params or ''}"


def every_case(
    only: Callable[[Row, Case], bool] = lambda row, case: True, **parameters: Sequence[Any]
) -> Callable[[Callable[..., None]], Any]:
    """Run a test of ``row`` and ``case`` once for each row, on all of its cases for which `only` is true.

    With thousands of tests of a millisecond, pytest's overhead would dominate. An error names the case and
    the combination of `parameters`, all of which are tried for every case.
    """

    def decorate(test: Callable[..., None]) -> Any:
        @wraps(test)
        def run(row: Row, **fixtures: Any) -> None:
            for case in filter(lambda case: only(row, case), row.cases):
                for values in itertools.product(*parameters.values()):
                    given = dict(zip(parameters, values, strict=True))
                    try:
                        test(row=row, case=case, **given, **fixtures)
                    except BaseException as error:
                        error.add_note(f"in the case {name(row, case)}" + (f" with {given}" if given else ""))
                        raise

        signature = inspect.signature(test)
        left = [p for p in signature.parameters.values() if p.name not in ("case", *parameters)]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        rows = [row for row in ROWS if any(only(row, case) for case in row.cases)]
        return pytest.mark.parametrize("row", rows, ids=lambda row: row.op)(run)

    return decorate
