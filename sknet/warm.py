"""Compile native code ahead of the first fit: ``python -m sknet.warm``, as when building a container image.

Prints the files that the machine code of training steps, of encoding tables and of single operations was
written to, and how long that took; the exit status is 1 if native code is not available. Later processes of
this user load them, on processors of the same kind.
"""

import sys
import time

from sknet.compile.executors.native import UnsupportedError, pass_runner, row_runner, runner

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
        found = [runner(), row_runner(), pass_runner()]
    except UnsupportedError as error:
        print(f'no native code: {error} (pip install "sknet[fast]")', file=sys.stderr)
        return 1
    for each in found[1:]:
        each.begin()  # beside the first, which is compiled here
    for each in found:
        each.wait()
    seconds = time.perf_counter() - started
    files = [each.file for each in found if each.file is not None and each.file.exists()]
    if len(files) < len(found):
        print(
            "native code was compiled, but there is no directory to keep it in that only this user can write "
            "to: set SKNET_CACHE_DIR to one",
            file=sys.stderr,
        )
        return 1
    print(f"native code is in {', '.join(map(str, files))}: {seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
