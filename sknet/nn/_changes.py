"""When a module was last changed, so that what is derived from modules can be kept without walking them.

Each mark is an object of its own, replaced at every change of that kind to any module: the mark that was
read before is still the current one as long as nothing has changed. An object that is referenced is never
mistaken for another, and replacing it is atomic, so several threads need no lock. A mark is always replaced
after the change has been made: so a reader of the new one sees the change.
"""

__all__ = ["latest", "note_hooks", "note_setting", "note_structure"]


class Marks:
    """The marks of the latest changes."""

    __slots__ = ("hooks", "settings", "structure")

    def __init__(self) -> None:
        self.structure: object = object()
        self.settings: object = object()
        self.hooks: object = object()


latest = Marks()


def note_structure() -> None:
    """Note that parameters, buffers or modules were added, removed, frozen or unfrozen."""
    latest.structure = object()
    latest.settings = object()


def note_setting() -> None:
    """Note that an attribute of a module has changed."""
    latest.settings = object()


def note_hooks() -> None:
    """Note that a hook was added or removed."""
    latest.hooks = object()
    latest.settings = object()
