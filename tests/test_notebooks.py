"""The notebooks run from top to bottom, and show what they hold as outputs."""

import pytest

from docs.make_notebooks import NOTEBOOKS, document_of, run, texts_of


def code_of(document):
    return [cell for cell in document["cells"] if cell["cell_type"] == "code"]


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["first_steps", "own_network", "table_to_service"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_shows_what_its_cells_do(path):
    document = document_of(path)
    stored = [texts_of(cell["outputs"]) for cell in code_of(document)]
    assert [texts_of(outputs) for outputs in run(document, path.name)] == stored, (
        f"run python -m docs.make_notebooks {path.stem}"
    )
    assert "image/png" in {kind for outputs in stored for _, *kinds, _ in outputs for kind in kinds}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_tidy(path):
    """It begins with a title, and its cells were run once, in their order."""
    document = document_of(path)
    assert document["nbformat"] == 4
    assert "".join(document["cells"][0]["source"]).startswith("# ")
    counts = [cell["execution_count"] for cell in code_of(document)]
    assert counts == list(range(1, len(counts) + 1))
    assert len({cell["id"] for cell in document["cells"]}) == len(document["cells"])
