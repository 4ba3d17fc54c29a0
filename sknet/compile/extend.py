"""What code that compiles many functions is built on: keys of values, and programs that are found by them."""

from sknet.compile._key import key_of
from sknet.compile._recalled import recalled

__all__ = ["key_of", "recalled"]
