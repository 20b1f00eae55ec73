"""The compiled module. Shapes, units and errors are described here; the Rust bindings carry one line each."""

__version__: str
