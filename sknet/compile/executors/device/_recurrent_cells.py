"""The formulas of recurrent cells for kernels: those of `sknet.ops`, for one element of a row's states.

In a step forward ``q0``, ``q1``, ... are elements of the product of hidden state and recurrent weights, one
for each gate, ``z0``, ... those of the product of input and weights, ``b0``, ... the biases, and ``h_before``
and ``c_before`` the states, of which ``h`` and ``c`` are computed. A step back has all that is saved of this,
``dh`` and ``dc_after``, the gradients of the states after the step, and computes ``d0``, ... of the gates,
``dc_before``, and ``dh_kept``: what of ``dh`` goes to the hidden state before the step without passing
through the weights.
"""

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["FORMULAS", "Formulas"]


class Formulas(NamedTuple):
    """A cell."""

    forward: Mapping[str, str]
    backward: Mapping[str, str]
    saved: tuple[str, ...] = ()
    of_inputs: tuple[str, ...] = ("d0",)
    of_states: tuple[str, ...] = ("d0",)

    @property
    def differ(self) -> bool:
        """Tell whether the gradients of the two products differ."""
        return self.of_inputs != self.of_states

    @property
    def keeps(self) -> bool:
        """Tell whether the hidden state is also passed on without going through the weights."""
        return "dh_kept" in self.backward


def _logistic(x: str) -> str:
    """Return the logistic function by tanh, as `sknet.ops` computes it."""
    return f"tanh(({x}) * 0.5) * 0.5 + 0.5"


FOUR = ("d0", "d1", "d2", "d3")
FORMULAS = {
    "tanh": Formulas(
        forward={"h": "tanh(q0 + z0 + b0)"},
        backward={"d0": "(1 - h * h) * dh"},
    ),
    "relu": Formulas(
        forward={"a": "q0 + z0 + b0", "h": "0 if a <= 0 else a"},
        backward={"d0": "dh * (1 if h > 0 else 0)"},
    ),
    "lstm": Formulas(
        forward={
            "input": _logistic("q0 + z0 + b0"),
            "forget": _logistic("q1 + z1 + b1"),
            "candidate": "tanh(q2 + z2 + b2)",
            "output": _logistic("q3 + z3 + b3"),
            "c": "forget * c_before + input * candidate",
            "h": "tanh(c) * output",
        },
        backward={
            "bent": "tanh(c)",
            "dc": "dc_after + (1 - bent * bent) * (dh * output)",
            "d0": "dc * candidate * (input - input * input)",
            "d1": "dc * c_before * (forget - forget * forget)",
            "d2": "dc * input * (1 - candidate * candidate)",
            "d3": "dh * bent * (output - output * output)",
            "dc_before": "dc * forget",
        },
        saved=("input", "forget", "candidate", "output"),
        of_inputs=FOUR,
        of_states=FOUR,
    ),
    "gru": Formulas(
        forward={
            "reset": _logistic("q0 + z0 + b0"),
            "update": _logistic("q1 + z1 + b1"),
            "share": "q2 + b3",
            "candidate": "tanh(reset * share + z2 + b2)",
            "h": "(h_before - candidate) * update + candidate",
        },
        backward={
            "dh_kept": "dh * update",
            "d2": "(1 - candidate * candidate) * (dh - dh_kept)",
            "d1": "(1 - update) * ((h_before - candidate) * dh_kept)",
            "d0": "(reset - reset * reset) * d2 * share",
            "d3": "d2 * reset",
        },
        saved=("reset", "update", "candidate", "share"),
        of_inputs=("d0", "d1", "d2"),
        of_states=("d0", "d1", "d3"),
    ),
}
