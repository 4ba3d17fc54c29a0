"""The small form of ``python -m tools.gpu_check``, which a GPU would run: all of its stages, and its file."""

import json

import pytest

from tools.gpu_check import main
from tools.gpu_check._stages import STAGES


@pytest.fixture
def launches_of_each_step():
    """Nothing, where steps of small networks would be launched each."""


def texts(figures):
    """The texts among figures, which are those of what could not be measured."""
    if isinstance(figures, dict):
        return [text for each in figures.values() for text in texts(each)]
    return [figures] if isinstance(figures, str) else []


def test_all_stages_write_their_results(tmp_path, monkeypatch, limits):
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p tests.devices.emulated.plugin")  # for the stage that runs tests
    limits("seconds of a block of steps", 1e9)  # blocks are as long as memory permits, however slow they are
    path = tmp_path / "results.json"
    assert main(["--small", "--out", str(path)]) == 0
    written = json.loads(path.read_text())
    assert written["small"]
    stages = written["stages"]
    assert {name: each["status"] for name, each in stages.items()} == dict.fromkeys(STAGES, "passed")
    figures = {name: each["figures"] for name, each in stages.items()}
    assert all(figures.values())
    assert "device 'cuda:0' is out of memory" in figures["streams"].pop("too little memory")
    absent = texts({name: each for name, each in figures.items() if name != "facts"})
    assert {text.partition(" (")[0] for text in absent} == {"skipped: PyTorch is not installed"}
    assert figures["operations"]["test_scores.py"]["passed"] > 0
    assert figures["streams"]["events per step"]["reads"] < 1 / 4  # of an epoch
    assert figures["networks"]["3, one launch"]["launches"] > 0
    assert figures["steps"]["4-8-3, batch 16"]["sknet"] > 0
