"""Measures of the project's size and shape do not grow beyond those stored, or beyond their targets."""

import json
import re
import runpy

from tests.project import ROOT

HOUSE = runpy.run_path(str(ROOT / "tools" / "house.py"))
STORED = ROOT / "tools" / "house.json"


def test_measures_do_not_grow():
    """`python tools/house.py --json tools/house.json` stores new ones; a commit says why they grew."""
    stored, grown = json.loads(STORED.read_text()), []
    for row in HOUSE["rows"]():
        sign = -1 if row.is_least else 1
        limit = sign * max(sign * stored.get(row.name, row.target), sign * row.target)
        if sign * row.value > sign * limit:
            grown.append(f"{row.name}: {row.value:,.1f} instead of {limit:,.1f}")
    assert not grown, "\n".join(
        [*grown, "Make it smaller, or store these with `python tools/house.py --json tools/house.json`"]
    )


def test_spine_is_read_in_a_day():
    lines = HOUSE["spine"]()  # a KeyError names what does not exist
    text = (ROOT / "docs" / "spine.md").read_text()
    assert len(HOUSE["ENTRY"].findall(text)) == text.count("\n- ")
    assert sum(map(len, lines.values())) <= 6_000


def test_names_in_the_text_of_the_spine_exist():
    found = {
        name for path in ROOT.glob("sknet/**/*.py") for name, _ in HOUSE["definitions"](HOUSE["parsed"](path))
    }
    found |= {".".join(name.split(".")[-2:]) for name in found} | {name.split(".")[-1] for name in found}
    text = HOUSE["ENTRY"].sub("", (ROOT / "docs" / "spine.md").read_text())
    named = set(re.findall(r"`((?:[A-Z]\w+\.)?(?:_\w+|[A-Z]\w+|(?<=\.)\w+))`", text))
    assert len(named) > 10
    assert named - found == {"RandomState"}
