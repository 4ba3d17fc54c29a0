"""Every public name has a numpydoc docstring that agrees with its signature.

Required are: a one-line summary for everything; parameters, in the order of the signature and each with a
type, for callables; the result, for functions that return something; the errors, for what raises some; an
example. A method that overrides another inherits its docstring. For methods, prose that mentions every
parameter is enough: the class says the rest. The docstring of an operation is completed by `docs.operations`,
that of a class with constraints by `docs.extensions.docstrings`.
"""

import ast
import inspect
import re
import textwrap
import traceback
from collections.abc import Callable, Iterator

import pytest

from docs import operations
from docs.extensions.docstrings import constrained
from docs.extensions.names import is_known
from tests.project import ROOT, is_protocol, public_objects, source_files

SECTION = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}$", re.MULTILINE)
FIELD = re.compile(r"^(\*{0,2}\w[\w, *]*?)(?: : (\S.*))?$", re.MULTILINE)
UNNAMED = {"args", "kwargs"}
NOT_NAMES = re.compile(r":\w+:`[^`]*`|``.*?``|^ *(?:>>>|\.\.\.) [^\n]*$", re.MULTILINE | re.DOTALL)
NOTHING = (inspect.Signature.empty, None, "None", "NoReturn", "Never")
NOT_OF_USERS = {"NotImplementedError", "AttributeError", "StopIteration"}  # Python's protocols
POSITIONAL = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
PUBLIC = public_objects()
OPERATIONS = [value for path, value in PUBLIC.items() if path.startswith("sknet.ops.")]


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
    return "." in function.__qualname__ and "<locals>" not in function.__qualname__


def raised(function: Callable, *, calls: int) -> set[str]:
    """Return the errors that a function raises, itself or by calls within its package, so many calls deep."""
    found: set[str] = set()
    for node in unguarded(ast.parse(source_of(function))):
        if isinstance(node, ast.Raise) and node.exc is not None:
            error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            found |= {error.id} if isinstance(error, ast.Name) and error.id[0].isupper() else set()
        elif calls and isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = function.__globals__.get(node.func.id)
            if inspect.isfunction(called) and package_of(called) == package_of(function):
                found |= raised(inspect.unwrap(called), calls=calls - 1)
    return found - NOT_OF_USERS


def package_of(function: Callable) -> list[str]:
    return function.__module__.split(".")[:2]


def source_of(function: Callable) -> str:
    """Return the source of a function, none if it was generated."""
    try:
        return textwrap.dedent(inspect.getsource(function))
    except OSError:
        return ""


