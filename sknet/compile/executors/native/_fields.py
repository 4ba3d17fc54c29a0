"""Fields of what native code is told in rows of integers; `sknet/_native/native.h` describes all of them."""

from enum import IntEnum

__all__ = ["Job", "Product", "Tile", "Work"]


class Work(IntEnum):
    """Kinds of passes over arrays."""

    CONVOLVED = 0
    WEIGHT = 1
    ERFC = 2
    LSTM_FORWARD = 3
    LSTM_BACKWARD = 4
    NORM = 5
    NORM_GRADIENT = 6
    LSTM_STEPS = 7
    BY_TILES = 8
    SUMS_OF_PRODUCTS = 9
    SCALED_ROWS = 10
    SERVE = 11
    LEAD = 12
    LSTM_BACK_STEPS = 13


class Tile(IntEnum):
    """Images and their tiles."""

    X = 0
    X_SAMPLE = 1
    X_CHANNEL = 2
    X_ROW = 3
    X_COLUMN = 4
    TILES = 5
    STEP = 6
    ROOM = 7
    BIAS = 8
    SAMPLES = 9
    CHANNELS = 10
    ROWS = 11
    COLUMNS = 12
    TOP = 13
    LEFT = 14
    TILE_ROWS = 15
    TILE_COLUMNS = 16


class Product(IntEnum):
    """Products of tiles: SHAPE is the first of four lengths, STRIDES of nine steps in bytes."""

    MATMUL = 0
    MATMUL_DATA = 1
    LEFT = 2
    RIGHT = 3
    OUT = 4
    SHAPE = 5
    STRIDES = 9
    SUMS = 18
    SAMPLES = 19
    PART = 20
    GROUPS = 21
    APART = 22


class Job(IntEnum):
    """Work that threads share."""

    OPEN = 0
    LEFT = 8
    FIELDS = 16
    SHARE = 17
    THREAD = 18
    SIZE = 19
    LOOKS = 20
