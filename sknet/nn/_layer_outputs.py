"""Outputs of the layers inside a network: which layers there are, and passes that end at one of them.

Nothing is registered at the network itself, which other threads may be running: a pass runs a copy, made
of the same parameters, buffers and attributes, whose calls are watched.
"""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sknet._constraints import WHOLE, is_whole, shown
from sknet._tree import leaves
from sknet.core import Tensor
from sknet.exceptions import StateError
from sknet.nn._hooks import Hooks
from sknet.nn._module import Module, join, nearest
from sknet.nn._parameter import Scope, run
from sknet.nn.layers._container import Sequential

RECORDED = ".recorded"  # an attribute of modules that no parameter or child can take, since it has a dot


class Call(NamedTuple):
    path: str
    number: int = 0


@dataclass
class _Visit:
    """A call, its output's shape, and the calls that were made inside it."""

    module: Any
    call: Call
    shape: tuple[int, ...] | None = None
    inside: "list[_Visit]" = field(default_factory=list)


class Calls:
    """The calls of a network's modules in one forward pass, by number and by path."""

    def __init__(
        self, module: Module, compute: Callable[[Module], Any], seen: "dict[Call, Tensor] | None" = None
    ) -> None:
        top = _Visit(module, Call(""))
        paths = {id(each): path for path, each in module.named_modules()}
        recorder = _Recorder(paths, top, {} if seen is None else seen)
        compute(_with_taps(module, {id(each): _Recording(each, recorder) for each in module.modules()}, {}))
        self._name, self._known = type(module).__name__, dict(_known(module, "", paths))
        self._counts = recorder.counts
        self.shapes = recorder.shapes
        self.layers = [visit.call for visit in _layers(top.inside[0])]

    @property
    def modules(self) -> dict[str, tuple[str, str]]:
        """Every path of a module, with the first path of the same module, and its class."""
        return self._known

    def find(self, layer: Any) -> Call:
        if isinstance(layer, str):
            return self._at(layer)
        if not is_whole(layer, -WHOLE):
            raise TypeError(
                f"layer must be a number or the path of a module, an int or a str, "
                f"got {shown(layer)} of type "
                f"{type(layer).__name__}"
            )
        if not -len(self.layers) <= layer < len(self.layers):
            if layer == -2 and len(self.layers) == 1:  # what transform takes if nothing is said
                raise ValueError(
                    f"{self._name} has no hidden layer, which layer=-2 stands for: its only layer is "
                    f"{self._listed()}. Give layer=-1 for the output of that one."
                )
            raise ValueError(
                f"there is no layer {shown(layer)}: {self._name} has {len(self.layers)}, {self._listed()}. "
                f"Numbers go from {-len(self.layers)} to {len(self.layers) - 1}."
            )
        return self.layers[int(layer)]

    def _at(self, layer: str) -> Call:
        path, number = layer, None
        if found := re.fullmatch(r"(.*):(-?\d+)", layer):
            path, number = found[1], int(found[2])
        if path not in self._known:
            raise ValueError(
                f"there is no layer {shown(path)}{nearest(path, self._known)}: {self._name} has "
                f"{self._listed()}, "
                f"and a layer may be the path of any module, {sorted(filter(None, self._known))}"
            )
        first, _ = self._known[path]
        count = self._counts.get(first, 0)
        if not count:
            raise ValueError(
                f"layer {path!r} has no output: the forward pass of {self._name} does not call it. It calls "
                f"{self._listed()}."
            )
        if number is None and count > 1:
            raise ValueError(
                f"layer {path!r} is called {count} times in a forward pass: say which call is meant, "
                f"'{path}:0' to '{path}:{count - 1}'"
            )
        if number is not None and not -count <= number < count:
            raise ValueError(
                f"there is no call {layer!r}: layer {path!r} is called {count} time(s) in a forward pass"
            )
        return Call(first, (number or 0) % count)

    def _listed(self) -> str:
        return ", ".join(
            f"{i}: {call.path!r} ({self._known[call.path][1]})" for i, call in enumerate(self.layers)
        )


class Recorded(Calls, ABC):
    """The calls of a network that a module stands for which does not call them: it has their outputs."""

    def __init__(
        self,
        name: str,
        modules: Mapping[str, tuple[str, str]],
        shapes: Mapping[Call, tuple[int, ...]],
        layers: Sequence[Call],
    ) -> None:
        self._name, self._known, self.shapes, self.layers = name, dict(modules), dict(shapes), list(layers)
        self._counts = dict(Counter(call.path for call in self.shapes))

    @property
    def name(self) -> str:
        return self._name

    @abstractmethod
    def output(self, module: Module, call: Call, args: "tuple[Any, ...] | dict[str, Any]") -> Any:
        """Return the output of a call for arguments of the network."""