def unguarded(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree but those in a ``try`` with handlers, and in functions that it defines."""
    yield tree
    for node in ast.iter_child_nodes(tree):
        inner = isinstance(tree, (ast.FunctionDef, ast.Lambda)) and isinstance(node, ast.FunctionDef)
        for part in [*node.handlers, *node.orelse] if isinstance(node, ast.Try) and node.handlers else [node]:
            yield from () if inner or isinstance(node, ast.Lambda) else unguarded(part)


def raising_faults(doc: str, function: Callable, *, calls: int) -> Iterator[str]:
    function = inspect.unwrap(function)
    if inspect.isfunction(function) and "Raises" not in sections(doc):
        yield from (f"does not say that it raises {name}" for name in sorted(raised(function, calls=calls)))


def function_faults(function: Callable) -> Iterator[str]:
    doc = inspect.getdoc(function)
    if not doc:
        yield "has no docstring"
        return
    yield from summary_faults(doc)
    if may_be_prose(function):
        yield from raising_faults(doc, function, calls=0)
        if "Parameters" not in sections(doc):
            names = [name.lstrip("*") for name in signature_names(function)]
            names = [name for name in names if name not in UNNAMED]
            yield from (f"does not mention {name}" for name in names if not re.search(rf"\b{name}\b", doc))
            return
    else:
        if function in OPERATIONS:
            doc = "\n".join([doc, *operations.sections(function, doc)])
        yield from raising_faults(doc, function, calls=1)
        if ">>>" not in sections(doc).get("Examples", ""):
            yield "has no example"
    yield from parameter_faults(doc, signature_names(function))
    yield from return_faults(doc, function)


def is_record(cls: type) -> bool:
    return hasattr(cls, "_fields") or hasattr(cls, "__dataclass_fields__")


def class_faults(cls: type) -> Iterator[str]:
    doc = inspect.cleandoc(cls.__doc__ or "")
    if not doc:
        yield "has no docstring"
        return
    yield from summary_faults(doc)
    if ">>>" not in sections(doc).get("Examples", ""):
        yield "has no example"
    if is_protocol(cls) or issubclass(cls, Exception):
        return  # it is never created by users
    section = "Attributes" if is_record(cls) else "Parameters"
    yield from parameter_faults(doc, signature_names(cls), section=section)
    for name in ("__init__", "__post_init__"):
        if name in vars(cls) and not constrained(cls, doc):
            yield from raising_faults(doc, vars(cls)[name], calls=1)


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


QUESTION = re.compile(r"(?:What|How|Which|Whether|Of|Where|When|Why)\b")


def described(node: ast.AST) -> bool:
    return isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))


@pytest.mark.slow
def test_docstrings_begin_with_a_verb_or_a_noun():
    """Neither questions nor headless phrases, in private modules either."""
    found = [
        f"{path.relative_to(ROOT)}: {doc.splitlines()[0]}"
        for path in source_files("sknet")
        for node in ast.walk(ast.parse(path.read_text()))
        if described(node) and QUESTION.match(doc := ast.get_docstring(node) or "")
    ]
    assert not found, "\n".join(found)


def test_names_in_single_backquotes_are_known():
    """As in a build of the site, where they become links."""
    unknown = []
    for path, value in public_members():
        has_page = callable(value) or isinstance(value, property)
        if not has_page or str(getattr(value, "__module__", "")).startswith("sklearn"):
            continue
        text = NOT_NAMES.sub("", inspect.getdoc(value) or "")
        page = f"api/names/{path if path in PUBLIC else path.rpartition('.')[0]}"
        unknown += [f"{path}: `{name}`" for name in re.findall("`(.+?)`", text) if not is_known(name, page)]
    assert not unknown, "\n".join(unknown)


class Wrong:
    """An argument that nothing takes."""


def error_of(cls: type, arguments: list[object]) -> Exception | None:
    """Return the error that a constructor of sknet raises, rather than Python for it."""
    try:
        cls(*arguments)
    except Exception as error:
        *_, last = traceback.extract_tb(error.__traceback__)
        return error if "/sknet/" in last.filename and (last.line or "").startswith("raise ") else None
    return None


def created_by_users(value: object) -> bool:
    is_class = isinstance(value, type) and not issubclass(value, Exception)
    return is_class and not (inspect.isabstract(value) or is_protocol(value))


def test_errors_of_wrong_arguments_are_described():
    silent, errors = [], {}
    for path, cls in PUBLIC.items():
        parameters = inspect.signature(cls).parameters.values() if created_by_users(cls) else ()
        required = [p for p in parameters if p.default is p.empty and p.kind in POSITIONAL]
        error = error_of(cls, [Wrong() for _ in required]) if required else None
        if error is not None and type(error).__name__ not in NOT_OF_USERS:
            doc = errors[path] = inspect.cleandoc(cls.__doc__ or "")
            silent += (
                [f"{path}: {error!r}"] if "Raises" not in sections(doc) and not constrained(cls, doc) else []
            )
    assert len(errors) > 50
    assert not silent, "\n".join(silent)


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

    Examples
    --------
    >>> complete(1, 2)
    """


def without_types(a: int) -> None:
    """Add up.

    Parameters
    ----------
    a
        First.

    Examples
    --------
    >>> without_types(1)
    """


def with_old_names(a: int) -> None:
    """Add up.

    Parameters
    ----------
    b : int
        First.

    Examples
    --------
    >>> with_old_names(1)
    """


def without_returns() -> int:
    """Add up.

    Examples
    --------
    >>> without_returns()
    """


def without_example() -> None:
    """Do nothing."""


def without_errors() -> None:
    """Fail.

    Examples
    --------
    >>> without_errors()  # doctest: +SKIP
    """
    fail()
    try:
        int("one")
    except TypeError:
        raise KeyError("one") from None


def fail() -> None:
    raise ValueError("always")


class WithoutExample:
    """Hold nothing."""

    def mentions(self, size: int) -> int:
        """Return `size`."""

    def omits(self, size: int) -> int:
        """Return it."""

    def fails(self) -> None:
        """Fail."""
        raise ValueError("always")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (complete, []),
        (without_types, ["gives no type for a"]),
        (with_old_names, ["describes the parameters ['b'], its signature says ['a']"]),
        (without_returns, ["does not say what it returns"]),
        (without_example, ["has no example"]),
        (without_errors, ["does not say that it raises KeyError", "does not say that it raises ValueError"]),
        (WithoutExample, ["has no example"]),
        (WithoutExample.mentions, []),
        (WithoutExample.omits, ["does not mention size"]),
        (WithoutExample.fails, ["does not say that it raises ValueError"]),
        (lambda: None, ["has no docstring"]),
    ],
)
def test_the_checker_detects(value, expected):
    assert list(faults(value)) == expected
