"""Device: where arrays live."""

import re
from dataclasses import dataclass

from sknet._constraints import shown
from sknet.exceptions import DeviceError

__all__ = ["Device"]


@dataclass(frozen=True, slots=True)
class Device:
    """A place where arrays live: a kind and, where there are several of a kind, an index.

    Parameters
    ----------
    kind : str
        ``"cpu"``, ``"cuda"`` or ``"meta"`` (shapes and dtypes without data).
    index : int, default=0
        Index among the devices of its kind.

    Examples
    --------
    >>> Device.parse("cuda:1")
    Device(kind='cuda', index=1)
    >>> str(Device("cpu"))
    'cpu'
    """

    kind: str
    index: int = 0

    @classmethod
    def parse(cls, spec: "str | Device") -> "Device":
        """Read ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"meta"``; a Device passes through.

        Parameters
        ----------
        spec : str or Device
            The text, or a Device.

        Returns
        -------
        Device
            The device, which may not exist on this machine.

        Raises
        ------
        DeviceError
            If the text is not the name of a device.
        """
        if isinstance(spec, cls):
            return spec
        if isinstance(spec, str) and spec == "cpu":
            return cls("cpu")
        match = re.fullmatch(r"([a-z]+)(?::(\d+))?", spec) if isinstance(spec, str) else None
        if match is None:
            raise DeviceError(f"a device must be 'cpu', 'cuda', 'cuda:<index>' or 'meta', got {shown(spec)}")
        return cls(match[1], int(match[2] or 0))

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}" if self.kind not in ("cpu", "meta") else self.kind
