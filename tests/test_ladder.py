"""The ladder: every rung prints a decreasing loss, is short, and is documented."""

import ast
import re
import runpy
import sys

import numpy as np
import pytest

from tests.project import ROOT

LADDER = ROOT / "examples/ladder"
SCRIPTS = sorted(LADDER.glob("*.py"))


def run(path, capsys, monkeypatch, *arguments):
    """Run a script in this process, where unexpected warnings are errors, and return its output."""
    monkeypatch.setattr(sys, "argv", [str(path), *arguments])
    runpy.run_path(str(path), run_name="__main__")
    return capsys.readouterr().out


def test_there_are_nine_rungs():
    assert [path.name.split("_")[0] for path in SCRIPTS] == [*(f"rung{i}" for i in range(1, 10)), "who"]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_loss_falls(path, capsys, monkeypatch):
    losses = [float(loss) for loss in re.findall(r"loss (\d\.\d+)", run(path, capsys, monkeypatch))]
    assert len(losses) >= 2
    assert np.all(np.diff(losses) < 0)
    assert losses[-1] < losses[0] / 5


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_is_short_and_documented(path):
    text = path.read_text()
    assert 20 <= len(text.splitlines()) <= 50
    assert len(ast.get_docstring(ast.parse(text)).split()) > 30


def test_the_first_rungs_compute_the_same(capsys, monkeypatch):
    printed = [run(LADDER / f"{name}.py", capsys, monkeypatch) for name in ("rung1_arrays", "rung3_autograd")]
    assert printed[0] == printed[1]
    on_device = run(LADDER / "rung2_tensors.py", capsys, monkeypatch, "cpu")
    assert on_device.replace("  on cpu", "") == printed[0]


def test_the_second_rung_runs_on_any_device(capsys, monkeypatch, fake_device):
    there = run(LADDER / "rung2_tensors.py", capsys, monkeypatch, str(fake_device))
    assert there.count("on fake:0") == 5


def test_who_owns_what(capsys, monkeypatch):
    printed = run(LADDER / "who_owns_what.py", capsys, monkeypatch)
    before, after = re.search(
        r"^before\n(.*)^one step.*^after\n(.*)^and", printed, re.DOTALL | re.MULTILINE
    ).groups()
    for owner, is_changed in (
        ("loss", False),
        ("optimizer", False),
        ("module", True),
        ("model", True),
        ("mu", True),
    ):
        lines = [re.search(rf"^ +(?:the )?{owner} .*$", text, re.MULTILINE)[0] for text in (before, after)]
        assert (lines[0] != lines[1]) is is_changed
