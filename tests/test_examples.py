"""The examples run as scripts, and print the output in their docstrings.

A few run in a process of their own, as a user runs them; the others in this one, which has imported already
what takes most of their time.
"""

import gzip
import os
import re
import runpy
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn

from tests.project import ROOT

EXAMPLES = ROOT / "examples"
ON_DATA = {
    "fashion_mnist.py": "Fashion-MNIST",
    "cnn_fashion_mnist.py": "Fashion-MNIST",
    "adult.py": "Adult",
    "char_lstm.py": "a text",
    "char_transformer.py": "a text",
}
CHARACTER_MODELS = ["char_lstm.py", "char_transformer.py"]
# A few epochs on made-up rows do not converge; no other warning is expected.
STRICT = ("-W", "error", "-W", "ignore:Stochastic Optimizer")


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run an example in a separate process, which finds the checkout before installed packages."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, *STRICT, str(EXAMPLES / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture
def run_here(capsys, monkeypatch):
    """Run an example in this process up to its exit; return its output."""

    def run_up_to_the_exit(script: str, *arguments: object, status: int = 0) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        monkeypatch.syspath_prepend(str(EXAMPLES))
        with warnings.catch_warnings(), sklearn.config_context():  # which scripts set for their process
            warnings.filterwarnings("ignore", "Stochastic Optimizer")
            try:
                runpy.run_path(str(EXAMPLES / script), run_name="__main__")
                code = 0
            except SystemExit as end:
                code = end.code
        assert code == status
        return capsys.readouterr()

    return run_up_to_the_exit


@pytest.fixture
def refused(run_here):
    """Run an example that exits with the status of a usage error; return its output."""
    return partial(run_here, status=2)


@pytest.fixture
def part_of(monkeypatch):
    """Return a name defined by an example, which is not run."""

    def defined(script: str, name: str) -> Any:
        monkeypatch.syspath_prepend(str(EXAMPLES))
        return runpy.run_path(str(EXAMPLES / script))[name]

    return defined


def number_after(text: str, output: str) -> float:
    return float(re.search(rf"{text} (\d[\d.e+-]*)", output)[1])


def test_every_example_is_tested():
    tested = {"quickstart.py", "four_doors.py", "tables.py", "serve.py", "dask_fit.py", *ON_DATA}
    assert {path.name for path in EXAMPLES.glob("[!_]*.py")} == tested


def test_quickstart():
    printed = run("quickstart.py").stdout
    assert number_after("\ntest accuracy", printed) > 0.94
    assert number_after(r"best: .*, test accuracy", printed) > 0.94
    assert printed.count(": accuracy") == 4
    assert "reloaded, the same predictions to the bit: True" in printed
    assert "the same after one more epoch of each: True" in printed


def test_tables(run_here):
    printed, _ = run_here("tables.py", "--rows", 400, "--budget", 0.1)
    assert number_after("rent: R2", printed) > 0.5
    assert number_after("let within a week: accuracy", printed) > 0.55
    assert printed.count("a flat of unknown size in a new district") == 2


def test_dask_fit():
    printed = run("dask_fit.py", "--rows", 40_000).stdout
    assert number_after("test accuracy", printed) > 0.9
    assert number_after("every 8 steps: test accuracy", printed) > 0.85
    assert "without the cluster, the same labels: True" in printed


def test_four_doors(run_here):
    printed, _ = run_here("four_doors.py")
    losses = [
        [float(loss) for loss in line.split("->")]
        for line in re.findall(r"loss ([\d. >-]+ -> [\d. >-]+)$", printed, re.MULTILINE)
    ]
    assert len(losses) == 5
    assert all(np.all(np.diff(falling) < 0) for falling in losses)
    assert number_after("losses differ by at most", printed) < 1e-5
    assert number_after("still has its loss:", printed) == pytest.approx(losses[3][0], abs=1e-4)


@pytest.mark.parametrize(("script", "name"), ON_DATA.items())
def test_without_data_explains(script, name, refused):
    printed, error = refused(script)
    assert printed == ""
    assert f"needs {name}" in error.replace("the data set ", "")
    assert "https://" in error
    assert f"python examples/{script} --data PATH" in error


