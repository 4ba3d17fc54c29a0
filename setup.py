"""Builds native code; without a compiler the installation goes on, and steps run on NumPy's plan."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCES = ["core", "baseline", "x86_64_v2", "x86_64_v3", "x86_64_v4"]
# Every operation is rounded by itself, as NumPy's are. Memory is read as other types than it was written as.
FLAGS = [
    "-O3",
    "-g0",
    "-std=c11",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-strict-aliasing",
]
FLAGS_OF_MSVC = ["/O2", "/std:c11", "/fp:precise"]
# Variables that choose a compiler or its flags: with one of them, code is compiled anew.
CHOICES = {"CC", "CFLAGS", "CPPFLAGS", "LDFLAGS", "LDSHARED"}


class Build(build_ext):
    """Compiles with the flags of the compiler that was found, several files at a time."""

    def build_extension(self, extension):
        """Compile an extension; those of other compilers have no `FLAGS`."""
        is_msvc = self.compiler.compiler_type == "msvc"
        extension.extra_compile_args += FLAGS_OF_MSVC if is_msvc else FLAGS
        here, made = (Path(place(extension.name)) for place in (self.get_ext_filename, self.get_ext_fullpath))
        # Compiled again if it is older than a file it depends on.
        if self.editable_mode and here.exists() and CHOICES.isdisjoint(os.environ):
            made.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(here, made)
        compile = self.compiler.compile

        def each(sources, *args, **options):
            with ThreadPoolExecutor(1 if is_msvc else os.cpu_count()) as pool:
                parts = pool.map(lambda source: compile([source], *args, **options), sources)
                return [name for part in parts for name in part]

        self.compiler.compile = each
        super().build_extension(extension)


native = Extension(
    "sknet._native._core",
    [f"sknet/_native/{name}.c" for name in SOURCES],
    depends=["setup.py", *sorted(str(path) for path in Path("sknet/_native").glob("*.[ch]"))],
    py_limited_api=True,
    optional=True,
)

setup(
    ext_modules=[native],
    cmdclass={"build_ext": Build},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
