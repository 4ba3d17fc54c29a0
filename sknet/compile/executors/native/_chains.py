"""Chains: neighbours of one length, carried out for elements that stay in the nearest cache."""

from collections.abc import Callable, Iterable, Iterator

from sknet.compile.executors.native._instructions import OPERANDS, WIDTH, Kind

__all__ = ["are_apart", "chained", "uses_of"]

Row = list[int]
CHUNK = 1 << 10  # elements at a time: a multiple of what vectors and unrolled loops take at once
MOST = 64  # instructions of a chain
ALONE = 1 << 13  # elements that BLAS does not share among threads
NUMBER = 8  # bytes of a number that all elements use, at most
# An array that is used: address, bytes from element to element, its end, and whether it is written.
Use = tuple[int, int, int, bool]


def chained(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield instructions with the same results, neighbours in chains where their arrays are large."""
    chain: list[Row] = []
    uses: dict[Use, None] = {}
    arrays: set[tuple[int, int]] = set()
    length = 0
    known = [(row, *uses_of(row, CHUNK + 1)) for row in rows]
    for i, (row, n, own) in enumerate(known):
        if chain and not (
            n == length
            and len(chain) < MOST
            and _is_near(known[i : i + 2], arrays, n)
            and are_apart(own, uses)
        ):
            yield from _finished(chain, length)
            chain, uses, arrays, length = [], {}, set(), 0
        if not n:
            yield row
            continue
        chain.append(row)
        uses.update(dict.fromkeys(own))
        arrays.update([(x, stride) for x, stride, _, _ in own if stride])
        length = n
    yield from _finished(chain, length)


def _is_near(known: list[tuple[Row, int, list[Use]]], arrays: set[tuple[int, int]], length: int) -> bool:
    """Tell whether an instruction, or the next one, reads what is in the cache."""
    return any(
        (x, stride) in arrays and not is_written
        for _, n, uses in known
        if n == length
        for x, stride, _, is_written in uses
    )


def _finished(chain: list[Row], length: int) -> Iterator[Row]:
    if len(chain) > 1:
        yield [int(Kind.CHAIN), len(chain), length, CHUNK, *[0] * (WIDTH - 4)]
    yield from chain


def are_apart(uses: Iterable[Use], others: Iterable[Use]) -> bool:
    """Tell whether what is written is the same array as another, or has no memory in common with it."""
    for x, x_stride, x_end, x_is_written in uses:
        for y, y_stride, y_end, y_is_written in others:
            is_other = x != y or x_stride != y_stride
            if is_other and x < y_end and y < x_end and (x_is_written or y_is_written):
                return False
    return True


def uses_of(row: Row, least: int = 1) -> tuple[int, list[Use]]:
    """Return the length of an elementwise instruction, and what it uses; 0 and nothing for others."""
    rule = RULES.get(row[0])
    n, read, written = NO_USES if rule is None else rule(row)
    if n < least:
        return 0, []
    uses = [(x, stride, x + (stride * n or NUMBER), False) for x, stride in read]
    uses += [(x, stride, x + stride * n, True) for x, stride in written]
    return (n, uses) if are_apart(uses, uses) else (0, [])


# Length; addresses and strides of what is read, and of what is written.
Found = tuple[int, list[tuple[int, int]], list[tuple[int, int]]]
NO_USES: Found = 0, [], []


def _loop(row: Row) -> Found:
    count = row[OPERANDS]
    *read, written = list(zip(row[3:7], row[16:20], strict=True))[:count] or [(0, 0)]
    return (row[12], read, [written]) if count and written[1] > 0 else NO_USES


def _blas(row: Row) -> Found:
    return _level_1(row[2:8], row[8], row[9])


def _add_multiple(row: Row) -> Found:
    return _level_1(row[3:9], row[9], row[1])


def _level_1(given: Row, length: int, size: int) -> Found:
    _, factor, x, _, y, _ = given
    if length > ALONE:
        return NO_USES
    return length, [(factor, 0), (x, size), *([(y, size)] if y else [])], [(y or x, size)]


def _mask(row: Row) -> Found:
    size, source, mask, target, length = row[1:6]
    return length, [(source, size), (mask, 1)], [(target, size)]


def _mask_positive(row: Row) -> Found:
    size, x, source, mask, target, length = row[1:7]
    return length, [(x, size), (source, size)], [(mask, 1), (target, size)]


def _moments(row: Row) -> Found:
    size, length, _, a, x, b, y = row[1:8]
    return length, [(a, 0), (b, 0), (y, size), (x, size)], [(x, size)]


def _squares(row: Row) -> Found:
    size, length, _, g, squares, a, x, b = row[1:9]
    return length, [(a, 0), (b, 0), (g, size), (x, size)], [(squares, size), (x, size)]


def _quotients(row: Row) -> Found:
    size, length, _, v, more, m, quotients, factor, w = row[1:10]
    numbers = [(factor, 0), *([(more, 0)] if more else [])]
    return length, [*numbers, (v, size), (m, size), (w, size)], [(quotients, size), (w, size)]


RULES: dict[int, Callable[[Row], Found]] = {
    Kind.LOOP: _loop,
    Kind.BLAS: _blas,
    Kind.ADD_MULTIPLE: _add_multiple,
    Kind.MASK: _mask,
    Kind.MASK_POSITIVE: _mask_positive,
    Kind.MOMENTS: _moments,
    Kind.SQUARES: _squares,
    Kind.QUOTIENTS: _quotients,
}
