"""The stages, and the file of their results, which is written after each of them."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sknet.persistence import write_atomically
from tools.gpu_check._errors import errors
from tools.gpu_check._fits import fits
from tools.gpu_check._found import Found, Skipped, failure_of
from tools.gpu_check._kernels import kernels
from tools.gpu_check._levers import levers
from tools.gpu_check._machine import Machine
from tools.gpu_check._networks import networks
from tools.gpu_check._operations import operations
from tools.gpu_check._products import products
from tools.gpu_check._steps import TINY, Configuration, steps
from tools.gpu_check._streams import streams

__all__ = ["STAGES", "TIMED", "Results", "Stage", "run"]


@dataclass(frozen=True)
class Stage:
    """A part of the check."""

    function: Callable[..., Found]
    what: str
    small: Mapping[str, Any] = field(default_factory=dict)  # arguments of the small form


def facts(machine: Machine) -> Found:
    """Return the facts of the machine."""
    return Found(machine.facts())


SMALL = {"configurations": TINY, "rounds": 1}
STEPS = SMALL | {"side": 64}
STAGES = {
    "facts": Stage(facts, "device, driver and libraries"),
    "fits": Stage(
        fits, "whole fits against the CPU", {"names": ("classifier, tf32", "classifier, bfloat16", "images")}
    ),
    "operations": Stage(
        operations,
        "each primitive, eager and compiled: the tests of a checkout",
        {"pattern": "test_scores.py"},
    ),
    "streams": Stage(streams, "streams, devices, memory, events per step"),
    "steps": Stage(steps, "time and launches of a step", STEPS),
    "networks": Stage(
        networks,
        "time of a step of one and of many small networks",
        {
            "each": Configuration((4, 8, 3), 16, 2, 1, 4),
            "counts": (1, 3),
            "few": 1,
            "many": 2,
            "rounds": 1,
            "longest": 2,
        },
    ),
    "steps-tf32": Stage(partial(steps, dtype="tf32"), "the same with products in tf32", STEPS),
    "kernels": Stage(
        kernels,
        "kernels of a step by name, count and time, beside PyTorch's graph",
        {"configurations": TINY, "dtypes": ("float32",)},
    ),
    "levers": Stage(
        levers,
        "the same without one of the ways in which a step is made faster",
        SMALL | {"dtypes": ("float32",), "images": Configuration((4, 16, 16), 8, 2, 1, 2)},
    ),
    "products": Stage(
        products,
        "each algorithm that the library offers for the products of steps",
        {"configurations": TINY, "dtypes": ("float32",), "calls": 1},
    ),
    "errors": Stage(errors, "errors of products against float64", {"sizes": [(256, 300, 256)]}),
    "steps-tf32x3": Stage(
        partial(steps, dtype="tf32x3"), "the same with three products in tf32 for one", STEPS
    ),
    "steps-bfloat16": Stage(
        partial(steps, dtype="bfloat16"),
        "the same with products, and arrays between them, in bfloat16",
        STEPS,
    ),
}
# By precision.
TIMED = {"float32": "steps", "tf32": "steps-tf32", "tf32x3": "steps-tf32x3", "bfloat16": "steps-bfloat16"}


class Results:
    """The file of the results."""

    def __init__(self, path: Path, is_small: bool = False) -> None:
        self.path, self.is_small = path, is_small
        self.stages: dict[str, dict[str, Any]] = {}
        if path.exists():
            try:
                held = json.loads(path.read_text())
                self.stages = held["stages"]
                self.is_done("facts")
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(
                    f"{path} exists and holds no results of this command: write to another file by --out"
                ) from error
            if self.stages and held.get("small", False) is not is_small:
                raise ValueError(f"{path} holds results of the other form: write to another file by --out")

    def is_done(self, name: str) -> bool:
        """Tell whether a stage has run to its end; one that raised has not."""
        return self.stages.get(name, {}).get("status") in ("passed", "failed", "skipped")

    def check_machine(self, machine: Machine) -> None:
        """Raise a ValueError if results of another device are held."""
        known = self.stages.get("facts", {}).get("figures", {}).get("name")
        here = machine.facts().get("name")
        if known not in (None, here):
            raise ValueError(
                f"{self.path} holds results of {known}, and this is {here}: write to another file by --out"
            )

    def keep(self, name: str, record: dict[str, Any]) -> None:
        """Write a stage's results down."""
        self.stages[name] = record
        form = {"small": True} if self.is_small else {}
        held = {"sknet": sys.modules["sknet"].__version__, **form, "stages": self.stages}
        write_atomically(self.path, [json.dumps(held, indent=1, default=str).encode() + b"\n"])

    @property
    def is_fine(self) -> bool:
        """True if no stage failed."""
        return all(each["status"] in ("passed", "skipped") for each in self.stages.values())


def run(
    machine: Machine, results: Results, again: tuple[str, ...] = (), stages: Mapping[str, Stage] = STAGES
) -> None:
    """Run the stages that are not done."""
    for name, stage in stages.items():
        if results.is_done(name) and name not in again:
            record = results.stages[name]
            print(f"{name}: done before ({record['status']}); repeat it by --again {name}")
        else:
            print(f"{name}: {stage.what} ...", flush=True)
            record = _record(stage, machine, results.is_small)
            results.keep(name, record)
            print(f"{name}: {record['status']}, {record['seconds']:.1f} s", flush=True)
        for line in _said(record):
            print(f"  {line}", flush=True)


def _record(stage: Stage, machine: Machine, is_small: bool) -> dict[str, Any]:
    """Run a stage; return what is written down."""
    started, record = time.perf_counter(), {}
    try:
        found = stage.function(machine, **(stage.small if is_small else {}))
        record = {"status": "failed" if found.failures else "passed", **asdict(found)}
    except Skipped as reason:
        record = {"status": "skipped", "reason": str(reason)}
    except Exception as error:  # of any kind: later stages say more
        record = {"status": "raised", "failures": [{"name": "the stage"} | failure_of(error)]}
    return record | {"seconds": round(time.perf_counter() - started, 3)}


def _said(record: Mapping[str, Any]) -> list[str]:
    if record["status"] == "skipped":
        return [record["reason"]]
    lines = []
    for failure in record.get("failures", ()):
        place = failure.get("line to look at", "")
        if "file" in failure:
            place = f"{failure['file']}:{failure['line']}"
        lines.append(f"{failure['name']}: {failure['error']}" + (f" [{place}]" if place else ""))
    return lines
