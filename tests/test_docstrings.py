"""Every public name has a numpydoc docstring that agrees with its signature.

Required are: a one-line summary for everything; parameters, in the order of the signature and each with a
type, for callables; the result, for functions that return something; an example for every class that users
create. A method that overrides another inherits its docstring. For methods, ops, and names used only in
extensions, prose that mentions every parameter (except the operand of an op) is enough: the class, the family
or the type hints say the rest.
"""

import enum
import inspect
import re
from collections.abc import Callable, Iterator

import pytest

from tests.project import is_protocol, public_objects

SECTION = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}$", re.MULTILINE)
FIELD = re.compile(r"^(\*{0,2}\w[\w, *]*?)(?: : (\S.*))?$", re.MULTILINE)
PROSE = ("sknet.ops.", "sknet.core.", "sknet.device.")
UNNAMED = {"x", "xs", "*args", "**kwargs"}
NOTHING = (inspect.Signature.empty, None, "None", "NoReturn", "Never")
PUBLIC = public_objects()


def sections(doc: str) -> dict[str, str]:
    """Split a docstring by its headings; the text before the first is the ''-section."""
    first, *rest = SECTION.split(doc)
    return {"": first, **dict(zip(rest[::2], rest[1::2], strict=True))}


def fields(section: str) -> dict[str, str | None]:
    """Read the ``name : type`` lines of a section; two names may share one line."""
    found = FIELD.findall(inspect.cleandoc(section))
    return {name.strip(): kind for names, kind in found for name in names.split(",")}


def signature_names(function: Callable) -> list[str]:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [
        stars.get(parameter.kind, "") + name
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in ("self", "cls") and not name.startswith("_")
    ]


def summary_faults(doc: str) -> Iterator[str]:
    summary = sections(doc)[""].split("\n\n")[0].strip()
    if not summary:
        yield "has no summary"
    elif "\n" in summary:
        yield "has a summary of more than one line"
    elif not summary.endswith("."):
        yield "has a summary without a full stop"


def parameter_faults(doc: str, names: list[str], *, section: str = "Parameters") -> Iterator[str]:
    found = sections(doc)
    described = fields(found.get("Parameters", "")) | fields(found.get("Other Parameters", ""))
    if section == "Attributes" and not described:
        described = fields(found.get(section, ""))
    if list(described) != names:
        yield f"describes the parameters {list(described)}, its signature says {names}"
    yield from (f"gives no type for {name}" for name, kind in described.items() if not kind)


def return_faults(doc: str, function: Callable) -> Iterator[str]:
    returned = inspect.signature(function).return_annotation
    if returned not in NOTHING and not {"Returns", "Yields"} & set(sections(doc)):
        yield "does not say what it returns"


def may_be_prose(function: Callable) -> bool:
    is_method = "." in function.__qualname__ and "<locals>" not in function.__qualname__
    return is_method or function.__module__.startswith(PROSE)


def function_faults(function: Callable) -> Iterator[str]:
    doc = inspect.getdoc(function)
    if not doc:
        yield "has no docstring"
        return
    yield from summary_faults(doc)
    if may_be_prose(function) and "Parameters" not in sections(doc):
        names = [name.lstrip("*") for name in signature_names(function) if name not in UNNAMED]
        yield from (f"does not mention {name}" for name in names if not re.search(rf"\b{name}\b", doc))
        return
    yield from parameter_faults(doc, signature_names(function))
    yield from return_faults(doc, function)


def is_record(cls: type) -> bool:
    return hasattr(cls, "_fields") or hasattr(cls, "__dataclass_fields__")


def needs_example(cls: type) -> bool:
    """Tell whether users create objects of this class, rather than get or extend them."""
    return not (is_record(cls) or inspect.isabstract(cls) or issubclass(cls, (Exception, enum.Enum)))


def class_faults(cls: type) -> Iterator[str]:
    doc = inspect.cleandoc(cls.__doc__ or "")
    if not doc:
        yield "has no docstring"
        return
    yield from summary_faults(doc)
    if is_protocol(cls):
        return  # it is never instantiated
    if not issubclass(cls, (Exception, enum.Enum)):
        section = "Attributes" if is_record(cls) else "Parameters"
        yield from parameter_faults(doc, signature_names(cls), section=section)
    if needs_example(cls) and ">>>" not in sections(doc).get("Examples", ""):
        yield "has no example"


def faults(value: object) -> Iterator[str]:
    """Return what a docstring lacks."""
    if isinstance(value, type):
        yield from class_faults(value)
    elif isinstance(value, property):
        yield from summary_faults(inspect.getdoc(value) or "")
    elif callable(value):
        yield from function_faults(value)


def overrides(cls: type, name: str) -> bool:
    return any(name in vars(base) for base in cls.__mro__[1:])


def public_members() -> Iterator[tuple[str, object]]:
    """Yield public names, and the public methods and properties that public classes add to their bases."""
    for path, value in PUBLIC.items():
        yield path, value
        if not isinstance(value, type):
            continue
        for name, member in vars(value).items():
            is_code = isinstance(member, (property, staticmethod, classmethod)) or inspect.isfunction(member)
            if is_code and not name.startswith("_") and not overrides(value, name):
                yield f"{path}.{name}", member if isinstance(member, property) else getattr(value, name)


def test_docstrings():
    found = [f"{path} {fault}" for path, value in public_members() for fault in faults(value)]
    assert not found, "\n".join(found)


def complete(a: int, *rest: int, b: float = 1.0) -> int:
    """Add up.

    Parameters
    ----------
    a : int
        First.
    *rest : int
        More.
    b : float, default=1.0
        Last.

    Returns
    -------
    int
        The sum.
    """


def without_types(a: int) -> None:
    """Add up.

    Parameters
    ----------
    a
        First.
    """


def with_old_names(a: int) -> None:
    """Add up.

    Parameters
    ----------
    b : int
        First.
    """


def without_returns() -> int:
    """Add up."""


class WithoutExample:
    """Hold nothing."""

    def mentions(self, size: int) -> int:
        """Return `size`."""

    def omits(self, size: int) -> int:
        """Return it."""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (complete, []),
        (without_types, ["gives no type for a"]),
        (with_old_names, ["describes the parameters ['b'], its signature says ['a']"]),
        (without_returns, ["does not say what it returns"]),
        (WithoutExample, ["has no example"]),
        (WithoutExample.mentions, []),
        (WithoutExample.omits, ["does not mention size"]),
        (lambda: None, ["has no docstring"]),
    ],
)
def test_the_checker_detects(value, expected):
    assert list(faults(value)) == expected
