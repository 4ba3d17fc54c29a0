"""What layers are built on besides the functions; users of tensors do without it."""

from sknet.ops._norm import batch_norm_moments

__all__ = ["batch_norm_moments"]
