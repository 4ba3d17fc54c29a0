"""The op table: one row an op. A public op or a primitive without a row fails a test.

The rows stand in `rows_<family>.py`; what such a file lists as `ROWS` is in the table.
"""

import pkgutil
from importlib import import_module

import tests.contracts
from tests.contracts.table import Case, Row

FAMILIES = sorted(
    found.name for found in pkgutil.iter_modules(tests.contracts.__path__) if found.name.startswith("rows_")
)
ROWS: list[Row] = [row for name in FAMILIES for row in import_module(f"tests.contracts.{name}").ROWS]
CASES: list[tuple[Row, Case]] = [(row, case) for row in ROWS for case in row.cases]


def name(row: Row, case: Case) -> str:
    """Name a case in the report."""
    shown = ",".join(str(getattr(x, "shape", x)) for x in case.operands)
    return f"{row.op}-{shown}-{case.params or ''}"


NAMES = [name(row, case) for row, case in CASES]
