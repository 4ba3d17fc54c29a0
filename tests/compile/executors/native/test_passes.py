"""Python and C say the same of instructions and of what passes are told."""

import re
import subprocess
import sys

import pytest

from sknet._native import LAYOUT, OLD
from sknet.compile.native import Codes, Field
from sknet.compile.native._instructions import CONVERTED, TURN, WIDTH, Kind, Product, Spread, Tile, Work
from sknet.compile.native._passes import FIELDS
from tests.project import ROOT

FOLDER = ROOT / "sknet" / "_native"
HEADER = (FOLDER / "native.h").read_text()


def body(kind, name):
    [found] = re.findall(rf"^{kind} {name} {{(.*?)}};", HEADER, re.DOTALL | re.MULTILINE)
    return found


def fields(name):
    """Return where each field of a structure of integers begins, and how many integers it is."""
    found, place = {}, 0
    for field in re.sub(
        r"\bint64_t\b|[;\n]", lambda m: "" if m[0] == "int64_t" else ",", body("struct", name)
    ).split(","):
        if field := field.strip():
            [(label, length)] = re.findall(r"(\w+)(?:\[(\d+)\])?", field)
            found[label] = place
            place += int(length or 1)
    return found, place


@pytest.mark.parametrize(
    ("name", "enum"), [("kind", Kind), ("spread", Spread), ("work", Work), ("codes", Codes)]
)
def test_numbers_are_those_of_the_source(name, enum):
    names = [x.strip() for x in body("enum", name).split(",") if x.strip()]
    assert names == list(vars(enum))
    assert list(vars(enum).values()) == list(range(len(names)))


@pytest.mark.parametrize(("name", "enum"), [("tile", Tile), ("product", Product), ("table", Field)])
def test_fields_are_those_of_the_source(name, enum):
    found, _ = fields(name)
    found = {label: place for label, place in found.items() if not label.startswith("unused")}
    assert found == {label.lower(): number for label, number in vars(enum).items()}


def test_lengths_are_those_of_the_source():
    assert fields("gates")[1] == FIELDS
    assert fields("turn")[1] == TURN
    assert re.findall(r"\bWIDTH = (\d+)", HEADER) == [str(WIDTH)]
    assert re.findall(r"\bLAYOUT = (\d+)", HEADER) == [str(LAYOUT)]


STALE = """
from sknet import _native
from sknet._native import _core

_core.layout -= 1
print(_native.core(), _native.reason())
"""


def test_an_extension_of_another_version_is_not_used():
    pytest.importorskip("sknet._native._core", reason="native code was not built")
    ran = subprocess.run([sys.executable, "-c", STALE], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout == f"None {OLD}\n"


def test_conversions_are_in_the_order_of_the_source():
    source = (FOLDER / "moves.inc.c").read_text()
    names = {"float": "float32", "double": "float64"}
    found = re.findall(r"\bconverted_(\w+?)_(float|double)\b", source)
    assert [tuple(names.get(x, x.removesuffix("_t")) for x in pair) for pair in found] == list(CONVERTED)
