"""Names that are loaded on first use."""

import gc
import subprocess
import sys

import pytest

from sknet._late import Names, imported


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that notes whether garbage is collected during its import."""
    (tmp_path / "noting.py").write_text("import gc\nenabled = gc.isenabled()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "noting"
    sys.modules.pop("noting", None)


@pytest.mark.parametrize("before", [True, False])
def test_no_garbage_is_collected_during_an_import(module, before):
    try:
        (gc.enable if before else gc.disable)()
        assert not Names({module: ("enabled",)})["enabled"]
        assert gc.isenabled() == before
    finally:
        gc.enable()


MADE = """
import gc
{before}
frozen = gc.get_freeze_count()
from sknet import Tensor
old = {{id(each) for each in gc.get_objects(generation=2)}}
print(gc.isenabled(), gc.get_freeze_count() > frozen / 2, id(Tensor) in old)
"""


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("", "True False True"),
        ("gc.freeze()", "True True False"),
        ("gc.disable()", "False False False"),
    ],
)
def test_what_an_import_has_made_is_old_and_what_was_frozen_stays_so(before, said):
    script = MADE.format(before=before)
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == (said)


def test_collections_go_on_after_an_import_that_fails(tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ZeroDivisionError):
        imported("broken")
    assert gc.isenabled()


def test_names_may_be_other_ones_than_in_their_modules():
    names = Names({"fractions": {"ratio": "Fraction"}})
    assert list(names) == ["ratio"]
    assert names["ratio"](1, 2) + names["ratio"](1, 2) == 1


def test_a_package_says_what_it_does_not_have():
    def missing(name):
        raise AttributeError(f"no {name}, but a Fraction")

    package = {"__name__": "numbers"}
    names = Names({"fractions": ("Fraction",)})
    assert names.into(package, missing)("Fraction") is package["Fraction"]
    with pytest.raises(AttributeError, match="no Fractoin, but a Fraction"):
        names.into(package, missing)("Fractoin")
    with pytest.raises(AttributeError, match="module 'numbers' has no attribute 'Fractoin'"):
        names.into(package)("Fractoin")
