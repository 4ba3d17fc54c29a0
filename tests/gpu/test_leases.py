"""The lease of a GPU, which has a name on its machine, whatever its number is in a process."""

import multiprocessing.process
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from sknet import MLPClassifier
from sknet.device import Device, backend

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:Stochastic Optimizer")]

X, y = np.eye(8), np.arange(8) % 2


def named():
    import cupy

    cuda = backend("cuda")
    return [cuda.identity(Device("cuda", i)) for i in range(cupy.cuda.runtime.getDeviceCount())]


def test_each_device_has_a_name_of_its_own():
    names = named()
    assert names == named()
    assert len(set(names)) == len(names)
    assert all(name.startswith("cuda-") and name.replace("-", "").isalnum() for name in names)


def test_a_name_does_not_depend_on_which_devices_are_visible():
    names = named()
    if len(names) < 2 or "emulated" in bytes.fromhex(names[0].rpartition("-")[2]).decode(errors="replace"):
        return  # there is nothing to choose from
    command = "from sknet.device import Device, backend; print(backend('cuda').identity(Device('cuda')))"
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "1"}
    told = subprocess.check_output([sys.executable, "-c", command], text=True, env=environment)
    assert told.strip() == names[1]


@pytest.mark.skipif(sys.platform == "win32", reason="looks at a folder of POSIX")
def test_a_worker_leaves_no_memory_that_it_does_not_use(tmp_path, monkeypatch):
    import cupy

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("SKNET_LEASE", "workers")
    monkeypatch.setattr(multiprocessing.process, "parent_process", lambda: SimpleNamespace(pid=os.getppid()))
    MLPClassifier((4,), max_iter=2, device="cuda", random_state=0).fit(X, y)
    [path] = (tmp_path / "sknet").iterdir()
    assert path.stem in named()
    assert cupy.get_default_memory_pool().free_bytes() < 1 << 20