@pytest.mark.parametrize("script", ON_DATA)
def test_missing_data(script, tmp_path, refused):
    _, error = refused(script, "--data", tmp_path / "none")
    assert f"{tmp_path / 'none'} does not exist" in error


def images(random_state: np.random.RandomState, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images on which a bright row marks the class, in the format of the real ones."""
    labels = np.arange(n, dtype=np.uint8) % 10
    pictures = random_state.randint(0, 100, (n, 28, 28)).astype(np.uint8)
    pictures[np.arange(n), 2 * labels] = 255
    return pictures, labels


@pytest.fixture
def fashion():
    random_state = np.random.RandomState(0)
    arrays = (*images(random_state, 600), *images(random_state, 100))
    return dict(zip(("X_train", "y_train", "X_test", "y_test"), arrays, strict=True))


def idx(array: np.ndarray) -> bytes:
    """Encode in the published format: two zeros, type, number of axes, lengths, bytes."""
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    return gzip.compress(header + array.tobytes())


def save_npz(data: dict[str, np.ndarray], folder: Path) -> Path:
    np.savez(folder / "fashion.npz", **data)
    return folder / "fashion.npz"


def save_idx(data: dict[str, np.ndarray], folder: Path) -> Path:
    for name, file in (("train", "train"), ("test", "t10k")):
        (folder / f"{file}-images-idx3-ubyte.gz").write_bytes(idx(data[f"X_{name}"]))
        (folder / f"{file}-labels-idx1-ubyte.gz").write_bytes(idx(data[f"y_{name}"]))
    return folder


def test_fashion_mnist(fashion, tmp_path, run_here):
    printed, _ = run_here("fashion_mnist.py", "--data", save_npz(fashion, tmp_path), "--epochs", 8)
    assert "600 to train on, 100 to test on" in printed
    assert printed.count("\nIteration") == printed.count(", validation score = ") == 8
    assert re.search(r"^8 epochs in \d+ s", printed, re.MULTILINE)
    assert number_after("test accuracy", printed) > 0.5


def test_fashion_mnist_is_read_as_it_is_published(fashion, part_of, tmp_path):
    load = part_of("fashion_mnist.py", "load")
    published, archived = load(save_idx(fashion, tmp_path)), load(save_npz(fashion, tmp_path))
    for name in fashion:
        np.testing.assert_array_equal(published[name], archived[name])


def test_cnn_fashion_mnist(fashion, tmp_path, run_here):
    few = {name: array[:240] for name, array in fashion.items()}
    plot, data = tmp_path / "loss.png", save_npz(few, tmp_path)
    arguments = ["--data", data, "--epochs", 2, "--plot", plot, "--checkpoint", tmp_path / "saved"]
    printed, progress = run_here("cnn_fashion_mnist.py", *arguments)
    assert "220 to train on, 20 to validate on, 100 to test on" in printed
    assert len(re.findall(r"^\d+ channels, lr 0.00\d: accuracy 0.\d+$", printed, re.MULTILINE)) == 4
    assert "100%" in progress
    assert number_after("test accuracy", printed) > 0.2
    assert plot.exists() or "matplotlib is not installed" in printed
    assert {"last.safetensors", "best.safetensors"} <= {path.name for path in (tmp_path / "saved").iterdir()}


PERSON = (
    "39, State-gov, 77516, Bachelors, 13, Divorced, {job}, Unmarried, White, Male, 2174, 0, 40, {country}, "
)


def person(random_state: np.random.RandomState, ending: str) -> str:
    """Return a line in the published format, in which the occupation determines the income."""
    job, income = [("Sales", "<=50K"), ("Exec-managerial", ">50K"), ("?", "<=50K")][random_state.randint(3)]
    return PERSON.format(job=job, country=random_state.choice(["?", "Cuba"])) + income + ending


@pytest.fixture
def adult(tmp_path):
    random_state = np.random.RandomState(0)
    training = "\n".join(person(random_state, "") for _ in range(2000))
    test = "\n".join(person(random_state, ".") for _ in range(90))
    (tmp_path / "adult.data").write_text(training + "\n\n")
    (tmp_path / "adult.test").write_text(f"|1x3 Cross validator\n{test}\n\n")
    return tmp_path


def test_adult(adult, run_here):
    pytest.importorskip("pandas", reason="the example reads tables with pandas")
    printed, _ = run_here("adult.py", "--data", adult, "--epochs", 8)
    assert "2000 to train on" in printed
    assert "90 to test on" in printed
    assert number_after("test ROC AUC", printed) > 0.9


def test_adult_parquet(part_of, tmp_path):
    pandas = pytest.importorskip("pandas", reason="the example reads tables with pandas")
    pytest.importorskip("pyarrow", reason="pandas reads parquet files with pyarrow")
    row = dict.fromkeys(["workclass", "education", "marital-status", "relationship", "race", "sex"], "same")
    row |= dict.fromkeys(
        ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"], 1
    )
    table = pandas.DataFrame(row, index=range(32561 + 100))
    rich = np.arange(len(table)) % 4 == 0
    table["occupation"] = np.where(rich, "Exec-managerial", None)
    table["native-country"] = pandas.Categorical(np.where(np.arange(len(table)) % 3 == 0, None, "Cuba"))
    table["income"] = pandas.Categorical(np.where(rich, ">50K", "<=50K"))

    table.to_parquet(tmp_path / "adult.parquet")
    load = part_of("adult.py", "load")
    training, test = load(tmp_path / "adult.parquet")
    assert training["income"].value_counts().to_dict() == {"<=50K": 24420, ">50K": 8141}
    assert len(test) == 100

    table[:100].to_parquet(tmp_path / "short.parquet")
    with pytest.raises(SystemExit, match="has 100 rows: expected the 32561 to train on"):
        load(tmp_path / "short.parquet")


@pytest.mark.parametrize("missing", ["pandas", "pyarrow"])
def test_adult_without_optional_packages(missing, tmp_path, refused, monkeypatch):
    pytest.importorskip("pandas", reason="without pyarrow it is pandas that complains")
    monkeypatch.setitem(sys.modules, missing, None)
    (tmp_path / "adult.parquet").touch()
    _, error = refused("adult.py", "--data", tmp_path / "adult.parquet")
    assert f"{missing} is not installed" in error
    assert 'pip install "scikit-neural[data]"' in error


@pytest.fixture
def text(tmp_path):
    """A file of one sentence, over and over."""
    path = tmp_path / "text.txt"
    path.write_text("ROMEO:\nIt is the east, and Juliet is the sun.\n\n" * 100)
    return path


@pytest.mark.parametrize("script", CHARACTER_MODELS)
def test_character_models(script, text, tmp_path, run_here):
    printed, shown = run_here(script, "--data", text, "--quick", "--plot", tmp_path / "loss.png")
    assert "4230 characters to train on, 470 to test on" in printed
    assert "100%" in shown
    assert "loss=" in shown
    assert number_after("\ntest:", printed) < 4  # from 4.6 bits, of 24 kinds
    assert "\n\nROMEO:\n" in printed
    assert (tmp_path / "loss.png").exists() or "matplotlib is not installed" in printed


def test_texts_are_read_from_archives(text, part_of, tmp_path):
    np.savez(tmp_path / "text.npz", data=np.frombuffer(text.read_bytes(), np.uint8))
    plain, archived = (part_of("_characters.py", "Text")(path) for path in (text, tmp_path / "text.npz"))
    for name in ("alphabet", "train", "test"):
        np.testing.assert_array_equal(getattr(archived, name), getattr(plain, name))


@pytest.mark.parametrize("script", ["cnn_fashion_mnist.py", "_characters.py"])
def test_without_matplotlib_there_is_no_plot(script, part_of, monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    part_of(script, "plot")([], tmp_path / "loss.png")
    assert (
        capsys.readouterr().out
        == 'no plot: matplotlib is not installed (pip install "scikit-neural[plot]")\n'
    )
