"""Faults of sknet that random cases must find: each replaces a check, a key or a rule until a test ends."""

from typing import Any

import numpy as np
import pytest

from sknet import _constraints
from sknet.compile.passes import RULES, _algebra
from sknet.compile.passes._algebra import Rules
from sknet.engine import _fingerprint
from sknet.engine._runners import CompiledSteps
from sknet.estimators import _checks, _fit

WRONG_RULES = Rules(RULES)


@WRONG_RULES.on("exp")
def exp_of_log(rewriter: Any, equation: Any) -> Any:
    """Replace exp(x - log(y)) by exp(x) / y, which may be infinite where the value is not."""
    difference = rewriter.definition(equation.operands[0], "subtract")
    logarithm = rewriter.definition(difference.operands[1], "log") if difference is not None else None
    if logarithm is None:
        return None
    return rewriter.emit("divide", rewriter.emit("exp", difference.operands[0]), logarithm.operands[0])


def same_key(*args: Any) -> int:
    return 0


FAULTS: dict[str, list[tuple[Any, str, Any]]] = {
    "odd data is taken": [
        (_checks, "check_range", lambda array, dtype, name: None),
        (_checks, "refuse_unreadable", np.asarray),
    ],
    "any parameter is taken": [(_constraints, "satisfies", lambda value, of: True)],
    "values are shown by their classes": [(_constraints, "shown", repr)],
    "changed parameters are not seen": [(_fit, "is_", lambda one, other: True)],
    "steps are never outdated": [(CompiledSteps, "is_valid", lambda steps: True)],
    "all objects have one key": [(_fingerprint, "_key_of_object", same_key)],
    "all values have one key": [(_fingerprint, "key_of", same_key)],
    "a rule is wrong": [(_algebra, "ALL_RULES", WRONG_RULES)],
}


def put_in(patch: pytest.MonkeyPatch, fault: str) -> None:
    """Put a fault into sknet."""
    for owner, name, value in FAULTS[fault]:
        patch.setattr(owner, name, value)
