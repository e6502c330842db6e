"""What crates/vramscope-python gives."""

from collections.abc import Sequence

__version__: str

class VramscopeError(Exception): ...
class ReadError(VramscopeError): ...

def main(arguments: Sequence[str]) -> int: ...
