"""The layers: modules with one computation each, one file per family; `sknet.nn` exports them all."""

__all__: list[str] = []


def __dir__() -> list[str]:
    return __all__
