"""Scripts of the gallery read data sets as they are published. All scripts run at the build of the site."""

import runpy
import sys

import numpy as np
import pytest

from tests.project import ROOT

pytest.importorskip("matplotlib", reason="the gallery draws with matplotlib").use("Agg")
pandas = pytest.importorskip("pandas", reason="the scripts read tables with pandas")
SCRIPTS = {
    path.stem.removeprefix("plot_"): path
    for path in (ROOT / "examples/gallery").glob("*.py")
    if "--data" in path.read_text()
}


def hours(path):
    """Write hourly counts like those of Bike Sharing."""
    hour = np.arange(24 * 25)
    table = {"hr": hour % 24, "weekday": hour // 24 % 7, "mnth": hour // 50 % 12 + 1}
    pandas.DataFrame({**table, "cnt": 10 + hour % 24}).to_csv(path, index=False)


def districts(path):
    """Write incomes and values like those of California."""
    income = np.random.default_rng(0).uniform(1, 9, 200)
    pandas.DataFrame({"median_income": income, "median_house_value": 5e4 * income}).to_csv(path, index=False)


def clothes(path):
    """Write images like those of Fashion-MNIST."""
    images, labels = np.zeros((80, 28, 28), np.uint8), np.arange(80, dtype=np.uint8) % 10
    images[np.arange(80), labels] = 255
    arrays = {f"X_{part}": images for part in ("train", "test")}
    arrays |= {f"y_{part}": labels for part in ("train", "test")}
    np.savez(path, **arrays)


FILES = {
    "embedding": (hours, "hour.csv"),
    "series": (hours, "hour.csv"),
    "intervals": (districts, "housing.csv"),
    "filters": (clothes, "fashion.npz"),
}


def test_every_script_with_data_is_tested():
    assert SCRIPTS.keys() == FILES.keys()


@pytest.mark.parametrize("name", FILES)
def test_data_are_read(name, tmp_path, monkeypatch):
    import matplotlib.pyplot as plt

    write, file = FILES[name]
    write(tmp_path / file)
    monkeypatch.setattr(sys, "argv", [str(SCRIPTS[name]), "--data", str(tmp_path / file)])
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.close("all")  # pictures of other tests
    try:
        runpy.run_path(str(SCRIPTS[name]), run_name="__main__")
        drawn = [ax for number in plt.get_fignums() for ax in plt.figure(number).axes]
        assert all(ax.has_data() for ax in drawn if ax.axison)
        assert drawn
    finally:
        plt.close("all")
