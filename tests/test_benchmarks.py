"""The page of the benchmarks shows what their scripts have written, and its plots are drawn from that."""

import json
import re
import subprocess
import sys

import pytest

from docs import make_benchmarks
from docs.make_benchmarks import BLOCK, MEASURED, RUNS
from examples.benchmarks.measured import Table, machine, read, write
from tests.project import ROOT, benchmark

SCRIPTS = {path.stem for path in (ROOT / "examples/benchmarks").glob("*.py") if path.stem != "measured"}
# Of other pages and of the guide.
OFF_THE_PAGE = {"ablation", "early_stopping", "monotonic", "workers"}

# Prints what the tables of scripts look like, in a process of its own, since scripts set the environment.
SCHEMAS = """
import json, sys
sys.path.insert(0, sys.argv[1])
from tests.project import benchmark
shown = {}
for name in sys.argv[2:]:
    values = benchmark(name).values()
    known = [x for value in values for x in (value.values() if isinstance(value, dict) else [value])]
    shown[name] = [x.record() for x in known if type(x).__name__ == "Table"]
print(json.dumps(shown))
"""


@pytest.fixture(scope="module")
def schemas():
    """Return the empty tables of each script."""
    pytest.importorskip("sknet._native._core", reason="native code was not built")
    command = [sys.executable, "-c", SCHEMAS, str(ROOT), *sorted(SCRIPTS)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def empty(record):
    return {name: value for name, value in record.items() if name != "rows"}


def test_every_script_is_measured_for_the_page():
    assert {run.script.removesuffix(".py") for run in RUNS.values()} == SCRIPTS - OFF_THE_PAGE
    checks = {path.stem for path in MEASURED.glob("gpu-check-*.json")}  # what `tools.gpu_check` wrote
    assert {path.stem for path in MEASURED.iterdir()} - checks == RUNS.keys()


def test_files_have_the_tables_that_their_scripts_write(schemas):
    for name, run in RUNS.items():
        held = json.loads((MEASURED / f"{name}.json").read_text())["tables"].values()
        of_script = schemas[run.script.removesuffix(".py")]
        assert [empty(record) for record in held] == [empty(record) for record in of_script], name
        assert all(record["rows"] for record in held), name


def test_the_page_and_the_readme_show_the_files():
    assert make_benchmarks.page() == make_benchmarks.PAGE.read_text(), "run python -m docs.make_benchmarks"
    assert make_benchmarks.readme() == make_benchmarks.README.read_text()
    assert make_benchmarks.ROW.search(make_benchmarks.README.read_text())
    assert make_benchmarks.picture() == make_benchmarks.PICTURE.read_text()
    assert f"({make_benchmarks.PICTURE.relative_to(ROOT)})" in make_benchmarks.README.read_text()


def test_every_table_and_plot_is_on_the_page():
    text = make_benchmarks.PAGE.read_text()
    shown = [(name, key) for _, name, key, _ in BLOCK.findall(text) if key]
    assert sorted(shown) == sorted(make_benchmarks.tables())
    drawn = {f"{name}-{key}" for (name, key), table in make_benchmarks.tables().items() if table.drawn}
    assert set(re.findall(r"\{figure\} figures/(\S+)\.svg", text)) == drawn


def test_what_a_check_of_a_gpu_has_not_measured_is_empty():
    network = "20-100-2, batch 256"
    steps = {"rates": {}, network: {"sknet": 6e-5, "torch": "skipped: PyTorch is not installed"}}
    kernels = {
        f"{network}, float32, sknet": {"map0": [2.0, 3e-5], "heads0": [1.0, 1e-5]},
        f"{network}, float32, PyTorch, one graph": "skipped: PyTorch is not installed",
    }
    stages = {
        "steps": {"figures": steps},
        "steps-tf32": {"status": "raised"},
        "kernels": {"figures": kernels},
    }
    assert list(make_benchmarks.of_check(stages).lines())[2:] == [
        f"| {network}, float32 | 60 | 40 |  |  |",
        *(f"| {network}, {dtype} |  |  |  |  |" for dtype in ("tf32", "tf32x3", "bfloat16")),
    ]
    checks = [json.loads(path.read_text()) for path in MEASURED.glob("gpu-check-*.json")]
    assert not any(check.get("small") for check in checks)


def test_tables_are_drawn():
    figures = pytest.importorskip("docs.extensions.figures", reason="the site's extensions need sphinx")
    for (name, key), table in make_benchmarks.tables().items():
        if table.drawn:
            [ax] = figures.draw(table).axes
            measured = sum(x is not None for row in table.rows.values() for x in row[: len(table.drawn)])
            assert len(ax.patches) >= measured > 0, (name, key)


def test_a_script_writes_what_it_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["functional.py", "--json", str(tmp_path / "found.json")])
    main = benchmark("functional")["main"]
    networks = main.__globals__["NETWORKS"]
    monkeypatch.setitem(main.__globals__, "NETWORKS", {"a perceptron": next(iter(networks.values()))})
    main()
    about, tables = read(tmp_path / "found.json")
    assert about == machine()
    assert [*tables["peaks"].lines()] == capsys.readouterr().out.splitlines()
    assert [*tables["peaks"].rows] == ["a perceptron"]


def test_rows_have_a_figure_for_each_column(capsys):
    table = Table("network", {"sknet": ".1f", "kind": "s", "PyTorch": ".0f"})
    with pytest.raises(ValueError, match="small: 2 figures for 3 columns"):
        table.add("small", 1.0, "fast")
    table.add("small", 1.26, "fast", None)
    assert capsys.readouterr().out.splitlines() == [
        "| network | sknet | kind | PyTorch |",
        "|---|---|---|---|",
        "| small | 1.3 | fast |  |",
    ]


def test_files_are_read_as_they_were_written(tmp_path):
    table = Table("", {"us": ".2f", "n": "d"}, drawn=("us",), unit="microseconds")
    table.add("one", 1.23456789, 3)
    write(tmp_path / "file.json", {"times": table})
    write(None, {"times": table})
    about, tables = read(tmp_path / "file.json")
    assert about["versions"]["Python"] == sys.version.split()[0]
    assert tables["times"].record() == table.record()
    assert tables["times"].rows == {"one": [1.2346, 3]}


def test_machines_that_differ_are_told_apart(tmp_path, monkeypatch):
    about = {"processor": "P", "system": "Linux", "versions": {"Python": "3.11"}}
    for name, cores, day in (
        ("cold", 2, "2026-11-22"),
        ("busy", 2, "2027-05-01"),
        ("start", 8, "2026-11-22"),
    ):
        held = {"machine": {**about, "cores": cores, "date": day}, "tables": {}}
        (tmp_path / f"{name}.json").write_text(json.dumps(held))
    monkeypatch.setattr(make_benchmarks, "MEASURED", tmp_path)
    monkeypatch.setattr(make_benchmarks, "RUNS", dict.fromkeys(("cold", "busy", "start")))
    assert make_benchmarks.machines() == [
        "2 cores (P), Linux, Python 3.11. Measured from 22 November 2026 to 1 May 2027 (`cold`, `busy`).",
        "8 cores (P), Linux, Python 3.11. Measured on 22 November 2026 (`start`).",
    ]
