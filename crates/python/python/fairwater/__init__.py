"""Fairwater from Python: write a congestion control algorithm, simulate it, put it on real TCP."""

from fairwater._fairwater import __version__

__all__ = ["__version__"]
