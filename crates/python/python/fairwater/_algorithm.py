"""What an author writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairwater._fairwater import Control, FlowInfo

INFINITY = 2**64 - 1
"""`+infinity` of the datapath language: the RTT sample before the first, for instance."""

MAX_RATE = 2**40
"""The greatest pacing rate, bytes/s."""


class Algorithm:
    """A congestion control algorithm; each instance is one flow (CCP §4.2).

    What the constructor takes are the algorithm's parameters, set on the command line and in
    scenarios as `my_alg.py:MyAlg:gain=0.5`; give them annotations, and values are checked by
    them. To inherit from this class is not needed; it is here to be read, and for type checkers.
    """

    programs: str | Mapping[str, str]
    """The datapath programs, by name, in CCP's language (docs/language.md); flows begin with the
    first. One text alone is a program with the class's name. It is read from an instance, so the
    constructor may make it from the parameters."""

    name: str | None = None
    """Under which name datapaths offer it: letters, digits and `_`; the class's in lower case if
    `None`. On Linux it is `fw_` and this, 15 characters at most."""

    idle_restart: bool = True
    """Whether the datapath restarts from the restart window after an idle period (RFC 5681
    §4.1)."""

    needs_ecn: bool = False
    """Whether its flows must negotiate ECN, with marks echoed packet by packet (RFC 8257 §3.2)."""

    def new_flow(self, info: FlowInfo, control: Control) -> None:
        """Begin the flow, which runs the first program unless `control` switches to another."""

    def on_report(self, report: Any, control: Control) -> None:
        """Take a report of the program that the flow runs.

        The report's fields are attributes: `report.acked` for `Report.acked`. A report and a
        control can be used until this returns. What raises gives the flow up to the datapath's
        fallback.
        """
        raise NotImplementedError

    def on_close(self) -> None:
        """End: the flow ended, or left the algorithm; not called after something raised."""
