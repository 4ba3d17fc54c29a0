"""Tables as they are, turned into numbers that a network learns from."""

from sknet.preprocessing._encoder import TableEncoder

__all__ = ["TableEncoder"]
