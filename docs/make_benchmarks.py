"""Write the figures of docs/benchmarks.md: ``python -m docs.make_benchmarks``.

The page's tables, the lines about the machine, and the README's picture and row of a training step come from
the files in ``docs/measured``, which the scripts of ``examples/benchmarks`` write::

    python -m docs.make_benchmarks                              # writes the page from the files
    python -m docs.make_benchmarks --run --data DIR             # runs all scripts before, an hour
    python -m docs.make_benchmarks --run training-native search # runs some of them
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from examples.benchmarks.measured import Table, read
from tests.project import ROOT

PAGE = ROOT / "docs/benchmarks.md"
README = ROOT / "README.md"
PICTURE = ROOT / "docs/_static/glance.svg"
MEASURED = ROOT / "docs/measured"
BLOCK = re.compile(r"(<!-- measured: (\S+)(?: (\S+))? -->\n).*?(<!-- end -->)", re.DOTALL)
ROW = re.compile(r"^\| a training step, (.*?) \|.*$", re.MULTILINE)


class Run(NamedTuple):
    """How a file of figures is made."""

    script: str
    environment: Mapping[str, str] = {}
    needs_data: bool = False
    arguments: tuple[str, ...] = ()
    needs_gpu: bool = False


RUNS = {
    "training-numpy": Run("training.py", {"SKNET_NATIVE": "never"}),
    "training-native": Run("training.py", {"SKNET_NATIVE": "always"}),
    "split": Run("split.py"),
    "cold": Run("cold.py"),
    "start": Run("start.py"),
    "search": Run("search.py"),
    "busy": Run("busy.py"),
    "halving": Run("halving.py"),
    "tables": Run("tables.py", needs_data=True),
    "adult": Run("adult.py", needs_data=True),
    "untouched": Run("untouched.py", needs_data=True),
    "large-tables": Run("large_tables.py"),
    "threads": Run("threads.py"),
    "validation": Run("validation.py"),
    "memory": Run("memory.py"),
    "functional": Run("functional.py"),
    "layers": Run("layers.py", {"OMP_NUM_THREADS": "2"}),
    "networks": Run("networks.py", {"OMP_NUM_THREADS": "2"}),
    "fashion": Run("fashion.py", {"OMP_NUM_THREADS": "2"}, needs_data=True),
    "sequences": Run("sequences.py", {"OMP_NUM_THREADS": "1"}),
    "serving": Run("serving.py"),
    "gpu": Run("gpu.py", needs_gpu=True),
    "networks-gpu": Run("networks.py", arguments=("--device", "cuda"), needs_gpu=True),
}

DTYPES = "float32", "tf32", "tf32x3", "bfloat16"

# What container images set, but users do not: with the first, each process compiles all of sknet again; with
# the others, OpenBLAS multiplies with the kernels of another processor, at half the speed on some.
NOT_OF_USERS = {"PYTHONDONTWRITEBYTECODE", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"}


def measure(names: Sequence[str], data: Path | None) -> None:
    """Run the scripts of some files, one after the other."""
    for name in names or RUNS:
        script, environment, needs_data, more, needs_gpu = RUNS[name]
        if needs_data and data is None:
            print(f"{name} needs --data DIR, and stays as it is", file=sys.stderr)
            continue
        if needs_gpu and not names:
            print(f"{name} needs a GPU, and stays as it is unless it is named", file=sys.stderr)
            continue
        command = [sys.executable, ROOT / "examples/benchmarks" / script, "--json", MEASURED / f"{name}.json"]
        command += [*more, *(["--data", data] if needs_data and data is not None else [])]
        print(f"\n{name}", flush=True)
        settings = {name: value for name, value in os.environ.items() if name not in NOT_OF_USERS}
        subprocess.run(command, env=settings | {"PYTHONPATH": str(ROOT), **environment}, check=True)


def tables() -> dict[tuple[str, str], Table]:
    """Return all tables by file and name."""
    found = {(name, key): table for name in RUNS for key, table in read(MEASURED / f"{name}.json")[1].items()}
    for path in MEASURED.glob("gpu-check-*.json"):
        found[path.stem, "steps"] = of_check(json.loads(path.read_text())["stages"])
    return found


def of_check(stages: Mapping[str, Any]) -> Table:
    """Return microseconds of steps that `tools.gpu_check` measured; what it did not is left empty."""
    columns = "sknet", "kernels of sknet", "PyTorch, one graph", "kernels of PyTorch"
    table = Table("network, products in", dict.fromkeys(columns, ".0f"))
    figures = {name: stage.get("figures", {}) for name, stage in stages.items()}
    kernels = figures.get("kernels", {})
    for name in [name for name in figures.get("steps", {}) if name != "rates"]:
        for dtype in DTYPES:
            row = figures.get("steps" if dtype == "float32" else f"steps-{dtype}", {}).get(name, {})
            torch = row.get("torch")
            found = [
                row.get("sknet"),
                _sum(kernels.get(f"{name}, {dtype}, sknet")),
                torch["torch graph"] if isinstance(torch, dict) else None,
                _sum(kernels.get(f"{name}, {dtype}, PyTorch, one graph")),
            ]
            table.rows[f"{name}, {dtype}"] = [None if x is None else 1e6 * x for x in found]
    return table


def _sum(kernels: Any) -> float | None:
    """Return the seconds of all kernels of a step; None for a reason why there are none."""
    return sum(seconds for _, seconds in kernels.values()) if isinstance(kernels, dict) else None


def page() -> str:
    """Return the page with the figures of the files."""
    known = tables()

    def block(match: re.Match[str]) -> str:
        head, name, key, end = match.groups()
        lines = machines() if name == "machines" else list(known[name, key].lines())
        return "\n".join([head.rstrip(), *lines, end])

    return BLOCK.sub(block, PAGE.read_text())


def readme() -> str:
    """Return the README with the microseconds of a training step: sknet's, scikit-learn's and PyTorch's."""
    known = tables()["training-native", "steps"]

    def row(match: re.Match[str]) -> str:
        figures = dict(zip(known.columns, known.rows[match[1]], strict=True))
        ours, theirs, torch = (f"{figures[name]:.0f} us" for name in ("sknet", "scikit-learn", "PyTorch"))
        return f"| a training step, {match[1]} | {ours} | {theirs} | | {torch} |"

    return ROW.sub(row, README.read_text())


