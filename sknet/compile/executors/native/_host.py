"""What native code leaves to NumPy: callbacks into the interpreter."""

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["CALL_HOST", "HostCalls"]

_Callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


class HostCalls:
    """Python functions that native code calls by number.

    An exception in one of them ends the run before the step has updated anything.

    Parameters
    ----------
    functions : sequence of sequence of callable
        For each number, the functions to call, in order.

    Attributes
    ----------
    address : ndarray of shape (1,), dtype=int64
        The address of the C function that native code calls.
    """

    def __init__(self, functions: Sequence[Sequence[Callable[[], object]]]) -> None:
        self._functions = [tuple(each) for each in functions]
        self._raised: BaseException | None = None
        self._callback = _Callback(self._call)
        self.address = np.array([ctypes.cast(self._callback, ctypes.c_void_p).value or 0], np.int64)

    def _call(self, number: int) -> int:
        try:
            for function in self._functions[number]:
                function()
        except BaseException as error:
            self._raised = error
            return 1
        return 0

    def check(self) -> None:
        """Re-raise an exception that is not an error of a computation, such as KeyboardInterrupt.

        A step that raised an error is repeated by NumPy, which raises it with the full message.
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
