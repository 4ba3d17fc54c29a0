"""Time training steps of perceptrons on a GPU: sknet's, and PyTorch's with and without a CUDA graph.

Runs ``python -m tools.gpu_check``, which also checks that sknet works on this GPU, unless its results are
there already. A step is the difference between a long and a short fit, divided by the difference in steps;
PyTorch's is a loop with the fused Adam, on rows that it takes by an index. The least time is that of the
arithmetic and memory of the step, at rates that are measured first.

    python examples/benchmarks/gpu.py [--results gpu_check.json] [--json PATH]
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from measured import Table, parser_of, write

ROOT = Path(__file__).parents[2]
# By stage.
PRECISIONS = {"steps": "float32"} | {f"steps-{name}": name for name in ("tf32", "tf32x3", "bfloat16")}
SIDES = ("sknet", "PyTorch", "PyTorch, one graph", "least time")
STEPS = Table(
    "network, products in",
    {"kernels and copies": ".1f", **dict.fromkeys(SIDES, ".0f"), "sknet / one graph": ".2f"},
    drawn=SIDES,
    unit="microseconds per step",
)


def rows(stages: Mapping[str, Any]) -> Iterator[tuple[str, list[float | None]]]:
    """Yield the figures of each network in each precision."""
    timed = {stage: stages[stage].get("figures", {}) for stage in PRECISIONS if stage in stages}
    for network in dict.fromkeys(name for found in timed.values() for name in found if name != "rates"):
        for stage in timed:
            found = timed[stage].get(network, {})
            torch = found.get("torch")
            torch = torch if isinstance(torch, dict) else {}  # skipped, where it is not installed
            sides = found.get("sknet"), torch.get("torch eager"), torch.get("torch graph"), found.get("floor")
            ratio = sides[0] / sides[2] if sides[0] and sides[2] else None
            figures = [None if seconds is None else seconds * 1e6 for seconds in sides]
            yield f"{network}, {PRECISIONS[stage]}", [found.get("launches"), *figures, ratio]


def main() -> None:
    """Check, and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--results", type=Path, default=Path("gpu_check.json"), help="of the check")
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "tools.gpu_check", "--out", str(arguments.results.resolve())]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    if not arguments.results.exists():
        sys.exit(status)
    for name, figures in rows(json.loads(arguments.results.read_text())["stages"]):
        STEPS.add(name, *figures)
    write(arguments.json, {"steps": STEPS}, device="cuda")


if __name__ == "__main__":
    main()
