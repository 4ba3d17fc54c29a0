"""Results of a stage: figures, failures, and the line of a failure to look at."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Found", "Skipped", "failure_of"]

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "sknet"


class Skipped(Exception):  # noqa: N818 - nothing is wrong
    """A stage, or a part of one, that this machine cannot run; the message says why."""


@dataclass
class Found:
    """Results of a stage."""

    figures: dict[str, Any] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def attempt(self, name: str, function: Callable[[], Any]) -> None:
        """Keep what a function returns, why it skips, or how it fails."""
        try:
            self.figures[name] = function()
        except Skipped as reason:
            self.figures[name] = f"skipped: {reason}"
        except Exception as error:  # of any kind: the other checks go on
            self.failures.append({"name": name} | failure_of(error))


def failure_of(error: BaseException) -> dict[str, Any]:
    """Return an error's type and message, and its innermost frame in sknet, or else in this check."""
    frames = traceback.extract_tb(error.__traceback__)
    found: dict[str, Any] = {"error": f"{type(error).__name__}: {error}"}
    for folder in (PACKAGE, HERE):
        if inside := [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]:
            frame = inside[-1]
            return found | {"file": frame.filename, "line": frame.lineno, "function": frame.name}
    return found
