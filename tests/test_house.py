"""Measures of the project's size and shape do not grow beyond those stored, or beyond their targets."""

import json
import runpy

from tests.project import ROOT

STORED = ROOT / "tools" / "house.json"


def test_measures_do_not_grow():
    """`python tools/house.py --json tools/house.json` stores smaller ones."""
    stored, grown = json.loads(STORED.read_text()), []
    for row in runpy.run_path(str(ROOT / "tools" / "house.py"))["rows"]():
        sign = -1 if row.is_least else 1
        limit = sign * max(sign * stored[row.name], sign * row.target)
        if sign * row.value > sign * limit:
            grown.append(f"{row.name}: {row.value:,.1f} instead of {limit:,.1f}")
    assert not grown, "\n".join(grown)
