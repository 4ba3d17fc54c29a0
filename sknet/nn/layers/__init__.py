"""The layers: modules with one computation each, one file per family; `sknet.nn` exports them all."""
