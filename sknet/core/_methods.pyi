"""Signatures of the methods of tensors, for type checkers; written by ``python -m docs.make_methods``."""

from collections.abc import Sequence
from typing import Any, Self

from sknet.core._tensor import Tensor

class Count(int): ...

class Methods:
    def abs(self) -> Tensor:
        """Return the absolute value; its gradient at 0 is 0."""
    def acos(self) -> Tensor:
        """Return the angle in [0, pi] whose cosine is x."""
    def acosh(self) -> Tensor:
        """Return the non-negative number whose hyperbolic cosine is x."""
    def all(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        """Return whether all elements over `axis` (all axes for None) are true, or not 0."""
    def any(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        """Return whether any element over `axis` (all axes for None) is true, or not 0."""
    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """Return the index of the first largest element along `axis`; for None, in x flattened."""
    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """Return the index of the first smallest element along `axis`; for None, in x flattened."""
    def argsort(self, axis: int = -1, descending: bool = False) -> Tensor:
        """Return the indices that sort x along `axis`, `descending` or not; equal elements keep their order."""
    def asin(self) -> Tensor:
        """Return the angle in [-pi/2, pi/2] whose sine is x."""
    def asinh(self) -> Tensor:
        """Return the number whose hyperbolic sine is x."""
    def atan(self) -> Tensor:
        """Return the angle in [-pi/2, pi/2] whose tangent is x."""
    def atan2(self, y: Any) -> Tensor:
        """Return the angle in [-pi, pi] of the point with the ordinate x and the abscissa y."""
    def atanh(self) -> Tensor:
        """Return the number whose hyperbolic tangent is x."""
    def broadcast_to(self, shape: int | Sequence[int]) -> Tensor:
        """Return x repeated along new axes and axes of length 1 to have `shape`, as a view."""
    def cdist(self, y: Any, ord: float = 2) -> Tensor:
        """Return the distance of every point of x from every point of `y`."""
    def ceil(self) -> Tensor:
        """Return the smallest integer that is not below x; its gradient is 0."""
    def clip(self, min: Any = None, max: Any = None) -> Tensor:
        """Return x limited to [min, max], numbers or tensors; NaN stays, and where min > max it is max."""
    def clone(self) -> Tensor:
        """Return a copy with its own memory, through which gradients flow."""
    def copysign(self, y: Any) -> Tensor:
        """Return the absolute value of x with the sign of y; its gradient at x = 0 and that of y are 0."""
    def cos(self) -> Tensor:
        """Return the cosine of x in radians."""
    def cosh(self) -> Tensor:
        """Return the hyperbolic cosine."""
    def cosine_similarity(self, y: Any, axis: int = -1, eps: float = 1e-08) -> Tensor:
        """Return the cosine of the angle between vectors along `axis`."""
    def count_nonzero(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        """Return the number of elements over `axis` that are not 0."""
    def cumulative_prod(self, axis: int | None = None, include_initial: bool = False) -> Tensor:
        """Return the cumulative products along `axis`, which may be omitted if x has only one."""
    def cumulative_sum(self, axis: int | None = None, include_initial: bool = False) -> Tensor:
        """Return the cumulative sums along `axis`, which may be omitted if x has only one."""
    def deg2rad(self) -> Tensor:
        """Return the angle x in radians, given in degrees."""
    def detach_(self) -> Self:
        """Detach this tensor itself from the tape, as a leaf that requires no gradient; return it."""
    def diagonal(self, offset: int = 0) -> Tensor:
        """Return the elements on a diagonal of the last two axes: the `offset`-th above the main one."""
    def diff(self, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Tensor:
        """Return x[i + 1] - x[i] along `axis`, repeated `n` times; for booleans, whether neighbours differ."""
    def erf(self) -> Tensor:
        """Return the error function."""
    def erfc(self) -> Tensor:
        """Return 1 - erf(x), accurate also where erf rounds to 1."""
    def exp2(self) -> Tensor:
        """Return 2 to the power of x."""
    def expand_dims(self, axis: int | tuple[int, ...]) -> Tensor:
        """Return x with a new axis of length 1 at position `axis` of the result, or at several."""
    def expm1(self) -> Tensor:
        """Return exp(x) - 1, accurate also for small x."""
    def flatten(self, start: int = 0) -> Tensor:
        """Return x with its axes from `start` on flattened into one."""
    def flip(self, axis: int | tuple[int, ...] | None = None) -> Tensor:
        """Return x with its elements in reverse order along `axis` (all axes for None), as a view."""
    def floor(self) -> Tensor:
        """Return the largest integer that is not above x; its gradient is 0."""
    def floor_divide(self, y: Any) -> Tensor:
        """Return x / y rounded down to an integer; its gradient is 0."""
    def hypot(self, y: Any) -> Tensor:
        """Return sqrt(x * x + y * y), without overflow in between; its gradients at the origin are 0."""
    def isfinite(self) -> Tensor:
        """Return whether x is neither infinite nor NaN."""
    def isinf(self) -> Tensor:
        """Return whether x is infinite, of either sign."""
    def isnan(self) -> Tensor:
        """Return whether x is NaN."""
    def lerp(self, y: Any, weight: Any) -> Tensor:
        """Return x + weight * (y - x), exactly x for a `weight` of 0 and y for 1."""
    def log10(self) -> Tensor:
        """Return the logarithm to base 10."""
    def log1p(self) -> Tensor:
        """Return log(1 + x), accurate also for small x."""
    def log2(self) -> Tensor:
        """Return the logarithm to base 2."""
    def log_softmax(self, axis: int = -1) -> Tensor:
        """Return log(softmax(x)) along `axis`, finite where the softmax underflows."""
    def logaddexp(self, y: Any) -> Tensor:
        """Return log(exp(x) + exp(y)), without overflow in between."""
    def logical_and(self, y: Any) -> Tensor:
        """Return whether both x and y are true, or not 0."""
    def logical_not(self) -> Tensor:
        """Return whether x is false, or 0."""
    def logical_or(self, y: Any) -> Tensor:
        """Return whether x or y is true, or not 0, or both are."""
    def logical_xor(self, y: Any) -> Tensor:
        """Return whether exactly one of x and y is true, or not 0."""
    def logit(self) -> Tensor:
        """Return log(x / (1 - x)), the inverse of the sigmoid; infinite at 0 and 1."""
    def logsumexp(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        """Return log(sum(exp(x))) over `axis`, shifted by the largest element so that nothing overflows."""
    def matmul(self, y: Any) -> Tensor:
        """Return the matrix product over the last two axes; axes before those broadcast."""
    def matrix_transpose(self) -> Tensor:
        """Return x with its last two axes exchanged."""
    def maximum(self, y: Any) -> Tensor:
        """Return the larger of x and y; where they are equal, each gets half of the gradient."""
    def median(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        """Return the middle element over `axis`, or the mean of the two in the middle."""
    def minimum(self, y: Any) -> Tensor:
        """Return the smaller of x and y; where they are equal, each gets half of the gradient."""
    def moveaxis(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
        """Return x with the axes `source` at the positions `destination`, and the others in their order."""
    def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
        """Return x with numbers instead of NaN and the infinities; no gradient flows to those elements."""
    def negative(self) -> Tensor:
        """Return -x."""
    def nextafter(self, y: Any) -> Tensor:
        """Return the next number after x in the direction of y that the dtype can hold; it has no gradient."""
    def nonzero(self) -> tuple[Tensor, ...]:
        """Return the indices of the elements that are not 0, one array for each axis."""
    def norm(self, ord: float = 2, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        """Return the `ord`-norm of vectors over `axis` (all axes for None)."""
    def normalize(self, ord: float = 2, axis: int | tuple[int, ...] | None = -1, eps: float = 1e-12) -> Tensor:
        """Return x divided by its `ord`-norm over `axis`, or by `eps` where that is larger."""
    def outer(self, y: Any) -> Tensor:
        """Return the outer product of the vectors x and y: the products of all pairs of their elements."""
    def positive(self) -> Tensor:
        """Return +x, which is x."""
    def pow(self, y: Any) -> Tensor:
        """Return x to the power of y."""
    def prelu(self, negative_slope: Any) -> Tensor:
        """Return x where it is positive and negative_slope * x elsewhere (He et al., 2015)."""
    def prod(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        """Return the product over `axis` (all axes for None); elements may be 0, also for the gradient."""
    def quantile(self, q: float | Sequence[float] | Tensor, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, method: str = 'linear') -> Tensor:
        """Return quantiles: the values below which the fractions `q` of all elements over `axis` are."""
    def reciprocal(self) -> Tensor:
        """Return 1 / x."""
    def relu(self) -> Tensor:
        """Return max(x, 0); its gradient at 0 is 0 (Nair & Hinton, 2010)."""
    def remainder(self, y: Any) -> Tensor:
        """Return x - floor(x / y) * y, with y's sign; between jumps its gradients are 1 and -floor(x / y)."""
    def repeat(self, repeats: int | Sequence[int], axis: int | None = None) -> Tensor:
        """Return x with every element along `axis` repeated `repeats` times in succession."""
    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether operations on this tensor are recorded, and return it."""
    def roll(self, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Tensor:
        """Return x shifted by `shift` positions along `axis`; what leaves at the end reappears at the start."""
    def round(self) -> Tensor:
        """Return the nearest integer, the even one of two equally near; its gradient is 0."""
    def rsqrt(self) -> Tensor:
        """Return 1 / sqrt(x)."""
    def scatter_add(self, indices: Any, values: Any, axis: int = 0) -> Tensor:
        """Return x with `values` added where `indices` point to along `axis`; repeated indices accumulate."""
    def searchsorted(self, values: Any, side: str = 'left') -> Tensor:
        """Return the indices at which to insert `values` into the sorted x to keep it sorted."""
    def sigmoid(self) -> Tensor:
        """Return 1 / (1 + exp(-x)), the logistic function; exact in both tails."""
    def sign(self) -> Tensor:
        """Return -1, 0 or 1; its gradient is 0."""
    def signbit(self) -> Tensor:
        """Return whether the sign bit is set: x < 0, or x is -0.0."""
    def sin(self) -> Tensor:
        """Return the sine of x in radians."""
    def sinh(self) -> Tensor:
        """Return the hyperbolic sine."""
    def softmax(self, axis: int = -1) -> Tensor:
        """Return exp(x) / sum(exp(x)) along `axis`, shifted by the largest element so that nothing overflows."""
    def sort(self, axis: int = -1, descending: bool = False) -> Tensor:
        """Return x with its elements along `axis` in ascending or `descending` order; NaN counts as largest."""
    def split(self, parts: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
        """Return x divided along an axis, as views."""
    def square(self) -> Tensor:
        """Return x * x."""
    def squeeze(self, axis: int | tuple[int, ...] | None = None) -> Tensor:
        """Return x without the axes of length 1 in `axis`; None removes all of them."""
    def std(self, axis: int | tuple[int, ...] | None = None, correction: float = 0, keepdims: bool = False) -> Tensor:
        """Return the standard deviation over `axis`: the root of the variance with the same `correction`."""
    def take(self, indices: Any, axis: int = 0, from_end: bool = True) -> Tensor:
        """Return the parts of x that `indices` point to along `axis`."""
    def take_along_axis(self, indices: Any, axis: int = -1, from_end: bool = True) -> Tensor:
        """Return the elements of x that `indices` point to along `axis`."""
    def tan(self) -> Tensor:
        """Return the tangent of x in radians."""
    def tanh(self) -> Tensor:
        """Return the hyperbolic tangent."""
    def tensordot(self, y: Any, axes: int | Sequence[Sequence[int]] = 2) -> Tensor:
        """Return the sum of products over several axes at once, as one matrix product."""
    def tile(self, repetitions: int | Sequence[int]) -> Tensor:
        """Return copies of x side by side, `repetitions` of them along each axis."""
    def tolist(self) -> Any:
        """Return the values as nested lists of Python numbers, or one number."""
    def topk(self, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
        """Return the k largest elements along an axis in descending order, and their indices."""
    def trace(self, offset: int = 0) -> Tensor:
        """Return the sum of a diagonal of the last two axes: the `offset`-th above the main one."""
    def tril(self, k: int = 0) -> Tensor:
        """Return x with zeros above the `k`-th diagonal of its last two axes."""
    def triu(self, k: int = 0) -> Tensor:
        """Return x with zeros below the `k`-th diagonal of its last two axes."""
    def trunc(self) -> Tensor:
        """Return x without its fraction, rounded towards 0; its gradient is 0."""
    def unique_values(self) -> Tensor:
        """Return the distinct elements of x, in ascending order."""
    def unsqueeze(self, axis: int | tuple[int, ...]) -> Tensor:
        """Return x with a new axis of length 1 at position `axis` of the result, or at several."""
    def unstack(self, axis: int = 0) -> tuple[Tensor, ...]:
        """Return the parts of x along `axis`, each without that axis."""
    def var(self, axis: int | tuple[int, ...] | None = None, correction: float = 0, keepdims: bool = False) -> Tensor:
        """Return the variance over `axis`: the sum of squared deviations over n - correction (NaN if that is 0)."""
    def vecdot(self, y: Any, axis: int = -1) -> Tensor:
        """Return the sum of x * `y` over an `axis`, counted from the end; the other axes broadcast."""
    def xlogy(self, y: Any) -> Tensor:
        """Return x * log(y), and 0 where x is 0."""
