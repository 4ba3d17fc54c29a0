"""The op table: one row per op. A public op or a primitive without a row fails a test.

The rows are the `ROWS` of the files `rows_<family>.py`.
"""

import inspect
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from importlib import import_module
from itertools import product
from typing import Any

import pytest

import tests.contracts
from tests.combinations import run_all
from tests.contracts.table import Case, Row

FAMILIES = sorted(
    found.name for found in pkgutil.iter_modules(tests.contracts.__path__) if found.name.startswith("rows_")
)
BY_FAMILY: dict[str, list[Row]] = {
    family.removeprefix("rows_"): import_module(f"tests.contracts.{family}").ROWS for family in FAMILIES
}
ROWS = [row for rows in BY_FAMILY.values() for row in rows]


def name(row: Row, case: Case) -> str:
    """Name a case in the report."""
    shown = ",".join(str(getattr(x, "shape", x)) for x in case.operands)
    return f"{row.op}-{shown}-{case.params or ''}"


def every_case(
    only: Callable[[Row, Case], bool] = lambda row, case: True, **parameters: Sequence[Any]
) -> Callable[[Callable[..., None]], Any]:
    """Run a test of ``row`` and ``case`` once for each family, on all cases of its rows that `only` takes.

    With thousands of tests of a millisecond, pytest's overhead would dominate. All cases are tried with every
    combination of `parameters`; those that fail are raised together, and named.
    """

    def chosen(family: str) -> Iterator[tuple[Row, Case]]:
        return ((row, case) for row in BY_FAMILY[family] for case in row.cases if only(row, case))

    def decorate(test: Callable[..., None]) -> Any:
        @wraps(test)
        def run(family: str, **fixtures: Any) -> None:
            combinations = [dict(zip(parameters, x, strict=True)) for x in product(*parameters.values())]
            run_all(
                (
                    f"in the case {name(*of)}" + (f" with {given}" if given else ""),
                    partial(test, *of, **given, **fixtures),
                )
                for of in chosen(family)
                for given in combinations
            )

        signature = inspect.signature(test)
        left = [p for p in signature.parameters.values() if p.name not in ("row", "case", *parameters)]
        first = inspect.Parameter("family", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = signature.replace(parameters=[first, *left])  # type: ignore[attr-defined]
        families = [family for family in BY_FAMILY if next(chosen(family), None)]
        return pytest.mark.parametrize("family", families)(run)

    return decorate
