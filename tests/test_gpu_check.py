"""`python -m tools.gpu_check`: its stages on a fake device, its file, and what it says without a GPU."""

import json
import os
import subprocess
import sys

import pytest

from sknet.device import HALVES, Device
from tests.devices import fake
from tests.project import ROOT
from tools.gpu_check import (
    _errors,
    _fits,
    _found,
    _kernels,
    _levers,
    _main,
    _networks,
    _operations,
    _products,
    _roofline,
    _stages,
    _steps,
    _streams,
    _torch,
    main,
)
from tools.gpu_check._found import Found, Skipped
from tools.gpu_check._machine import Machine
from tools.gpu_check._stages import Results, Stage, run
from tools.gpu_check._steps import TINY


class Fake(Machine):
    """Two fake devices."""

    def __init__(self, name="one"):
        super().__init__("fake")
        self.name = name

    def facts(self):
        return {"name": self.name}

    def n_devices(self):
        return fake.N_DEVICES

    def counted(self):
        return fake.counted()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.json"


def held(path):
    return json.loads(path.read_text())["stages"]


# -- the stages -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", _fits.CASES)
def test_fits_agree_with_the_cpu(name):
    dtype = _fits.CASES[name].dtype
    assert max(_fits.check(_fits.CASES[name], "fake").values()) < _fits.TOLERANCE.get(dtype, 2e-3)


def test_a_fit_that_differs_fails_with_a_place(monkeypatch):
    case = _fits.CASES["classifier, adam"]
    monkeypatch.setattr(_fits, "CASES", {"good": case, "bad": case})
    seeds = iter([0, 0, 0, 1])  # of the fits on the device and on the CPU, in turns
    fitted = _fits.Case.fitted

    def with_seed(self, device):
        other = _fits.Case(self.kind, dict(self.params) | {"random_state": next(seeds)})
        return fitted(other, device)

    monkeypatch.setattr(_fits.Case, "fitted", with_seed)
    found = _fits.fits(Fake())
    assert list(found.figures) == ["good"]
    [failure] = found.failures
    assert failure["name"] == "bad"
    assert "loss_curve_ differs from the CPU's by" in failure["error"]
    assert failure["file"].endswith("_fits.py")


def test_a_fit_that_raises_names_the_line_in_sknet(monkeypatch):
    case = _fits.Case(_fits.MLPClassifier, {"hidden_layer_sizes": (4,), "loss": "absent"})
    monkeypatch.setattr(_fits, "CASES", {"bad": case})
    [failure] = _fits.fits(Fake()).failures
    assert "loss" in failure["error"]
    assert "gpu_check" not in failure["file"]
    assert (ROOT / failure["file"]).is_relative_to(ROOT / "sknet")
    assert failure["line"] > 0


def test_streams(limits):
    limits("seconds of a block of steps", 1e3)  # however slow the machine is
    found = _streams.streams(Fake())
    assert not found.failures
    assert found.figures["a stream of the user's own"] == "skipped: devices of kind 'fake' have no streams"
    assert found.figures["too little memory"].startswith("skipped")
    assert max(found.figures["two devices"].values()) < 1e-6
    events = found.figures["events per step"]
    assert events["allocations"] > 0
    for name in ("reads", "reads, held-out rows"):  # below one an epoch of four steps
        assert events[name] < 1 / 4


def test_one_device_is_not_two():
    with pytest.raises(Skipped, match="one device"):
        _streams.two_devices(Machine("fake"))


def test_networks():
    with fake.sharing(200_000):
        found = _networks.networks(Fake(), **_stages.STAGES["networks"].small)
    assert not found.failures
    for count in (1, 3):
        assert set(found.figures[f"{count}, one launch"]) == {"fit", "launch", "launches"}
        assert set(found.figures[f"{count}, launches of each step"]) == {"fit"}


@pytest.mark.parametrize("dtype", _stages.TIMED)
def test_steps(dtype):
    with fake.counted() as counts:
        found = _steps.steps(Fake(), TINY, side=64, rounds=1, dtype=dtype)
    of_rates = {{"tf32x3": "tf32", "bfloat16": HALVES}.get(dtype, dtype)}
    assert set(counts.precisions) == {dtype} | of_rates
    assert not found.failures
    assert found.figures["rates"]["operations per second"] > 0
    row = found.figures["4-8-3, batch 16"]
    assert row["floor"] >= 8 * _roofline.NODE
    assert isinstance(row["sknet"], float)
    assert row["torch"].startswith("skipped: PyTorch")


