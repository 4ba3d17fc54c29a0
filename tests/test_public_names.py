"""Public names are listed in ``__all__``, exist, and are described in docs/api.md."""

import re
from types import ModuleType

import pytest

from docs.make_api import PAGE, page, plain
from tests.project import ROOT, public_modules

MODULES = sorted(public_modules())
HEADING = re.compile(r"^## `(sknet[\w.]*)`$", re.MULTILINE)
ENTRY = re.compile(r"^- `(\w+)[^`]*`: \S.*\.$", re.MULTILINE)


def api() -> dict[str, list[str]]:
    """Read docs/api.md: module -> the names it describes, one line each."""
    _, *sections = HEADING.split((ROOT / "docs/api.md").read_text())
    return {module: ENTRY.findall(text) for module, text in zip(sections[::2], sections[1::2], strict=True)}


@pytest.mark.parametrize("name", MODULES)
def test_all_is_well_formed(name):
    module = public_modules()[name]
    assert hasattr(module, "__all__"), f"{name} is public, so it lists its names in __all__"
    assert len(set(module.__all__)) == len(module.__all__), "a name is twice in __all__"
    private = [entry for entry in module.__all__ if entry.startswith("_") and entry != "__version__"]
    assert not private
    missing = [entry for entry in module.__all__ if not hasattr(module, entry)]
    assert not missing


@pytest.mark.parametrize("name", MODULES)
def test_all_is_complete(name):
    """A public name that sknet itself defines is either in ``__all__`` or starts with an underscore."""
    module = public_modules()[name]
    own = name + ("." if hasattr(module, "__path__") else "")
    left_out = [
        key
        for key, value in vars(module).items()
        if not key.startswith("_")
        and key not in module.__all__
        and not isinstance(value, ModuleType)
        and str(getattr(value, "__module__", "")).startswith(own)
    ]
    assert not left_out


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_is_described(name):
    """A name exported twice is described once, under either module."""
    modules = public_modules()
    pairs = [(modules.get(module), entry) for module, entries in api().items() for entry in entries]
    described = {id(getattr(module, entry, None)) for module, entry in pairs}
    exported = {entry: getattr(modules[name], entry) for entry in modules[name].__all__}
    missing = [
        entry
        for entry, value in exported.items()
        if entry != "__version__" and not isinstance(value, ModuleType) and id(value) not in described
    ]
    assert not missing, f"add to docs/api.md, under {name}: {missing}"


def test_every_described_name_exists():
    modules = public_modules()
    unknown = [
        f"{module}.{entry}"
        for module, entries in api().items()
        for entry in entries
        if entry not in getattr(modules.get(module), "__all__", ())
    ]
    assert not unknown, f"docs/api.md describes what is not there: {unknown}"


def test_every_line_of_the_api_page_is_an_entry():
    text = (ROOT / "docs/api.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert [line for line in lines if not ENTRY.match(line)] == []


def test_the_api_page_is_current():
    assert PAGE.read_text() == page(), "write it again: python -m docs.make_api"


def test_formulas_become_markdown():
    assert plain(r"The :math:`\max(x, e^{-x})` of ``x``.") == "The `max(x, e^-x)` of `x`."
