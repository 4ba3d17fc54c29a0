"""No file names a folder of someone's machine."""

import re

import pytest

from tests.project import ROOT, project_files

# Assembled, so that this file does not find itself.
FOLDERS = "|".join(["work", "tmp", "farm", "root", "home"])
MACHINE_PATH = re.compile(rf"(?<![\w.])/(?:{FOLDERS})/|\.\./" + "shared")
TEXT = {".py", ".md", ".toml", ".cfg", ".txt", ".yml", ""}


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("see /" + "work/main", True),
        ("'/" + "tmp/x'", True),
        ("../" + "shared/data", True),
        ("frame/" + "work/x", False),
        ("(net" + "work)", False),
    ],
)
def test_pattern(text, is_found):
    assert bool(MACHINE_PATH.search(text)) is is_found


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="lists the project's files with git")
def test_no_machine_paths():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in project_files()
        if path.suffix in TEXT
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert not found
