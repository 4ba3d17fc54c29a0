"""The op table: one row an op. A public op or a primitive without a row fails a test."""

from tests.contracts import rows_elementwise, rows_functions, rows_shape
from tests.contracts.table import Case, Row

ROWS: list[Row] = [*rows_elementwise.ROWS, *rows_functions.ROWS, *rows_shape.ROWS]
CASES: list[tuple[Row, Case]] = [(row, case) for row in ROWS for case in row.cases]


def name(row: Row, case: Case) -> str:
    """Name a case in the report."""
    shown = ",".join(str(getattr(x, "shape", x)) for x in case.operands)
    return f"{row.op}-{shown}-{case.params or ''}"


NAMES = [name(row, case) for row, case in CASES]
