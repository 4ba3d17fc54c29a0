"""Suggestions for unknown names, for error messages.

Users are used to the names of other libraries. Tables map these to sknet's names, or to another way to do
the same; for all other names, the most similar ones are suggested. The tables are in `_hints.json`, which is
read by the first message that needs one: each has advice, and the names that it is for.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any


@cache
def tables() -> dict[str, dict[str, list[str]]]:
    """Return all tables, by the package, class or kind of parameters that they are for."""
    import json  # of the standard library, but most programs need no hint

    return json.loads(Path(__file__).with_suffix(".json").read_bytes())


@cache
def hints(table: str) -> Mapping[str, str]:
    """Return a table as advice by name; an empty one for a class that has none."""
    return {name: text for text, names in tables().get(table, {}).items() for name in names}


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# Advice for invalid values of a parameter: a test of the value, and the text.
VALUES: "dict[str, list[tuple[Callable[[Any], bool], str]]]" = {
    "early_stopping": [
        (lambda value: hasattr(value, "on_epoch_end"), "Pass it as callbacks=[{0!r}]."),
        (_is_int, "For patience use early_stopping=True, n_iter_no_change={0!r}."),
    ],
    "batch_size": [(lambda value: value is None, "For all rows at once use batch_size=len(X).")],
    "callbacks": [(lambda value: isinstance(value, dict), "Pass only the values, in a list.")],
    "validation_fraction": [
        (lambda value: value == 0, "To hold out no rows, use early_stopping=False."),
        (
            lambda value: _is_int(value) and value > 1,
            "It is a fraction of the rows: for a number of rows use "
            "validation_split=ShuffleSplit(1, test_size={0!r}).",
        ),
    ],
}


def value_hint(name: str, value: Any) -> str:
    """Return advice for an invalid value of a parameter: a space and a sentence, or an empty string."""
    return next((" " + text.format(value) for fits, text in VALUES.get(name, ()) if fits(value)), "")


def argument_hint(cls: type, name: str, arguments: Iterable[str], parameters: Iterable[str]) -> str:
    """Return the end of a message about an unknown argument of a method."""
    if name in parameters:
        return f": it is a parameter of the estimator, {cls.__name__}({name}=...)."
    others = {**hints("fit"), **(hints("validation rows") if "X_val" in list(arguments) else {})}
    if name in others:
        return suggestion(name, arguments, others)
    text = advice_for(cls).get(name)
    if text is None:
        return suggestion(name, arguments)
    is_parameter = text.removeprefix("use ").partition(" ")[0] in parameters
    return f": {text}, a parameter of {cls.__name__}(...)." if is_parameter else f": {text}."


def suggestion(name: str, known: Iterable[str], advice: Mapping[str, str] | None = None) -> str:
    """Return the end of a message about an unknown name, including its full stop."""
    if advice and name in advice:
        return f": {advice[name]}."
    nearest = difflib.get_close_matches(name, [x for x in known if not x.startswith("_")], n=3, cutoff=0.6)
    return f". Did you mean {' or '.join(map(repr, nearest))}?" if nearest else "."


def or_names(hint: str, names: str) -> str:
    """Return the end of a message about an unknown name: a hint, or without one a sentence with all names."""
    return f". {names}" if hint == "." else hint


class MissingAttributeError(AttributeError):
    """Error for an attribute that an object lacks; its hint is computed only if the message is read."""

    def __init__(self, message: str, hint: Callable[[], str], **more: Any) -> None:
        super().__init__(message, **more)
        self._hint = hint

    def __str__(self) -> str:
        return f"{self.args[0]}{self._hint()}"

    def __reduce__(self) -> Any:
        return AttributeError, (str(self),)


class ForeignAttributes:
    """Mixin of objects whose error for an attribute of another library's objects suggests the right one."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            cls = type(self)
            if hasattr(cls, name):
                return object.__getattribute__(self, name)  # raises the error once more

            def hint() -> str:
                found = (hints(f"attributes {base.__name__}") for base in cls.__mro__)
                advice = next((known[name] for known in found if name in known), None)
                return "" if advice is None else f": {advice.format(cls.__name__)}"

            # Valid programs ask, too, by `hasattr`: they read no tables.
            message = f"{cls.__name__!r} object has no attribute {name!r}"
            raise MissingAttributeError(message, hint, name=name, obj=self)


def parameter_hint(cls: type, name: str, known: Iterable[str], kind: str = "class") -> str:
    """Return the end of a message about an unknown parameter of a class; `kind` is "layer" for modules."""
    known, ours = list(known), hints(f"{kind} parameters").get(name, "").split(", ")
    ours = [other for other in ours if set(other.split(" and ")) <= set(known)]
    if name.partition("__")[0] in known:  # of a part, which does not exist yet
        return f": set it afterwards, by set_params({name}=...)"
    return suggestion(name, known, {name: f"use {ours[0]}"} if ours else advice_for(cls, kind))


def advice_for(cls: type, kind: str = "class") -> dict[str, str]:
    """Return what to do instead of using parameters that a class and its family lack."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        found.update(hints(f"{kind} {base.__name__}"))
    return {name: text.format(cls.__name__) for name, text in found.items()}


def module_getattr(module: str, known: Iterable[str]) -> Callable[[str], Any]:
    """Return a module's ``__getattr__``, which raises an AttributeError that suggests the right name."""

    @lru_cache(maxsize=256)  # `hasattr` asks for the same names again and again
    def hint(name: str) -> str:
        return suggestion(name, known, hints(module))

    def missing(name: str) -> Any:
        raise AttributeError(f"module {module!r} has no attribute {name!r}{hint(name)}")

    return missing
