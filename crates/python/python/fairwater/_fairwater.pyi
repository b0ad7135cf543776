"""What is written in Rust."""

from collections.abc import Sequence

__version__: str

def command(arguments: Sequence[str]) -> int:
    """Run the command with these arguments, the program's name first; returns the exit code."""
