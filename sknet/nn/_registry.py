"""Registry: attributes that are parameters, buffers and child modules, and the paths to them."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from sknet._constraints import shown
from sknet._hints import suggestion
from sknet.core import Tensor, as_tensor
from sknet.device import Device
from sknet.exceptions import ShapeError
from sknet.nn._changes import note_setting, note_structure
from sknet.nn._other_names import ATTRIBUTES
from sknet.nn._parameter import Parameter
from sknet.nn._scope import Registered, bound_buffer, bound_parameter, current_scope, remember_buffer

if TYPE_CHECKING:
    from sknet.nn._module import Module

__all__ = ["Registry", "join", "nearest"]

# Attributes in which a module keeps what this file and `_module.py` are about.
OWN = frozenset({"_parameters", "_buffers", "_transient", "_children", "_training", "_held", "_hooks"})


class Registry:
    """What every module keeps: its parameters, buffers and children by name, and those below by path."""

    _parameters: dict[str, Parameter]
    _buffers: dict[str, Tensor]
    _transient: set[str]  # names of the buffers that no state contains
    _children: dict[str, "Module"]  # also in __dict__, where they are read fastest

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make the registries; the arguments are `__init__`'s."""
        module = super().__new__(cls)
        vars(module).update(_parameters={}, _buffers={}, _transient=set(), _children={})
        return module

    # -- registering ----------------------------------------------------------------------------

    def register_parameter(self, name: str, parameter: Parameter) -> None:
        """Add a parameter; assigning it as an attribute does the same.

        Parameters
        ----------
        name : str
            Its attribute, and its part of the path.
        parameter : Parameter
            May belong to other modules too: it is then shared.

        Raises
        ------
        TypeError
            If it is not a Parameter.
        ValueError
            If the name has a dot, is empty, or is taken by a method.
        """
        if not isinstance(parameter, Parameter):
            raise TypeError(
                f"{self._place(name)} must be a Parameter, got {_article(parameter)}: use nn.Parameter(...)"
            )
        self._claim(name, self._parameters)
        self._parameters[name] = parameter
        note_structure()

    def register_module(self, name: str, module: Any) -> None:
        """Add a module as a child; assigning it as an attribute does the same.

        Parameters
        ----------
        name : str
            Its attribute, and its part of the path.
        module : Module
            May be registered several times: it then computes several times with the same parameters.

        Raises
        ------
        TypeError
            If it is not a Module.
        ValueError
            If the name has a dot, is empty, or is taken by a method.
        """
        if not isinstance(module, Registry):
            hint = f": pass an instance, {module.__name__}(...)" if isinstance(module, type) else ""
            raise TypeError(f"{self._place(name)} must be a Module, got {_article(module)}{hint}")
        self._claim(name, self._children)
        children: dict[str, Any] = self._children
        children[name] = vars(self)[name] = module
        note_structure()

    def register_buffer(
        self, name: str, value: Any, persistent: bool = True, *, device: "str | Device | None" = None
    ) -> None:
        """Add a tensor that is state but not learned, such as a running mean.

        Parameters
        ----------
        name : str
            Its attribute, and its part of the path.
        value : Tensor or array-like
            Its first value; shape and dtype stay.
        persistent : bool, default=True
            Whether it is part of `state_dict`.
        device : str or Device, default=None
            Where it lives; None leaves the value where it is.

        Raises
        ------
        ValueError
            If the name has a dot, is empty, or is taken by a method.
        """
        self._claim(name, self._buffers)
        self._buffers[name] = Tensor(value, device=device)
        (self._transient.discard if persistent else self._transient.add)(name)
        note_structure()

    def set_buffer(self, name: str, value: Any) -> None:
        """Set the value of a buffer, as a forward pass does with its running statistics.

        Inside `functional_call` the value goes to the buffers that the call returns, and the
        module stays as it was. Assigning the attribute does the same.

        Parameters
        ----------
        name : str
            A registered buffer.
        value : Tensor or array-like
            It is detached, and converted to the buffer's dtype.

        Raises
        ------
        AttributeError
            If there is no such buffer.
        ShapeError
            If the shape is not the buffer's.
        """
        own = self._buffers.get(name)
        if own is None:
            raise AttributeError(f"{self._place(name)} is not a buffer: register_buffer adds one")
        value = as_tensor(value).detach()
        if value.shape != own.shape:
            raise ShapeError(f"{self._place(name)} is a buffer of shape {own.shape}, got {value.shape}")
        if value.dtype != own.dtype:
            value = value.astype(own.dtype)
        scope = current_scope()
        if scope is None:
            remember_buffer(self, name)
            self._buffers[name] = value
        else:
            scope.updates[id(self), name] = value

    def _claim(self, name: str, registry: Mapping[str, Any]) -> None:
        """Free a name for `registry`, so that it is in one place only."""
        if not isinstance(name, str) or not name or "." in name:
            raise ValueError(
                f"a name in {type(self).__name__} must be a non-empty str without dots, got {shown(name)}"
            )
        self._refuse_own(name)
        if self._is_reserved(name):
            raise ValueError(
                f"{self._place(name)} cannot be registered: the class has an attribute of this name"
            )
        if name not in registry:
            self._forget(name)

    @classmethod
    def _is_reserved(cls, name: str) -> bool:
        """Tell whether the class has an attribute of this name."""
        return hasattr(cls, name) and not isinstance(getattr(cls, name), Registered)

    def _refuse_own(self, name: str) -> None:
        if name in OWN:
            raise ValueError(
                f"{self._place(name)} cannot be set: modules keep state of their own under this name, choose "
                "another"
            )

    def _forget(self, name: str) -> bool:
        vars_, found = vars(self), False
        for registry in (vars_, self._parameters, self._buffers, self._children):
            found = registry.pop(name, registry) is not registry or found
        self._transient.discard(name)
        if found:
            note_structure()
        return found

    def _place(self, name: str) -> str:
        return f"{type(self).__name__}.{name}"

    # -- attributes -----------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self.register_parameter(name, value)
        elif isinstance(value, Registry):
            self.register_module(name, value)
        elif value is not None and name in self._buffers:
            self.set_buffer(name, value)
        elif value is not None and (name in self._parameters or name in self._children):
            kind = "Parameter" if name in self._parameters else "Module"
            raise TypeError(
                f"{self._place(name)} is a {kind}, and {_article(value)} cannot take its place: "
                f"assign a {kind}, or None to remove it"
            )
        elif isinstance(value, (list, tuple, dict)) and _holds_state(value):
            raise TypeError(
                f"{self._place(name)}: modules or parameters inside a {type(value).__name__} are not found; "
                "keep them in nn.ModuleList, nn.ModuleDict, nn.ParameterList or nn.ParameterDict"
            )
        else:
            if name in self._parameters or name in self._buffers or name in self._children:
                self._forget(name)
            self._refuse_own(name)
            super().__setattr__(name, value)
            note_setting()

    def __getattr__(self, name: str) -> Any:
        state = vars(self)
        if name in state["_parameters"]:
            return bound_parameter(state["_parameters"][name])
        if name in state["_buffers"]:
            return bound_buffer(self, name)
        # Names with an underscore are looked up by protocols, often, and never by mistake.
        hint = "" if name.startswith("_") else suggestion(name, dir(self), ATTRIBUTES).removesuffix(".")
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self
        )

    def __delattr__(self, name: str) -> None:
        if not self._forget(name):
            super().__delattr__(name)
            note_setting()

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._buffers})

    # -- looking around -------------------------------------------------------------------------

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, "Module"]]:
        """Yield path and module for this one and all below, parents first; `prefix` begins every path.

        A module that is registered several times comes once, under its first path.
        """
        return _walk(self, prefix, set())

    def modules(self) -> Iterator["Module"]:
        """Yield this module and all below, each once, parents before children."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        """Yield name and module for the modules registered here."""
        return iter(list(self._children.items()))

    def children(self) -> Iterator["Module"]:
        """Yield the modules registered here."""
        return iter(list(self._children.values()))

    def get_submodule(self, path: str) -> "Module":
        """Return the module at a dotted path; this one itself for "".

        Parameters
        ----------
        path : str
            As `named_modules` gives it; any path to a shared module will do.

        Returns
        -------
        Module
            The module.

        Raises
        ------
        AttributeError
            Names the part of the path that does not exist, and the modules there are.
        """
        module: Any = self
        for part in path.split(".") if path else ():
            if part not in module._children:
                raise AttributeError(
                    f"{type(self).__name__} has no module {path!r}: {type(module).__name__} has no {part!r}"
                    f"{nearest(part, module._children) or f', only {list(module._children)}'}"
                )
            module = module._children[part]
        return module  # type: ignore[no-any-return]

    def get_parameter(self, path: str) -> Parameter:
        """Return the parameter at a dotted path, as the module's attribute would give it.

        Parameters
        ----------
        path : str
            As `named_parameters` gives it; any path to a shared parameter will do.

        Returns
        -------
        Parameter
            The parameter.

        Raises
        ------
        AttributeError
            If there is none.
        """
        owner, name = self._owner_of(path, "_parameters", "parameter")
        return bound_parameter(owner._parameters[name])  # type: ignore[return-value]

    def get_buffer(self, path: str) -> Tensor:
        """Return the value of the buffer at a dotted path.

        Parameters
        ----------
        path : str
            As `named_buffers` gives it.

        Returns
        -------
        Tensor
            The value.

        Raises
        ------
        AttributeError
            If there is none.
        """
        return bound_buffer(*self._owner_of(path, "_buffers", "buffer"))

    def _check_shapes(self) -> None:
        """Raise a StateError if this is a lazy module, whose parameters are not made yet."""

    def _owner_of(self, path: str, registry: str, kind: str) -> tuple["Module", str]:
        parent, _, name = path.rpartition(".")
        owner = self.get_submodule(parent)
        known = getattr(owner, registry)
        if name not in known:
            raise AttributeError(
                f"{type(self).__name__} has no {kind} {path!r}: {type(owner).__name__} has no {name!r}"
                f"{nearest(name, known) or f', only {list(known)}'}"
            )
        return owner, name

    def own_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Yield what `named_parameters` does outside `functional_call`; `prefix` begins every path."""
        seen: set[int] = set()
        for path, module in self.named_modules(prefix):
            module._check_shapes()
            for name, parameter in module._parameters.items():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield join(path, name), parameter

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Yield path and parameter: a module's own, then its children's; `prefix` begins every path.

        A shared one comes once, under its first path. Inside `functional_call`, the values that it
        was given stand in for parameters.
        """
        for path, parameter in self.own_parameters(prefix):
            yield path, bound_parameter(parameter)  # type: ignore[misc]

    def parameters(self) -> Iterator[Parameter]:
        """Yield the parameters of this module and all below, in the order of `named_parameters`."""
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Yield path and value of the buffers of this module and all below; `prefix` begins every path."""
        for path, module in self.named_modules(prefix):
            for name in module._buffers:
                yield join(path, name), bound_buffer(module, name)

    def buffers(self) -> Iterator[Tensor]:
        """Yield the values of the buffers of this module and all below."""
        return (buffer for _, buffer in self.named_buffers())


def nearest(path: str, known: Iterable[str]) -> str:
    """Return a hint at the known path that was probably meant, or nothing."""
    found = difflib.get_close_matches(path, list(known), n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def join(path: str, name: str) -> str:
    """Return the dotted path of `name` inside the module at `path`."""
    return f"{path}.{name}" if path else name


def _walk(module: Registry, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if id(module) in seen:
        return
    seen.add(id(module))
    yield path, module
    for name, child in module._children.items():
        yield from _walk(child, join(path, name), seen)


def _holds_state(values: Any) -> bool:
    return any(
        isinstance(value, (Registry, Parameter))
        for value in (values.values() if isinstance(values, dict) else values)
    )


def _article(value: Any) -> str:
    return (
        f"the class {value.__name__}"
        if isinstance(value, type)
        else f"an object of type {type(value).__name__}"
    )
