"""Functions called in several threads at once."""

import threading
from collections.abc import Callable, Iterable
from typing import Any


def run_in_threads(function: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> None:
    """Call a function in a thread for each of its arguments, and wait for all."""
    threads = [threading.Thread(target=function, args=given) for given in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