STEPS = "20-100-2, batch 32"  # the network whose steps the picture counts
OURS, THEIRS = "#2f74b5", "#9aa3ad"
HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 880 {height}"
 font-family="system-ui, sans-serif" font-size="14">
<rect width="880" height="{height}" rx="8" fill="#ffffff"/>"""


def picture() -> str:
    """Return the README's picture: raw Adult data beside HistGradientBoosting, and steps per second."""
    known = tables()
    adult, steps = known["adult", "scores"].rows, known["training-native", "steps"]
    rates = dict(zip(steps.columns, steps.rows[STEPS], strict=True))
    per_second = {name: 1e6 / float(rates[name] or 0) for name in ("sknet", "scikit-learn", "PyTorch")}
    least = min(float(row[0] or 0) for row in adult.values()) - 0.01
    lines = [HEAD.format(height=86 + 26 * len(adult))]
    lines += [_text(20, 30, "Raw Adult data: area under the ROC curve", weight=600)]
    lines += [_text(555, 30, "Training steps per second", weight=600)]
    scale = 200 / (max(float(row[0] or 0) for row in adult.values()) - least)
    for k, (name, (score, seconds)) in enumerate(adult.items()):
        x = 220 + scale * (float(score or 0) - least)
        lines += _row(k, 20, name, 220, x, f"{score:.3f} in {seconds:.1f} s", is_dot=True)
    for k, (name, rate) in enumerate(per_second.items()):
        width = 160 * rate / max(per_second.values())
        lines += _row(k, 555, name, 650, 650 + width, f"{rate:,.0f}", is_dot=False)
    y = 72 + 26 * len(adult)
    lines += [_text(20, y, "Defaults, 10,000 rows; seconds of one core.", fill=THEIRS)]
    lines += [_text(555, y, f"Perceptron {STEPS}, two cores.", fill=THEIRS), "</svg>\n"]
    return "\n".join(lines)


def _row(
    number: int, x: float, name: str, start: float, end: float, told: str, *, is_dot: bool
) -> Sequence[str]:
    """Return a line of a chart: a name, a dot or a bar, and its figure."""
    y, color = 58 + 26 * number, OURS if name.startswith("sknet") else THEIRS
    mark = (
        f'<path d="M{start} {y}H{end:.0f}" stroke="{color}" stroke-opacity=".3"/>'
        f'<circle cx="{end:.0f}" cy="{y}" r="6" fill="{color}"/>'
        if is_dot
        else f'<rect x="{start}" y="{y - 8}" width="{max(1, end - start):.0f}" height="16" fill="{color}"/>'
    )
    return [_text(x, y + 5, name), mark, _text(end + 12, y + 5, told)]


def _text(x: float, y: float, said: str, *, fill: str = "#24292f", weight: int = 400) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="{fill}" font-weight="{weight}">{said}</text>'


def machines() -> list[str]:
    """Return a line for each machine with its versions: what was measured there, and when."""
    found: dict[str, list[tuple[str, date]]] = {}
    for name in RUNS:
        machine, _ = read(MEASURED / f"{name}.json")
        found.setdefault(facts(machine), []).append((name, date.fromisoformat(machine["date"])))
    return [f"{known} {when(entries, len(found) > 1)}" for known, entries in found.items()]


def facts(machine: Mapping[str, Any]) -> str:
    """Return what is known of a machine."""
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    kernels = f", OpenBLAS's kernels for {machine['kernels']}" if machine.get("kernels") else ""
    gpu = f"{machine['gpu']}, " if "gpu" in machine else ""
    return (
        f"{gpu}{machine['cores']} cores ({machine['processor']}{kernels}), {machine['system']}, {versions}."
    )


def when(entries: Sequence[tuple[str, date]], with_names: bool) -> str:
    """Return on which days something was measured."""
    days = sorted({day for _, day in entries})
    span = " to ".join(f"{day.day} {day:%B %Y}" for day in dict.fromkeys((days[0], days[-1])))
    names = " (" + ", ".join(f"`{name}`" for name, _ in entries) + ")" if with_names else ""
    return f"Measured {'from ' if len(days) > 1 else 'on '}{span}{names}."


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", nargs="*", choices=RUNS, metavar="NAME", help="run scripts before")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder with datasets.json, for the tables")
    arguments = parser.parse_args()
    if arguments.run is not None:
        measure(arguments.run, arguments.data)
    PAGE.write_text(page())
    README.write_text(readme())
    PICTURE.write_text(picture())


if __name__ == "__main__":
    main()
