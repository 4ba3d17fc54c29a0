"""Tables of figures: printed as they are measured, and written to a file, from which the documents are made.

The file of a script (``--json PATH``) has its `Table` objects and the facts of the machine. ``python -m
docs.make_benchmarks`` writes the tables of all files into docs/benchmarks.md, and the site draws their plots.
"""

import argparse
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

from threadpoolctl import threadpool_info

__all__ = ["Table", "machine", "parser_of", "read", "write"]

PACKAGES = {
    "numpy": "NumPy",
    "scipy": "SciPy",
    "scikit-learn": "scikit-learn",
    "torch": "PyTorch",
    "onnxruntime": "onnxruntime",
    "catboost": "CatBoost",
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
}
Figure = float | str | None


@dataclass
class Table:
    """Figures by row and column.

    Parameters
    ----------
    first : str
        Heading of the names of the rows.
    columns : dict of str to str
        How the figures of each column are written: a format such as ``".1f"``, or ``"s"`` for a text.
    drawn : tuple of str, default=()
        The columns that a plot compares. They have one unit.
    unit : str, default=""
        That unit.
    """

    first: str
    columns: Mapping[str, str]
    drawn: Sequence[str] = ()
    unit: str = ""
    rows: dict[str, list[Figure]] = field(default_factory=dict)

    def add(self, row: str, *figures: Figure) -> None:
        """Add a row, and print it; a figure that was not measured is None."""
        if len(figures) != len(self.columns):
            raise ValueError(f"{row}: {len(figures)} figures for {len(self.columns)} columns")
        if not self.rows:
            print(*self._head(), sep="\n")
        self.rows[row] = list(figures)
        print(self._line(row), flush=True)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the table in Markdown."""
        yield from self._head()
        yield from map(self._line, self.rows)

    def _head(self) -> tuple[str, str]:
        return f"| {' | '.join([self.first, *self.columns])} |", "|---" * (len(self.columns) + 1) + "|"

    def _line(self, row: str) -> str:
        formats = self.columns.values()
        cells = ["" if x is None else format(x, f) for x, f in zip(self.rows[row], formats, strict=True)]
        return f"| {' | '.join([row, *cells])} |"

    def record(self) -> dict[str, Any]:
        """Return what a file holds of the table, rounded to the digits that say something."""
        rows = {
            row: [float(f"{x:.5g}") if isinstance(x, float) else x for x in figures]
            for row, figures in self.rows.items()
        }
        return {**vars(self), "columns": dict(self.columns), "drawn": list(self.drawn), "rows": rows}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the table that a file holds."""
        return cls(**record)


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help is the script's docstring, with ``--json``."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures to this file, too")
    return parser


def machine(device: str = "cpu") -> dict[str, Any]:
    """Return on what is measured: cores, processor, BLAS's kernels, GPU, system, versions, and the day."""
    versions, gpu = {"Python": platform.python_version()}, {}
    for package, name in PACKAGES.items():
        try:
            versions[name] = version(package).partition("+")[0]
        except PackageNotFoundError:
            continue
    if device == "cuda":
        import cupy

        gpu = {"gpu": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()}
        versions["CuPy"] = cupy.__version__
    return gpu | {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": _processor(),
        "kernels": _kernels(),
        "system": platform.system(),
        "versions": versions,
        "date": datetime.now(UTC).date().isoformat(),
    }


def _kernels() -> str:
    """Return the processors for which the BLAS libraries of this process choose their kernels."""
    found = {
        library.get("architecture", "") for library in threadpool_info() if library["user_api"] == "blas"
    }
    return ", ".join(sorted(found - {""}))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def write(path: Path | None, tables: Mapping[str, Table], device: str = "cpu") -> None:
    """Write tables by name, and the facts of this machine, unless there is no path."""
    if path is not None:
        held = {
            "machine": machine(device),
            "tables": {name: table.record() for name, table in tables.items()},
        }
        path.write_text(json.dumps(held, indent=1) + "\n")


def read(path: Path) -> tuple[dict[str, Any], dict[str, Table]]:
    """Return the facts of the machine, and the tables of a file by name."""
    held = json.loads(path.read_text())
    return held["machine"], {name: Table.of_record(record) for name, record in held["tables"].items()}
