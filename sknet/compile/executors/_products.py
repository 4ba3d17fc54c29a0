"""Matrix products: into how many parts they are split."""

from sknet._parallel import SMALL, small_limit

__all__ = ["parts_here", "parts_of"]


def parts_of(rows: int, per_row: int, limit: int) -> int:
    """Return into how many parts a product is split, so that each fits a kernel for small matrices."""
    if limit < rows * per_row <= 2 * limit:
        for parts in range(2, 5):
            if rows % parts == 0:
                return parts
    return 1


def parts_here(rows: int, per_row: int) -> int:
    """Return `parts_of` for this machine; BLAS is inspected only if needed, as that takes milliseconds."""
    return parts_of(rows, per_row, small_limit()) if SMALL < rows * per_row <= 2 * SMALL else 1
