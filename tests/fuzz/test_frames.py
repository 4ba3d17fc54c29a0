"""A few random tables for ensembles for tables; the command runs many more."""

import pytest

from tests.fuzz.frames import CHANGES, LAYOUTS, RARE, drawn_case, mismatch


@pytest.mark.parametrize("part", range(4))
def test_any_table_fits_or_its_error_names_the_column(part):
    found = [mismatch(seed) for seed in range(3 * part, 3 * part + 3)]
    assert not any(found), "\n".join(filter(None, found))


def test_cases_have_changes_of_every_kind():
    said = " ".join(text for seed in range(300) for text in drawn_case(seed).said)
    assert len(CHANGES) > 7
    assert sum(kind in said for kind in RARE) > 0.8 * len(RARE)
    others = ("polars", "sparse", "list", "equal names", "one row a class", "names", "weights", "groups")
    assert all(kind in said for kind in (*others, *LAYOUTS))
