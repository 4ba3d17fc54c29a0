"""NVIDIA's compiler takes the text of every kernel, without a warning, and no kernel spills registers.

Kernels of many programs are compiled as one module, with other names; whole modules are compiled as they are.
"""

import random
import re
import statistics
import time

import pytest

from tests.devices import nvrtc
from tests.devices.texts import PROGRAMS, Kernel, gathered

OLDEST, *NEWER = ARCHITECTURES = (80, 90, 100)
SAMPLE = 50  # kernels of a family on the newer architectures; the text is the same for all
MODULES = 10
TOGETHER = 100
REGISTERS = 128  # of a thread: with more, a multiprocessor has room for only one block
ALL_REGISTERS = {"clusters": 255}  # whose blocks are few


def compiled(kernels: list[Kernel], architecture: int) -> dict[str, nvrtc.Resources]:
    """Compile kernels, several in a module; return what each needs, by its program and text."""
    found = {}
    by_helpers: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        by_helpers.setdefault(kernel.helpers, []).append(kernel)
    for helpers, group in by_helpers.items():
        for start in range(0, len(group), TOGETHER):
            part = {f"kernel{i}": kernel for i, kernel in enumerate(group[start : start + TOGETHER])}
            module = "\n".join([helpers, *[kernel.named(name) for name, kernel in part.items()]])
            made = nvrtc.compiled(module, architecture)
            assert not made.messages, f"{made.messages}\n{numbered(module)}"
            assert made.kernels.keys() == part.keys()
            found.update({f"{part[name].program}: {part[name].text}": x for name, x in made.kernels.items()})
    return found


def numbered(text: str) -> str:
    return "\n".join(f"{number} {line}" for number, line in enumerate(text.splitlines(), 1))


def sampled(items: list, count: int) -> list:
    return random.Random(0).sample(items, min(count, len(items)))


@pytest.mark.parametrize("family", PROGRAMS)
def test_every_kernel(family, record_property):
    started = time.process_time()
    modules, kernels = gathered(PROGRAMS[family]())
    assert kernels
    assert not [text for text in modules if re.search(r"#\s*include", text)]  # as CuPy names other headers
    found, every = {}, list(kernels.values())
    architectures = NEWER if family == "clusters" else ARCHITECTURES
    for architecture in architectures:
        chosen = every if architecture == architectures[0] else sampled(every, SAMPLE)
        found[architecture] = compiled(chosen, architecture)
        assert len(found[architecture]) == len(chosen)
    for text in sampled(list(modules), MODULES):
        for architecture in architectures:
            made = nvrtc.compiled(text, architecture)
            assert not made.messages, f"{modules[text]}: {made.messages}\n{numbered(text)}"
            assert made.size
    needs = [(name, x) for each in found.values() for name, x in each.items()]
    assert not [(name, x) for name, x in needs if x.spilled]
    assert not [(name, x) for name, x in needs if x.registers > ALL_REGISTERS.get(family, REGISTERS)]
    registers = [x.registers for _, x in needs]
    counts = ", ".join(f"{len(each)} for sm_{architecture}" for architecture, each in found.items())
    record_property(
        family,
        f"{len(modules)} modules, {len(every)} kernels compiled: {counts}; registers: median "
        f"{statistics.median(registers):.0f}, at most {max(registers)}; most local memory: "
        f"{max(x.stack for _, x in needs)} bytes; {time.process_time() - started:.0f} s of CPU",
    )


# -- the compiler finds what it is asked for --------------------------------------------------

HEAD = 'extern "C" __global__ void kernel(const float *x, float *y)'


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_module_and_its_resources(architecture):
    made = nvrtc.compiled(f"{HEAD}\n{{\n    y[threadIdx.x] = x[threadIdx.x];\n}}\n", architecture)
    assert not made.messages
    assert made.size > 1000
    assert made.kernels["kernel"].registers >= 4
    assert made.kernels["kernel"][1:] == (0, 0)


def test_errors_name_the_line():
    with pytest.raises(RuntimeError, match=r'does not compile for sm_80:\n.*module.cu\(2\): error: .*"z"'):
        nvrtc.compiled(f"{HEAD}\n{{ y[0] = z; }}\n", 80)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("const float z = x[0]; y[0] = 1.0f;", 'variable "z" was declared but never referenced'),
        ("y[(int)(threadIdx.x * -1)] = 1.0f;", "integer conversion resulted in a change of sign"),
        ("if (threadIdx.x < 0) y[0] = 1.0f;", "pointless comparison of unsigned integer with zero"),
    ],
)
def test_warnings_are_messages(body, message):
    assert message in nvrtc.compiled(f"{HEAD}\n{{ {body} }}\n", 80).messages


def test_spilled_registers_are_counted():
    numbers = range(100)
    loads = "".join(f"float a{i} = x[threadIdx.x + {i} * 999];\n" for i in numbers)
    stores = "".join(f"y[threadIdx.x * 77 + {i}] = a{i};\n" for i in numbers)
    limits = HEAD.replace("void ", "void __launch_bounds__(1024, 2) ")
    [found] = nvrtc.compiled(f"{limits}\n{{\n{loads}{stores}}}\n", 80).kernels.values()
    assert found.registers <= 32
    assert found.spilled > 0


def test_an_option_that_does_not_exist(monkeypatch):
    monkeypatch.setattr(nvrtc, "REPORT", "--no-such-option")
    with pytest.raises(RuntimeError, match="does not compile for sm_80:\nnvrtc: error: unrecognized option"):
        nvrtc.compiled(f"{HEAD} {{}}\n", 80)


def test_options_are_those_of_cupy(monkeypatch):
    """What the installed CuPy passes to NVRTC, but for folders of headers, which no kernel includes."""
    from cupy._core import core
    from cupy.cuda import compiler

    class SeenError(Exception):
        pass

    class Program:
        def __init__(self, *args, **kwargs):
            pass

        def compile(self, options, log):
            raise SeenError(*options)

    monkeypatch.setattr(compiler, "_NVRTCProgram", Program)
    monkeypatch.setattr(compiler, "_preprocess", lambda *args: "")  # asks NVRTC for its version
    monkeypatch.setattr(  # asks the device for its architecture
        compiler, "_get_arch_for_options_for_nvrtc", lambda arch: (f"-arch=sm_{arch}", "cubin")
    )
    with pytest.raises(SeenError) as seen:
        core.compile_with_cache("", nvrtc.KERNEL_OPTIONS, arch="90", backend="nvrtc")
    assert tuple(x for x in seen.value.args if not x.startswith("-I")) == nvrtc.options(90)