def test_levers():
    found = _levers.levers(Fake(), **_stages.STAGES["levers"].small)
    assert not found.failures
    timed = [key.rpartition(", ")[2] for key in found.figures]
    assert sorted(timed) == sorted(["float32", "float32", *_levers.LEVERS])
    for lever, changed in _levers.LEVERS.items():
        with _levers.without(lever):
            assert all(getattr(module, name) is value for module, name, value in changed)
        assert not any(getattr(module, name) is value for module, name, value in changed)


def test_products_of_a_device_without_the_library():
    with pytest.raises(Skipped, match="have no cuBLASLt"):
        _products.products(Fake())


def test_kernels_of_a_step_are_those_of_more_epochs(monkeypatch):
    epochs = []

    def profiled(function):
        before = len(epochs)
        function()
        [n_epochs] = epochs[before:]
        once, per_step = [("order", 5e-6)], [("product", 3e-6), ("product", 1e-6), ("loss", 2e-6)]
        return once + per_step * 2 * n_epochs

    def fit(machine, each, X, y, n_epochs, dtype):
        epochs.append(n_epochs)
        return each.n_batches * n_epochs

    monkeypatch.setattr(_torch, "profiled", profiled)
    monkeypatch.setattr(_kernels, "fit", fit)
    found = _kernels.kernels(Fake(), TINY, dtypes=("tf32",))
    kernels = found.figures["4-8-3, batch 16, tf32, sknet"]
    assert list(kernels) == ["product", "loss"]
    assert kernels["product"] == pytest.approx((2, 4e-6))
    assert kernels["loss"] == pytest.approx((1, 2e-6))
    assert found.figures["4-8-3, batch 16, tf32, PyTorch, one graph"].startswith("skipped: PyTorch")


def test_work_is_that_of_a_calculation_by_hand():
    # One hidden layer: 2*B*(F*H + H*C) forward and as much for the weights, 2*B*H*C for the hidden values.
    work = _roofline.work_of((4, 8, 3), 16)
    assert work.operations == 2 * 16 * (2 * (4 * 8 + 8 * 3) + 8 * 3)
    assert work.nodes == 8
    # The sums of the three networks, counted tensor by tensor.
    for sizes, batch, mega in [((54, 512, 512, 7), 4096, 108), ((20, 100, 2), 256, 0.69)]:
        assert _roofline.work_of(sizes, batch).nbytes / 1e6 == pytest.approx(mega, rel=0.01)
    assert work.floor(1.0, 1e30) == pytest.approx(work.operations)


@pytest.mark.parametrize("dtype", _stages.TIMED)
def test_pytorchs_step_trains(dtype):
    torch = pytest.importorskip("torch", reason="compares with PyTorch: install scikit-neural[oracle]")
    rival = _torch.Rival(torch, (4, 8, 3), 16, 2, "cpu", dtype)
    rival.eager()
    first = rival.loss.item()
    for _ in range(200):
        rival.eager()
    assert rival.loss.item() < first
    assert [layer.out_features for layer in rival.network[::2]] == [8, 3]


def test_pytorchs_precision_is_that_of_the_fit():
    torch = pytest.importorskip("torch", reason="compares with PyTorch: install scikit-neural[oracle]")
    before = torch.get_float32_matmul_precision()
    for dtype, name in (("float32", "highest"), ("tf32", "high")):
        with _torch.products_in(torch, dtype):
            assert torch.get_float32_matmul_precision() == name
    assert torch.get_float32_matmul_precision() == before
    seen = []
    rival = _torch.Rival(torch, (4, 8, 3), 16, 2, "cpu", "bfloat16")
    rival.network[0].register_forward_hook(lambda layer, given, found: seen.append(found.dtype))
    rival.eager()
    assert seen == [torch.bfloat16]
    assert {x.dtype for x in rival.network.parameters()} == {torch.float32}


def test_errors_of_three_products_are_compared_with_those_of_one(monkeypatch):
    found = _errors.errors(Fake(), [(256, 300, 256)], [1.0, 1e-25])
    assert not found.failures
    for row in found.figures.values():
        assert 100 * row["float32"] < row["tf32"]
    monkeypatch.setattr(_errors, "MOST", 1e-3)
    [failure] = _errors.errors(Fake(), [(256, 300, 256)], [1.0]).failures
    assert failure["error"].startswith("the error of tf32x3 is ")


