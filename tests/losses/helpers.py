"""Helpers of the tests of losses."""

from sknet.core import Tensor, gradients


def value_and_gradient(loss, z, y):
    """Return the values of a loss, and the gradient of their sum in the output, on the host."""
    output = Tensor(z, requires_grad=True)
    values = loss.values(output, y)
    return values.numpy(), gradients(values.sum(), [output])[0].numpy()
