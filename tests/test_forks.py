"""Forks while other threads fit, predict and import: no child waits for a thread that it does not have."""

import ast
import os
import subprocess
import sys

import pytest

from tests.project import ROOT, module_name, source_files

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked")
SECONDS = 20  # after which a child counts as one that waits forever

CHILDREN = f"""
import os, signal, sys, threading, warnings

warnings.simplefilter("ignore")  # of forks in a process with threads


def hangs(work):
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.alarm({SECONDS})
            work()
            status = 0
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGALRM), status
    return status != 0
"""

FITS = """
import numpy as np

from sknet import MLPClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 5))
y = (X[:, 0] > 0).astype(int)


def fitted(i):
    return MLPClassifier((1 + i % 29,), max_iter=2, random_state=0).fit(X, y)


def repeat(work):
    i = 0
    while True:
        work(i)
        i += 1


clf = fitted(0)
frozen = clf.freeze()
expected = frozen.predict(X).tolist()
for work in (fitted, lambda i: clf.predict(X), lambda i: frozen.predict(X[: 1 + i % 50])):
    threading.Thread(target=repeat, args=(work,), daemon=True).start()


def of_a_child(i):
    assert len(fitted(i).loss_curve_) == 2
    assert clf.predict(X).tolist() == frozen.predict(X).tolist() == expected


print(sum(hangs(lambda: of_a_child(i)) for i in range(50)))
sys.stdout.flush()
os._exit(0)
"""

IMPORTS = """
import time

import sknet

sknet.__path__.append(sys.argv[1])
began = threading.Semaphore(0)


def load():
    for i in range(100):
        began.release()
        __import__(f"sknet.slow{i}")


thread = threading.Thread(target=load)
thread.start()
found = 0
for i in range(100):
    began.acquire()
    found += hangs(lambda: __import__(f"sknet.slow{i}").slow0)
thread.join()
print(found)
"""

FIRST = """
import time

import sknet


def load():
    from sknet import MLPClassifier


thread = threading.Thread(target=load)
thread.start()
found = 0
while thread.is_alive():
    time.sleep(0.01)
    found += hangs(load)
print(found)
"""

OPTIONAL = """
import sknet

sys.path.append(sys.argv[1])
began = threading.Event()
sknet.began = began


def load():
    sknet._late.imported("slow_package")


thread = threading.Thread(target=load)
thread.start()
began.wait()
print(hangs(load))
"""


def said(script, *arguments, **environment):
    """Return what a script prints."""
    done = subprocess.run(
        [sys.executable, "-c", CHILDREN + script, *arguments],
        capture_output=True, text=True, cwd=ROOT, env=os.environ | environment, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("native", ["never", "always"])
def test_children_fit_and_predict_while_other_threads_do(native):
    assert said(FITS, SKNET_NATIVE=native) == "0"


def test_a_fork_waits_until_a_module_of_sknet_is_imported(tmp_path):
    for i in range(100):
        (tmp_path / f"slow{i}.py").write_text("import time\ntime.sleep(0.002)\n")
    assert said(IMPORTS, str(tmp_path)) == "0"


def test_children_import_what_another_thread_imports_first():
    assert said(FIRST) == "0"


def test_a_fork_waits_until_a_package_is_imported_that_sknet_needs(tmp_path):
    text = "import sknet, time\nsknet.began.set()\ntime.sleep(0.1)\n"
    (tmp_path / "slow_package.py").write_text(text)
    assert said(OPTIONAL, str(tmp_path)) == "False"


def test_a_fork_does_not_wait_for_others_while_its_thread_imports(tmp_path):
    """They may wait for the same module, as here, where each would wait for the other."""
    script = """
import sknet

sknet.__path__.append(sys.argv[1])
sknet.hangs = hangs
import sknet.forking
"""
    text = """
import sknet, sys, threading

thread = threading.Thread(target=lambda: __import__("sknet.other"))
thread.start()
while "sknet.other" not in sys.modules:
    pass
print(sknet.hangs(int))
"""
    (tmp_path / "forking.py").write_text(text)
    (tmp_path / "other.py").write_text("import sknet.forking")
    assert said(script, str(tmp_path)) == "False"


def test_no_property_takes_the_lock_of_functools():
    found = []
    for path in source_files("sknet"):
        for node in ast.walk(ast.parse(path.read_text())):
            is_taken = isinstance(node, ast.ImportFrom) and node.module == "functools"
            if is_taken and any(alias.name == "cached_property" for alias in node.names):
                found.append(f"{module_name(path)}:{node.lineno}")
            if isinstance(node, ast.FunctionDef) and "functools.cached_property" in [
                ast.unparse(each) for each in node.decorator_list
            ]:
                found.append(f"{module_name(path)}:{node.lineno}")
    assert not found, f"take sknet._late.cached_property: {found}"