def run_to(module: Module, call: Call, scope: Scope, args: tuple[Any, ...]) -> Any:
    """Run a module as `nn.run` does, but end with the output of a call inside; the rest is not computed."""
    recorded: Recorded | None = vars(module).get(RECORDED)
    if recorded is not None:
        return run(lambda: recorded.output(module, call, args), scope, ())
    ending = _Ending(module.get_submodule(call.path), call.number)
    copies: dict[int, Module] = {}
    copy = _with_taps(module, {id(ending.module): ending}, copies)
    values = dict(scope.values)
    for each in module.modules():  # a buffer is bound by its module
        slots = [(name, scope.values.get((id(each), name))) for name in each._buffers]
        values.update({(id(copies[id(each)]), name): value for name, value in slots if value is not None})
    try:
        run(copy, Scope(values, scope.training, scope.key, scope.step), args)
    except _Reached as reached:
        return reached.output
    raise StateError(
        f"layer {call.path!r} was not called {call.number + 1} time(s) in this forward pass: what "
        f"{type(module).__name__} calls depends on its input"
    )


# -- copies with taps ----------------------------------------------------------------------------------


def _with_taps(module: Module, taps: "Mapping[int, _Tap]", copies: dict[int, Module]) -> Module:
    """Return a module that computes what `module` does, in which some modules have taps."""
    if id(module) in copies:
        return copies[id(module)]
    children = {name: _with_taps(child, taps, copies) for name, child in module._children.items()}
    copy = module
    if id(module) in taps or any(child is not module._children[name] for name, child in children.items()):
        copy = type(module).__new__(type(module))
        vars(copy).update(vars(module) | children, _children=children)
        if id(module) in taps:
            vars(copy)["_hooks"] = taps[id(module)]
    copies[id(module)] = copy
    return copy


class _Tap(Hooks):
    """Replaces a module's hooks in a copy: it runs them, and sees the output."""

    def __init__(self, module: Module) -> None:
        self.module, self._hooks = module, module._hooks

    def _output(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._hooks is None:
            return module.forward(*args, **kwargs)
        return self._hooks.call(module, args, kwargs)


class _Reached(BaseException):
    """The end of a pass: no `except Exception` of a forward pass stops it."""

    def __init__(self, output: Any) -> None:
        self.output = output


class _Ending(_Tap):
    """Ends the pass with the output of one call."""

    def __init__(self, module: Module, number: int) -> None:
        super().__init__(module)
        self._to_go = number

    def call(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        output = self._output(module, args, kwargs)
        if not self._to_go:
            raise _Reached(output)
        self._to_go -= 1
        return output


# -- recording calls --------------------------------------------------------------------------------


class _Recorder:
    """The calls of a pass, inside each other."""

    def __init__(self, paths: Mapping[int, str], top: _Visit, seen: dict[Call, Tensor]) -> None:
        self._paths, self._open, self._seen = paths, [top], seen
        self.counts: dict[str, int] = {}
        self.shapes: dict[Call, tuple[int, ...]] = {}

    def begin(self, module: Module) -> None:
        path = self._paths[id(module)]
        visit = _Visit(module, Call(path, self.counts.get(path, 0)))
        self.counts[path] = visit.call.number + 1
        self._open[-1].inside.append(visit)
        self._open.append(visit)

    def end(self, output: Any) -> None:
        tensors = [x for x in leaves(output) if isinstance(x, Tensor)]
        if tensors:
            call = self._open[-1].call
            self.shapes[call], self._seen[call] = tensors[0].shape, tensors[0]
        self._open.pop()


class _Recording(_Tap):
    """Enters each call of a module into a recorder."""

    def __init__(self, module: Module, recorder: _Recorder) -> None:
        super().__init__(module)
        self._recorder = recorder

    def call(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._recorder.begin(self.module)
        output = self._output(module, args, kwargs)
        self._recorder.end(output)
        return output


def _layers(whole: _Visit) -> Iterator[_Visit]:
    """Yield what numbers count."""
    while len(whole.inside) == 1:
        whole = whole.inside[0]
    if not whole.inside:
        yield whole
    for visit in whole.inside:
        yield from _opened(visit)


def _opened(visit: _Visit) -> Iterator[_Visit]:
    if isinstance(visit.module, Sequential) and visit.inside:
        for each in visit.inside:
            yield from _opened(each)
    else:
        yield visit


def _known(module: Module, path: str, first: Mapping[int, str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield every path, those of shared modules too, with the module's first path and its class."""
    yield path, (first[id(module)], type(module).__name__)
    for name, child in module._children.items():
        yield from _known(child, join(path, name), first)
