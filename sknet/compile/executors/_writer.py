"""Writing the source of a step: names for arrays and functions, lines, and what they are bound to."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sknet.compile._graph import Equation, Operand, Variable
from sknet.compile._plan import Plan
from sknet.device import result_dtype

__all__ = ["Writer"]


class Writer:
    """Collects the lines of a step and the names that they use.

    Parameters
    ----------
    plan : Plan
        Where the values live.
    exact : bool
        Whether every bit must be that of the primitives' own kernels.

    Attributes
    ----------
    names : dict of Variable to str
        Names of the arrays.
    bound : dict of str to object
        What functions and constants the lines name; the same for every arena.
    setup : list of str
        Lines that are run once for an arena: views and bound methods.
    lines : list of str
        Lines that are run at every step.
    """

    def __init__(self, plan: Plan, exact: bool) -> None:
        self.plan = plan
        self.exact = exact
        self.names = plan.graph.names()
        self.bound: dict[str, Any] = {}
        self.setup: list[str] = []
        self.lines: list[str] = []
        self.is_dividing = False
        self._in_block: dict[Variable, str] = {}
        self._block_constants: dict[str, tuple[float, Variable]] = {}
        self._constants: dict[Any, str] = {}
        self._made: dict[str, str] = {}
        self._partials = 0

    # -- operands -----------------------------------------------------------------------------

    def name(self, x: Operand) -> str:
        """Return the name of a variable's array, or of its block while blocks are written."""
        return self._in_block.get(x) or self.names[x]

    def scratch(self, equation: Equation, i: int = 0) -> str:
        """Return the name of an array that an equation needs besides."""
        return f"{self.names[equation.output]}_s{i}"

    def operands(self, equation: Equation) -> list[str]:
        """Return the names of all operands; numbers become arrays of the dtype that is computed in."""
        values = equation.operands[1:] if equation.primitive.name == "where" else equation.operands
        dtype = None if len(values) == len(equation.variables) else result_dtype(*values)
        return [self.name(x) if type(x) is Variable else self.constant(x, dtype) for x in equation.operands]

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Return the name of a constant array."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        name = self._constants.get(key)
        if name is None:
            name = self._constants[key] = f"c{len(self._constants)}"
            array.flags.writeable = False
            self.bound[name] = array
        return name

    def number(self, x: Operand) -> str:
        """Return the text of a number: a literal, or the name of an array of shape ()."""
        return self.name(x) if type(x) is Variable else repr(float(x))

    def block_constant(self, value: float, like: Variable) -> str:
        """Return the name of a block of a constant, of the shape of the blocks of `like`."""
        name = f"z{like.dtype.char}{value:g}"
        self._block_constants[name] = (value, like)
        return name

    def begin_blocks(self, names: dict[Variable, str]) -> None:
        """Write lines for blocks from now on: `names` are those of the arrays that are divided."""
        self.is_dividing = True
        self._in_block = names
        self._block_constants = {}

    def end_blocks(self) -> dict[str, tuple[float, Variable]]:
        """Write lines for whole arrays again; return the constants that blocks have used."""
        self.is_dividing = False
        self._in_block = {}
        return self._block_constants

    # -- functions ----------------------------------------------------------------------------

    def function(self, function: Any, name: str) -> str:
        """Return the name of a function that the lines may call."""
        known = self.bound.setdefault(name, function)
        return name if known is function else self.partial(function, name)

    def partial(self, function: Any, name: str) -> str:
        """Return a name of its own for a function."""
        self._partials += 1
        self.bound[f"{name}_{self._partials}"] = function
        return f"{name}_{self._partials}"

    def made(self, expression: str, name: str) -> str:
        """Return the name of something that is made of the arrays once for an arena."""
        found = self._made.get(expression)
        if found is None:
            found = self._made[expression] = f"{name}{len(self._made)}"
            self.setup.append(f"{found} = {expression}")
        return found

    def line(self, text: str) -> None:
        """Add a line to the step."""
        self.lines.append(text)

    # -- the whole ----------------------------------------------------------------------------

    def source(self, arguments: list[str], head: str) -> str:
        """Return the source: ``bind(...)`` makes the views once and returns ``step()``."""
        setup = "".join(f"    {line}\n" for line in self.setup)
        lines = "".join(f"        {line}\n" for line in self.lines) or "        pass\n"
        return (
            f"{head}def bind({', '.join(arguments)}):\n{setup}\n    def step():\n{lines}\n    return step\n"
        )


Emitter = Callable[[Writer, Equation], None]
