"""How fast an algorithm takes reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairwater._fairwater import time_reports
from fairwater._parameters import checked


@dataclass(frozen=True)
class Speed:
    """How fast reports went through an algorithm."""

    reports: int
    """How many there were."""
    seconds: float
    """The time they took, the plane's part included."""
    commands: int
    """How many of them made the algorithm ask for something."""

    @property
    def reports_per_s(self) -> float:
        """Reports a second, on one core."""
        return self.reports / self.seconds


def speed(
    algorithm: type, /, *, reports: int = 1_000_000, flows: int = 1, **parameters: Any
) -> Speed:
    """Measure how fast `algorithm` takes reports of its first program.

    The plane that hosts it everywhere hands it `reports` reports of made-up numbers, `flows` flows
    in turn. Raises `ValueError` with what is wrong with the algorithm, or with what it raised.
    """
    if reports < 1:
        raise ValueError(f"reports is {reports}: it must be at least 1")
    values = checked(algorithm, parameters)
    seconds, commands = time_reports(algorithm, values, reports, flows)
    return Speed(reports, seconds, commands)
