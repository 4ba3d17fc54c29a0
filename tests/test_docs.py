"""The documents stay correct: links resolve, code runs, and the commands are the tested ones."""

import ast
import importlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project import ROOT

README = ROOT / "README.md"
# Documents that show what their code prints; the others draw, or have none.
GUIDE = {path for path in ROOT.glob("docs/guide/*.md") if path.stem not in ("displays", "index", "security")}
SHOWN = sorted({README, ROOT / "docs/quickstart.md"} | GUIDE)
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def code(path: Path) -> list[tuple[int, str]]:
    """List the Python blocks of a document with the line each starts on."""
    text = path.read_text()
    blocks = (match for match in FENCE.finditer(text) if match[1] == "python")
    return [(text.count("\n", 0, match.start(2)), match[2]) for match in blocks]


def anchors(path: Path) -> set[str]:
    """Name the headings of a document as links name them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_links_resolve(path):
    broken = []
    for link in LINK.findall(FENCE.sub("", path.read_text())):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


# The extra that brings what a block uses.
EXTRAS = {
    "data": r"^\s*(?:import|from) pandas\b|\.to_frame\(|as_frame=True",
    "plot": r"matplotlib|sknet\.display",
    "onnx": r"sknet\.onnx|sknet import .*\bonnx\b",
    "dask": r"\bdask\b",
    "optuna": r"\boptuna\b|\bPruning\b",
    "progress": r'verbose="bar"|ProgressBar',
    "skops": r"\bskops\b",
    "tensorboard": r"TensorBoardLog",
}


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if code(path)], ids=relative)
def test_extras_of_the_code_are_named(path):
    blocks = "\n".join(block for _, block in code(path))
    needed = {extra for extra, uses in EXTRAS.items() if re.search(uses, blocks, re.MULTILINE)}
    text = path.read_text()
    told = re.findall(r"\[extras?\]\([^)]*install\.md\)([^.]*)\.|\[([a-z0-9,]+)\]\"", text)
    assert needed <= set(re.findall(r"[a-z0-9]+", " ".join(map("".join, told))))


@pytest.mark.parametrize(
    "path", [path for path in DOCUMENTS if code(path) and path not in SHOWN], ids=relative
)
def test_code_runs(path, tmp_path, monkeypatch):
    """Run the blocks of a document from top to bottom in one namespace, as a reader would."""
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for line, block in code(path):
        # Blank lines in front make a traceback point into the document.
        exec(compile("\n" * line + block, str(path), "exec"), namespace)


NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")


@pytest.mark.parametrize("path", SHOWN, ids=relative)
def test_documents_show_what_their_code_prints(path, tmp_path, monkeypatch, capsys):
    """Compare the comments below ``print`` with what is printed; rounding may change numbers a little."""
    monkeypatch.chdir(tmp_path)
    namespace, shown, has_printed = {"__name__": "__main__"}, [], False
    for start, block in code(path):
        exec(compile("\n" * start + block, str(path), "exec"), namespace)
        for line in block.splitlines():
            has_printed = line.lstrip().startswith("print(") or (has_printed and line.startswith("#"))
            if has_printed and line.startswith("#"):
                shown.append(line.removeprefix("#").removeprefix(" "))
    printed = capsys.readouterr().out.splitlines()
    assert [NUMBER.sub("0", line) for line in printed] == [NUMBER.sub("0", line) for line in shown]
    found, wanted = ([float(x) for line in lines for x in NUMBER.findall(line)] for lines in (printed, shown))
    assert found == pytest.approx(wanted, rel=0.1)


def test_ci_runs_the_commands_of_the_readme():
    listed = subprocess.run([ROOT / ".ci/run", "--list"], capture_output=True, text=True, check=True).stdout
    blocks = FENCE.findall(README.read_text())
    commands = [block.strip() for language, block in blocks if language == "bash"]
    assert listed.splitlines() == commands
    assert len(commands) == 2


NAMED = re.compile(r"(?<![\w/])((?:sknet|tests|examples|docs)/[\w./*<>-]*\w\.\w+)(?::([\w.]+))?")


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/row.md", "docs/spine.md"])
def test_files_and_functions_that_are_named_exist(name):
    named = NAMED.findall((ROOT / name).read_text())
    assert named
    missing = [
        f"{file}:{what}"
        for file, what in named
        if not list(ROOT.glob(file)) or (what and what.rstrip(".") not in definitions(ROOT / file))
    ]
    assert not missing


FOLDER = re.compile(r"`((?:sknet|tests|docs|examples)/(?:[\w/]*/)?)`")
DOTTED = re.compile(r"`(sknet(?:\.\w+)+)")
DESIGN = [ROOT / "docs/design.md", ROOT / "docs/gpu.md"]
RECORDS = sorted(ROOT.glob("docs/decisions/*.md"))


@pytest.mark.parametrize("path", [*DESIGN, *RECORDS], ids=relative)
def test_folders_and_public_names_exist(path):
    text = FENCE.sub("", path.read_text())
    assert not [folder for folder in FOLDER.findall(text) if not (ROOT / folder).is_dir()]
    for name in DOTTED.findall(text):
        module, *rest = name.split(".")
        found = importlib.import_module(module)
        for part in rest:
            found = getattr(found, part, None) or importlib.import_module(f"{found.__name__}.{part}")


def pages_below(page: Path) -> Iterator[Path]:
    """Yield a page and those of its tables of contents."""
    yield page
    for entries in re.findall(
        r"^:::{toctree}\n:hidden:\n\n(.*?)^:::$", page.read_text(), re.MULTILINE | re.DOTALL
    ):
        for entry in entries.split():
            yield from pages_below(page.parent / f"{entry}.md")


def test_pages_for_developers_are_not_searched():
    pages = list(pages_below(ROOT / "docs/development.md"))
    assert {*DESIGN, *RECORDS} < set(pages)
    assert not [
        relative(page) for page in pages if not page.read_text().startswith("---\nnosearch: true\n---\n")
    ]


STATUS = re.compile(r"## .+\n\n\*20\d\d-\d\d-\d\d · (accepted|superseded by \[.+\]\(.+\))\*\n\n")


@pytest.mark.parametrize("path", [path for path in RECORDS if path.name != "index.md"], ids=relative)
def test_decisions_have_a_date_a_status_and_reasons(path):
    _, *records = re.split(r"^(?=## )", path.read_text(), flags=re.MULTILINE)
    assert 3 <= len(records) <= 8
    assert not [
        record.partition("\n")[0]
        for record in records
        if not (STATUS.match(record) and "**Rejected**" in record)
    ]


def test_pages_for_developers_stay_short():
    assert max(path.stat().st_size for path in DESIGN) <= 8192
    assert sum(path.stat().st_size for path in RECORDS) <= 45_000


def definitions(path: Path) -> set[str]:
    """Name the classes, functions and methods that a file defines."""

    def within(node: ast.AST, prefix: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.ClassDef, ast.FunctionDef)):
                yield prefix + child.name
                yield from within(child, f"{prefix}{child.name}.")

    return set(within(ast.parse(path.read_text()), ""))
