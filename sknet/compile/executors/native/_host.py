"""What native code leaves to NumPy: it calls back, and the interpreter computes for a moment."""

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["CALL_HOST", "HostCalls"]

_Callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


class HostCalls:
    """Functions that native code calls by their numbers.

    What one of them raises ends the run before anything has been updated.

    Parameters
    ----------
    functions : sequence of sequence of callable
        For each number, what is called, in order.

    Attributes
    ----------
    room : ndarray of shape (1,), dtype=int64
        The address that native code calls.
    """

    def __init__(self, functions: Sequence[Sequence[Callable[[], object]]]) -> None:
        self._functions = [tuple(each) for each in functions]
        self._raised: BaseException | None = None
        self._callback = _Callback(self._call)
        self.room = np.array([ctypes.cast(self._callback, ctypes.c_void_p).value or 0], np.int64)

    def _call(self, number: int) -> int:
        try:
            for function in self._functions[number]:
                function()
        except BaseException as error:
            self._raised = error
            return 1
        return 0

    def check(self) -> None:
        """Raise what was raised and is no error of a computation, such as KeyboardInterrupt.

        The step that met an error is repeated by NumPy, which raises it with all that there is to be said.
        """
        raised, self._raised = self._raised, None
        if raised is not None and not isinstance(raised, Exception):
            raise raised


CALL_HOST = '''@intrinsic
def call_host(typing, function, number):
    """Let NumPy compute; 0 means that it has."""

    def generate(context, builder, signature, values):
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word]).as_pointer()
        return builder.call(builder.inttoptr(values[0], kind), [values[1]])

    return types.int64(types.int64, types.int64), generate


'''