# -- the tests of a checkout ------------------------------------------------------------------

TESTS = """
import pytest

def helper(x):
    assert x == 2, "not two"

@pytest.mark.gpu
def test_good(): pass

@pytest.mark.gpu
def test_bad(): helper(1)

@pytest.mark.gpu
@pytest.mark.skip(reason="no")
def test_skipped(): pass

def test_of_no_gpu(): raise ValueError
"""


def test_operations(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_some.py").write_text(TESTS)
    (tmp_path / "tests/test_broken.py").write_text("def")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gpu: needs one\n")
    found = _operations.operations(Fake(), tmp_path, "tests")
    assert found.figures["test_some.py"] == {"passed": 1, "failed": 1, "skipped": 1}
    broken, failure = found.failures
    assert "test_broken" in broken["name"] or "test_broken" in broken["error"]
    assert failure["name"].endswith("::test_bad")
    assert "not two" in failure["error"]
    assert failure["line to look at"].startswith("tests/test_some.py:5")


def test_tests_are_shared_among_processes_on_many_cores(tmp_path, monkeypatch):
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gpu: needs one\n")
    started = []

    class Seen(subprocess.Popen):
        def __init__(self, command, **options):
            started.append(" ".join(command))
            super().__init__(command, **options)

    monkeypatch.setattr(subprocess, "Popen", Seen)
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    found = _operations.operations(Fake(), tmp_path, ".")
    assert found.figures["test_some.py"] == {"passed": 1, "failed": 1, "skipped": 1}
    assert "-n 2 --dist load" in started[0]


def test_without_tests_operations_are_skipped(tmp_path):
    with pytest.raises(Skipped, match="has no tests in"):
        _operations.operations(Fake(), tmp_path)


def test_where_all_tests_are_skipped_nothing_has_passed(tmp_path):
    (tmp_path / "test_some.py").write_text(
        TESTS.replace("@pytest.mark.gpu", "@pytest.mark.skip\n@pytest.mark.gpu")
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gpu: needs one\n")
    [failure] = _operations.operations(Fake(), tmp_path, ".").failures
    assert "no test of 3 ran" in failure["error"]


SLOW = """
import time, pytest
pytestmark = pytest.mark.gpu
def test_good(): pass
def test_bad(): assert 1 == 2
def test_slow(): time.sleep(60)
"""


@pytest.mark.skipif(os.name != "posix", reason="only there a process is interrupted")
def test_results_until_the_end_of_the_time_are_kept(tmp_path, monkeypatch):
    (tmp_path / "test_some.py").write_text(SLOW)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gpu: needs one\n")
    monkeypatch.setattr(_operations, "SECONDS", 4.0)
    found = _operations.operations(Fake(), tmp_path, ".")
    counts = found.figures["test_some.py"]
    assert (counts["passed"], counts["failed"]) == (1, 1)
    bad, stopped = found.failures
    assert bad["name"] == "test_some::test_bad"
    assert "stopped after 4 s" in stopped["error"]


def test_files_after_the_end_are_named(tmp_path, monkeypatch):
    (tmp_path / "test_some.py").write_text(TESTS)
    monkeypatch.setattr(_operations, "SECONDS", 0.0)
    [failure] = _operations.operations(Fake(), tmp_path, ".").failures
    assert failure["name"] == "test_some.py"
    assert "TimeoutError: not run" in failure["error"]


# -- one after the other, and again -----------------------------------------------------------


def test_it_resumes_after_a_stage_that_raised(path, capsys):
    done = []

    def stage(name, raises=False):
        def function(machine):
            assert machine.device == Device("fake")
            done.append(name)
            if raises:
                raise RuntimeError("lost")
            return Found({"n": len(done)})

        return Stage(function, name)

    def skips(machine):
        raise Skipped("nothing to do")

    first = {"a": stage("a"), "b": stage("b", raises=True), "c": Stage(skips, "c")}
    run(Fake(), Results(path), stages=first)
    assert {name: each["status"] for name, each in held(path).items()} == {
        "a": "passed",
        "b": "raised",
        "c": "skipped",
    }
    assert held(path)["b"]["failures"][0]["error"] == "RuntimeError: lost"
    assert held(path)["c"]["reason"] == "nothing to do"
    assert not Results(path).is_fine

    run(Fake(), Results(path), stages=first | {"b": stage("b")})
    assert done == ["a", "b", "b"]
    assert Results(path).is_fine
    assert "a: done before (passed); repeat it by --again a" in capsys.readouterr().out

    run(Fake(), Results(path), ("a",), first)
    assert done == ["a", "b", "b", "a"]


def test_a_stage_that_is_cut_off_leaves_the_others(path):
    def cut_off(machine):
        raise KeyboardInterrupt

    stages = {"a": Stage(lambda machine: Found({"n": 1}), "a"), "b": Stage(cut_off, "b")}
    with pytest.raises(KeyboardInterrupt):
        run(Fake(), Results(path), stages=stages)
    assert list(held(path)) == ["a"]


def test_the_small_form_has_a_file_and_arguments_of_its_own(path, capsys):
    stages = {"a": Stage(lambda machine, n=100: Found({"n": n}), "a", {"n": 1})}
    run(Fake(), Results(path, is_small=True), stages=stages)
    assert held(path)["a"]["figures"] == {"n": 1}
    assert json.loads(path.read_text())["small"]
    assert main(["--out", str(path)], Fake) == 1
    assert "holds results of the other form" in capsys.readouterr().err
    path.unlink()
    run(Fake(), Results(path), stages=stages)
    assert held(path)["a"]["figures"] == {"n": 100}
    assert main(["--small", "--out", str(path)], Fake) == 1
    assert "holds results of the other form" in capsys.readouterr().err


def only(monkeypatch, **stages):
    monkeypatch.setattr(_stages, "STAGES", stages)
    monkeypatch.setattr(_main, "STAGES", stages)
    monkeypatch.setattr(_main, "run", lambda *args: run(*args, stages))


def test_command(path, monkeypatch, capsys):
    figures = {
        "rates": {},
        "4-8-3": {"sknet": 1e-4, "launches": 9.0, "torch": {"torch graph": 2e-5}, "floor": 1e-5},
    }
    fails = [{"name": "x", "error": "E: no", "file": "f.py", "line": 3}]
    only(
        monkeypatch,
        facts=Stage(lambda m: Found(m.facts()), "facts"),
        fits=Stage(lambda m: Found({}, list(fails)), "fits"),
        steps=Stage(lambda m: Found(figures), "steps"),
        **{"steps-bfloat16": Stage(lambda m: Found({"4-8-3": {"sknet": 5e-5}}), "steps")},
    )
    command = ["--out", str(path)]
    assert main(command, Fake) == 1
    said = capsys.readouterr().out
    first, second = (line for line in said.splitlines() if line.startswith("| 4-8-3"))
    assert first == "| 4-8-3 | float32 | 100.0 | 9.0 |  | 20.0 | 10.0 |"
    assert second == "| 4-8-3 | bfloat16 | 50.0 |  |  |  |  |"
    assert "  x: E: no [f.py:3]" in said
    fails.clear()
    assert main(command, Fake) == 1  # what failed is known, and not tried again
    assert main([*command, "--again", "fits"], Fake) == 0
    assert held(path)["facts"]["figures"] == {"name": "one"}

    before = path.read_text()
    assert main(command, lambda: Fake("other")) == 1
    assert "holds results of one, and this is other" in capsys.readouterr().err
    assert path.read_text() == before


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"stages": 3}', '{"stages": {"facts": 1}}'])
def test_other_files_are_not_replaced(text, path, capsys):
    path.write_text(text)
    assert main(["--out", str(path)], Fake) == 1
    assert "holds no results of this command" in capsys.readouterr().err
    assert path.read_text() == text


def test_failures_outside_of_sknet_have_no_place():
    with pytest.raises(OSError, match="full") as error:
        raise OSError("full")
    assert _found.failure_of(error.value) == {"error": "OSError: full"}


def test_without_cupy_it_says_what_is_missing_and_loses_nothing(tmp_path, path):
    (tmp_path / "cupy.py").write_text("raise ImportError('hidden')")
    path.write_text('{"stages": {}}')
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, "-m", "tools.gpu_check", "--out", str(path)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "nothing is checked: device 'cuda' needs CuPy" in done.stderr
    assert "scikit-neural[cuda12]" in done.stderr
    assert path.read_text() == '{"stages": {}}'
