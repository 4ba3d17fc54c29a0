"""How modules are printed: a tree, with the arguments that differ from their defaults."""

import inspect

from sknet.nn._protocols import Shown

__all__ = ["arguments", "tree"]


def arguments(module: Shown, leave_out: tuple[str, ...] = ()) -> str:
    """Return the constructor's arguments that the module keeps under their own names.

    As in scikit-learn, those that have their default value are left out; so are those to `leave_out`.
    """
    kept = vars(module)
    return ", ".join(
        f"{name}={kept[name]!r}"
        for name, parameter in inspect.signature(type(module)).parameters.items()
        if name in kept
        and name not in leave_out
        and name not in module._children
        and repr(kept[name]) != repr(parameter.default)
    )


def tree(module: Shown) -> str:
    """Return the module on one line, or its children on a line each."""
    inside = module.extra_repr()
    if module._children:
        children = "".join(f"\n({name}): {child!r}" for name, child in module._children.items())
        inside += children.replace("\n", "\n  ") + "\n"
    return f"{type(module).__name__}({inside})"
