"""Write the stub of a tensor's methods from their functions: ``python -m docs.make_methods``."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import sknet.ops  # noqa: F401  # enters the methods
from sknet.core import Methods
from tests.project import ROOT

STUB = ROOT / "sknet/core/_methods.pyi"
HEAD = '''\
"""Signatures of the methods of tensors, for type checkers; written by ``python -m docs.make_methods``."""

from collections.abc import Sequence
from typing import Any, Self

from sknet.core._tensor import Tensor

class Count(int): ...

class Methods:
'''
OWN = {"detach_": "Self", "requires_grad_": "Self", "tolist": "Any", "clone": "Tensor"}


def stub() -> str:
    """Return the text of the stub."""
    methods = {name: x for name, x in vars(Methods).items() if inspect.isfunction(x) and name[:2] != "__"}
    return HEAD + "\n".join("\n".join(lines(name, methods[name])) for name in sorted(methods)) + "\n"


def lines(name: str, function: Callable[..., Any]) -> Iterator[str]:
    """Yield the lines of one method."""
    signature = inspect.signature(function)
    _, *parameters = signature.parameters.values()
    shown = ["self", *(str(x.replace(annotation=plain(x.annotation))) for x in parameters)]
    returns = OWN.get(name) or plain(signature.return_annotation).text
    yield f"    def {name}({', '.join(shown)}) -> {returns}:"
    yield f'        """{(inspect.getdoc(function) or "").splitlines()[0]}"""'


class Text:
    """An annotation that prints as its text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def plain(annotation: Any) -> Text:
    """Return an annotation by the names that the stub imports."""
    if annotation is inspect.Parameter.empty:
        return Text("Any")
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return Text(re.sub(r"\b(?:sknet|collections|typing)[\w.]*\.(\w+)", r"\1", text))


if __name__ == "__main__":
    STUB.write_text(stub())
