"""Installations: without a compiler, and editable ones, which keep native code that was compiled alike.

Without a compiler, an installation succeeds, says that there is no native code, and computes alike.
"""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import sknet
from tests.project import ROOT, project_files

# As `requires` of pyproject.toml, which is not fetched here.
setuptools = pytest.importorskip("setuptools", minversion="77", reason="packages are built by setuptools")

CHOICES = ("CC", "CFLAGS", "CPPFLAGS", "LDFLAGS", "LDSHARED")  # of a compiler and its flags
BUILT_FROM = ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.cfg", "setup.py")
PROGRAM = """
import sys

import numpy as np
import sknet

sknet.show_versions()
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 8))
clf = sknet.MLPClassifier((16,), max_iter=40, lr=0.02, random_state=0).fit(X, X[:, 0] > 0)
frozen = clf.freeze()
for rows in [X[:1], X[:5]] * 3:
    np.testing.assert_array_equal(frozen.predict_proba(rows), clf.predict_proba(rows))
print("score", clf.score(X, X[:, 0] > 0))
try:
    with sknet.config_context(native="always"):
        clf.fit(X, X[:, 0] > 0)
except RuntimeError as error:
    print("always:", error)
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Install the project where no compiler can be found; return what a program prints that uses it."""
    folder = tmp_path_factory.mktemp("without_compiler")
    source, site = folder / "source", folder / "site"
    for path in project_files():
        name = path.relative_to(ROOT)
        if name.parts[0] == "sknet" or str(name) in BUILT_FROM:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, source / name)
    settings = {name: value for name, value in os.environ.items() if not name.startswith("SKNET_")}
    settings |= {"CC": "/bin/false", "PATH": "", "PYTHONPATH": str(site), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps"]
    subprocess.run([*command, "--target", site, source], env=settings, check=True)
    program = [sys.executable, "-c", PROGRAM]
    return subprocess.run(
        program, cwd=folder, env=settings, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def line(printed, start):
    [found] = [each for each in printed if each.startswith(start)]
    return found


def test_versions_tell_that_there_is_no_native_code(printed):
    assert "not built" in line(printed, "native code:")
    assert line(printed, "sknet:") == f"sknet: {sknet.__version__}"


def test_fits_run_on_numpys_plan(printed):
    assert float(line(printed, "score").split()[1]) > 0.9


def test_what_needs_native_code_tells_how_to_get_it(printed):
    assert "built by an installation from source where there is a C compiler" in line(printed, "always:")


@pytest.mark.parametrize("setting", [None, *CHOICES])
def test_an_editable_installation_copies_no_code_where_a_compiler_or_flags_are_set(
    setting, tmp_path, monkeypatch
):
    """Without, code that is newer than its sources is not compiled again."""
    monkeypatch.chdir(tmp_path)
    for name in CHOICES:
        monkeypatch.delenv(name, raising=False)
    if setting is not None:
        monkeypatch.setenv(setting, "-O0")
    given, found = {}, []
    monkeypatch.setattr("setuptools.setup", lambda **arguments: given.update(arguments))
    runpy.run_path(str(ROOT / "setup.py"))
    [extension], kind = given["ext_modules"], given["cmdclass"]["build_ext"]
    monkeypatch.setattr(
        kind.__base__,
        "build_extension",
        lambda self, extension: found.append(Path(self.get_ext_fullpath(extension.name)).exists()),
    )
    command = kind(setuptools.Distribution({"ext_modules": [extension]}))
    command.editable_mode, command.build_lib, command.build_temp = True, "built", "temp"
    command.ensure_finalized()
    command.inplace = False  # while it builds, as `run` sets it
    command.compiler = SimpleNamespace(compiler_type="unix", compile=None)
    here = Path(command.get_ext_filename(extension.name))
    here.parent.mkdir(parents=True)
    here.write_bytes(b"compiled before")
    command.build_extension(extension)
    assert found == [setting is None]
