"""Compile native code ahead of the first fit: ``python -m sknet.warm``, as when building a container image.

Prints the file that the machine code was written to, and how long that took; the exit status is 1 if native
code is not available. Later processes of this user load the file, on processors of the same kind.
"""

import sys
import time

from sknet.compile.executors.native import UnsupportedError, runner

__all__ = ["main"]


def main() -> int:
    """Compile or load the native code of this machine.

    Returns
    -------
    int
        The exit status: 0, or 1 if Numba is not installed or no machine code can be kept.

    Examples
    --------
    >>> from sknet.warm import main
    >>> main()  # doctest: +SKIP
    native code is in ...: 0.0 s
    0
    """
    started = time.perf_counter()
    try:
        found = runner()
    except UnsupportedError as error:
        print(f'no native code: {error} (pip install "sknet[fast]")', file=sys.stderr)
        return 1
    found.wait()
    seconds = time.perf_counter() - started
    if found.file is None or not found.file.exists():
        print(
            "native code was compiled, but there is no directory to keep it in that only this user can write "
            "to: set SKNET_CACHE_DIR to one",
            file=sys.stderr,
        )
        return 1
    print(f"native code is in {found.file}: {seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
