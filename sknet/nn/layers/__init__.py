"""The layers: modules with one computation each, one file a family; `sknet.nn` has all their names."""

__all__: list[str] = []
