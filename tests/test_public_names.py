"""Public names are listed in ``__all__``, exist, and have a page in the API reference of the site."""

import re
import subprocess
import sys
from types import ModuleType

import pytest

import sknet
from docs import reference
from docs.extensions.docstrings import escaped
from tests.project import public_modules

MODULES = sorted(public_modules())
OPTIONAL = (
    *("cupy", "dask", "distributed", "matplotlib", "onnx", "optuna", "pandas", "polars", "skops"),
    *("tensorboardX", "torch", "tqdm"),
)


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


@pytest.mark.parametrize("name", sorted(public_modules()))
def test_dir_lists_the_public_names_and_nothing_else(name):
    """`dir` is what a prompt completes."""
    module = public_modules()[name]
    needing_extras = {"dask"} if name == "sknet" else set()
    assert set(dir(module)) == {*module.__all__, *needing_extras}


def test_star_imports_need_no_extra():
    """In a process in which no package can be imported that an install without extras lacks."""
    modules = {name: module.__all__ for name, module in public_modules().items() if name != "sknet.dask"}
    script = f"""
import sys
class Missing:
    def find_spec(self, name, *args):
        if name.partition(".")[0] in {OPTIONAL}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Missing())
for module, names in {modules}.items():
    found = {{}}
    exec(f"from {{module}} import *", found)
    assert {{*names}} <= {{*found}}, module
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("name", sorted(public_modules()))
def test_every_public_name_has_a_page(name):
    """A name exported twice has one page, under either module."""
    shown = {id(value) for names in reference.entries().values() for value in names.values()}
    exported = {entry: getattr(public_modules()[name], entry) for entry in public_modules()[name].__all__}
    missing = [
        entry
        for entry, value in exported.items()
        if entry != "__version__" and not isinstance(value, ModuleType) and id(value) not in shown
    ]
    assert not missing


def test_pages_are_those_of_the_public_names():
    named = {
        f"names/{module}.{name}.rst": f"{module}.{name}"
        for module, names in reference.entries().items()
        for name in names
    }
    found = reference.pages()
    assert set(found) == {*named, *(f"{module}.rst" for module in reference.entries())}
    for page, path in named.items():
        module, _, name = path.rpartition(".")
        assert f":: {path}\n" in found[page] or f".. currentmodule:: {module}\n\n.. py:" in found[page], page
        assert f":py:obj:`{name} <{path}>`" in found[f"{module}.rst"]


def test_every_module_is_in_an_area_of_the_reference():
    listed = [line for line in reference.AREAS.read_text().splitlines() if line.startswith("sknet")]
    assert sorted(listed) == sorted(reference.entries()), "list the module in docs/api/index.md"


def test_tables_are_those_that_exist():
    known = {f"{module}.{name}" for module, names in reference.entries().items() for name in names}
    assert set(reference.TABLES) <= known


def test_a_page_lists_the_members_of_a_class_and_names_those_it_inherits():
    text = reference.pages()["names/sknet.nn.Linear.rst"]
    assert ".. automethod:: sknet.nn.Linear.forward\n" in text
    assert "Inherited from :py:obj:`sknet.nn.Module`: " in text
    inherited = text.partition("Inherited from :py:obj:`sknet.nn.Module`")[2]
    assert ":py:obj:`state_dict <sknet.nn.Module.state_dict>`" in inherited


@pytest.mark.parametrize("name", ["MLPClassifier", "TabularClassifier", "NetRegressor", "Autoencoder"])
def test_pages_of_estimators_describe_all_methods(name):
    cls = getattr(sknet, name)
    text = reference.pages()[f"names/sknet.{name}.rst"]
    described = set(re.findall(rf"auto(?:method|property):: sknet\.{name}\.(\w+)", text))
    listed = set(re.findall(r"``(\w+)``", text))
    public = {member for member in dir(cls) if not member.startswith("_") and callable(getattr(cls, member))}
    assert public <= described | listed
    assert {"fit", "summary"} <= described
    assert {
        member for member in ("predict_proba", "partial_fit", "predict", "score") if member in public
    } <= described


def test_pages_are_rewritten_only_if_they_change(tmp_path, monkeypatch):
    wanted = {"a.rst": "one", "names/a.b.rst": "two"}
    monkeypatch.setattr(reference, "pages", lambda: wanted)
    reference.write(tmp_path)
    kept = (tmp_path / "a.rst").stat().st_mtime_ns
    del wanted["names/a.b.rst"]
    wanted["c.rst"] = "three"
    reference.write(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*.rst")) == ["a.rst", "c.rst"]
    assert (tmp_path / "a.rst").stat().st_mtime_ns == kept


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("The mean of coefs_.", r"The mean of coefs\_."),
        ("x / (1 + |x|), of shape (..., *shape)", r"x / (1 + \|x\|), of shape (..., \*shape)"),
        ("`coefs_` and ``|x|`` and :math:`|x|`", "`coefs_` and ``|x|`` and :math:`|x|`"),
        ("as shown in [1]_.", "as shown in [1]_."),
        ("coefs_ : list of shape (n_layers_,)", r"coefs_ : list of shape (n_layers\_,)"),
        (">>> clf.coefs_", ">>> clf.coefs_"),
        (".. math:: |x|", ".. math:: |x|"),
        ('.. [1] D. P. Kingma, "Adam", 2015.', r'.. [1] D\. P. Kingma, "Adam", 2015.'),
    ],
)
def test_prose_of_docstrings_is_no_markup(line, expected):
    assert list(escaped([line])) == [expected]


def test_results_of_examples_stay_as_they_are():
    lines = [">>> names", "['a_', '|x|']", "", "Then a_ follows."]
    assert list(escaped(lines)) == [*lines[:3], r"Then a\_ follows."]
