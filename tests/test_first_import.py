"""Every public name can be the first import of sknet in a process, and its example runs there."""

import json
import subprocess
import sys

from tests.project import ROOT, public_modules


def failures(wanted: dict[str, list[str]]) -> list[str]:
    """Try names in fresh processes; return failures."""
    command = [sys.executable, "-W", "error", str(ROOT / "tests/fresh.py")]
    done = subprocess.run(command, input=json.dumps(wanted), capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    problems = []
    for module, result in json.loads(done.stdout):
        if not isinstance(result, dict):
            problems.append(f"{module}: {result}")
            continue
        problems += [f"{module}.{name}: {said}" for name, said in result.items() if said]
    return problems


def test_every_name_comes_first():
    assert failures({name: list(module.__all__) for name, module in public_modules().items()}) == []


def test_operators_need_no_other_import():
    """Rules of the primitives are there, whatever is imported first."""
    script = "from sknet.core import {}; "
    for name, use in [("Tensor", "Tensor([1.0]) * 2"), ("PRIMITIVES", "PRIMITIVES['logsumexp']")]:
        subprocess.run([sys.executable, "-c", script.format(name) + use], check=True)


def test_a_failure_is_seen():
    [problem] = failures({"sknet": ["Nothing"]})
    assert "AttributeError: module" in problem
