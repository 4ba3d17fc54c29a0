"""Settings: which of block, process and environment holds, and what they change."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification

import sknet
from sknet import MLPClassifier
from sknet.tabular import Members, TabularClassifier
from tests.project import has_native


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", "")  # as if it were not set; what it was is put back


# Those of a processor are the first of these.
ISAS = ("baseline", "x86-64-v2", "x86-64-v3", "x86-64-v4")


def native() -> str:
    return sknet.get_config()["native"]


def test_the_innermost_setting_holds(monkeypatch):
    assert native() == "auto"
    monkeypatch.setenv("SKNET_NATIVE", "never")
    assert native() == "never"
    sknet.set_config(native="always")
    assert native() == "always"
    with sknet.config_context(native="never"):
        assert native() == "never"
        with sknet.config_context(), sknet.config_context(native="auto"):
            assert native() == "auto"
        sknet.set_config(native="auto")  # of the process: this block keeps its own
        assert native() == "never"
    assert native() == "auto"


def test_a_block_ends_with_an_exception_too():
    with pytest.raises(RuntimeError), sknet.config_context(native="never"):
        raise RuntimeError
    assert native() == "auto"


def test_other_threads_have_the_setting_of_the_process():
    with ThreadPoolExecutor(1) as pool, sknet.config_context(native="never"):
        assert pool.submit(native).result() == "auto"
        sknet.set_config(native="always")
        assert pool.submit(native).result() == "always"


def test_processes_started_later_have_it_too():
    sknet.set_config(native="never")
    command = [sys.executable, "-c", "import sknet; print(sknet.get_config())"]
    assert subprocess.check_output(command, text=True) == "{'native': 'never', 'lease': 'workers'}\n"


@pytest.mark.parametrize("act", [sknet.set_config, lambda **new: sknet.config_context(**new).__enter__()])
def test_a_wrong_setting_changes_nothing(act):
    sknet.set_config(native="never")
    with pytest.raises(ValueError, match=r"native must be one of .*, got 'alway'\. Did you mean 'always'\?"):
        act(native="alway")
    assert native() == "never"


def test_a_wrong_environment_is_named(monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", "0")
    with pytest.raises(ValueError, match="the variable SKNET_NATIVE must be one of"):
        sknet.get_config()


def seen_by(estimator, monkeypatch) -> set[str]:
    """Return the settings that the steps of a fit are chosen by."""
    found = []

    def noted():
        found.append(native())
        return "never"

    X, y = make_classification(60, random_state=0)
    with monkeypatch.context() as patch:
        patch.setattr("sknet._config.native_setting", noted)
        clone(estimator).fit(X, y)
    return set(found)


SMALL = Members(hidden_layer_sizes=[4])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        MLPClassifier((4,), max_iter=2),
        TabularClassifier(n_folds=2, members=1, sharp=None, smooth=SMALL, budget=0.2, n_jobs=2),
    ],
    ids=["one thread", "threads of members"],
)
def test_a_fit_follows_the_block_around_it(estimator, monkeypatch):
    with sknet.config_context(native="always"):
        assert seen_by(estimator, monkeypatch) == {"always"}
    assert seen_by(estimator, monkeypatch) == {"auto"}


def test_versions_tell_whether_native_code_was_built(capsys, monkeypatch):
    sknet.show_versions()
    shown = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert shown["numpy"] == np.__version__
    assert shown["sknet"] == sknet.__version__
    assert shown["Python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert shown["settings"] == "native=auto, lease=workers"
    assert shown["BLAS"]
    assert shown["native code"].startswith("built, uses " if has_native() else "not built: ")
    monkeypatch.setattr("sknet._show_versions.core", lambda: None)
    monkeypatch.setattr("sknet._show_versions.reason", lambda: "no compiler")
    sknet.show_versions()
    assert "\nnative code: not built: no compiler\n" in capsys.readouterr().out


def test_the_environment_chooses_instructions():
    if not has_native():
        pytest.skip("native code was not built")
    command, used = [sys.executable, "-c", "import sknet; sknet.show_versions()"], []
    for isa in (*ISAS, "avx"):
        environment = os.environ | {"SKNET_ISA": isa}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if f"\nnative code: built, uses {isa}\n" in done.stdout:
            used.append(isa)
        else:
            assert f"no instructions named '{isa}'" in done.stderr
    assert "baseline" in used
    assert "avx" not in used
