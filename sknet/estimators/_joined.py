"""The network of an ensemble, which predictors load without scikit-learn."""

from typing import Any

from sknet import nn, ops
from sknet._fields import POSITIVE, Named
from sknet.core import as_tensor
from sknet.estimators._architecture import Architecture

__all__ = ["Joined", "Members"]


class Members(nn.Parallel):
    """The networks of an ensemble: their outputs are side by side."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs of all members for the same inputs."""
        outputs = [as_tensor(member(*args, **kwargs)) for member in self._children.values()]
        return ops.concat(outputs, axis=-1)


class Joined(Architecture):
    """What the members of an ensemble are built from."""

    _stored_fields = {
        "member": Named("Architecture"),
        "n_members": POSITIVE,
    }

    def __init__(self, member: Architecture, n_members: int) -> None:
        self.member, self.n_members = member, n_members

    @property
    def linear_layers(self) -> list[str]:
        """Paths of the linear layers of a member that is a perceptron."""
        member: Any = self.member
        found: list[str] = member.linear_layers
        return found

    def build(self, inputs: Any, n_outputs: int) -> nn.Module:
        return Members(*[self.member.build(inputs, n_outputs) for _ in range(self.n_members)])

    def parameters(self) -> dict[str, Any]:
        return self.member.parameters()

    def label(self, network: nn.Module) -> str:
        first: Any = next(iter(network.children()))
        return f"{self.n_members} times {self.member.label(first)}"
