"""The command."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from sknet.exceptions import DeviceError
from tools.gpu_check._machine import Cuda, Machine
from tools.gpu_check._report import table
from tools.gpu_check._stages import STAGES, TIMED, Results, run

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None, machine: Callable[[], Machine] = Cuda) -> int:
    """Run the stages that are not done, and print a table of the times of steps.

    Parameters
    ----------
    arguments : sequence of str, optional
        ``--out PATH``, the file of the results (gpu_check.json in the current folder), ``--again NAME``, a
        stage to repeat, and ``--small``, all stages with tiny sizes, a trial of the check itself; by default
        those of the command line.
    machine : callable, optional
        Returns what is checked; by default the first CUDA device.

    Returns
    -------
    int
        The exit status: 0, or 1 if a stage failed, or there is no GPU.

    Examples
    --------
    >>> from tools.gpu_check import main
    >>> main(["--out", "gpu_check.json"])  # doctest: +SKIP
    facts: device, driver and libraries ...
    facts: passed, 0.1 s
    ...
    0
    """
    parser = argparse.ArgumentParser(prog="python -m tools.gpu_check", description="The first run on a GPU.")
    parser.add_argument(
        "--out", type=Path, default=Path("gpu_check.json"), metavar="PATH", help="the results"
    )
    parser.add_argument(
        "--again", action="append", default=[], choices=STAGES, metavar="NAME", help="a stage to repeat"
    )
    parser.add_argument("--small", action="store_true", help="all stages with tiny sizes: a trial")
    options = parser.parse_args(arguments)
    try:
        results, here = Results(options.out, options.small), machine()
        results.check_machine(here)
        run(here, results, tuple(options.again))
    except (DeviceError, ValueError, OSError) as error:
        print(f"nothing is checked: {error}", file=sys.stderr)
        return 1
    timed = {dtype: results.stages.get(name, {}).get("figures", {}) for dtype, name in TIMED.items()}
    print(f"\n{table(timed)}\n\nAll results: {options.out}")
    return 0 if results.is_fine else 1
