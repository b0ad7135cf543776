"""What an author writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from fairwater._fairwater import Control, FlowInfo

INFINITY = 2**64 - 1
"""`+infinity` of the datapath language: the RTT sample before the first, for instance."""

Key: TypeAlias = "str | int | bytes | tuple[Key, ...] | None"
"""By what flows are aggregated."""

MAX_RATE = 2**40
"""The greatest pacing rate, bytes/s."""


class Algorithm:
    """A congestion control algorithm; each instance is one flow (CCP §4.2), or one aggregate.

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

    needs_rate: bool = False
    """Whether it controls its flows by a pacing rate that no window can stand for: datapaths that
    enforce windows alone are then not served."""

    aggregate_by: Callable[[FlowInfo], Key] | None = None
    """A method `aggregate_by(self, info)`, where flows are controlled together (CCP §6.3).

    Flows of the same key, which is a `str`, an `int`, `bytes` or a tuple of such, share an
    instance: `new_flow` begins each, `on_report` has the control of the flow that reports, and
    `control.group` those of all. A flow whose key is `None` is alone, and so is one for which this
    raises. It is called on an instance that has no flows.
    """

    def new_flow(self, info: FlowInfo, control: Control) -> None:
        """Begin a flow, which runs the first program unless `control` switches to another."""

    def on_report(self, report: Any, control: Control) -> None:
        """Take a report of the program that the flow runs.

        The report's fields are attributes: `report.acked` for `Report.acked`. A report and a
        control can be used until this returns. What raises gives the flow up to the datapath's
        fallback.
        """
        raise NotImplementedError

    def on_mss(self, mss: int, control: Control) -> None:
        """Go on with segments of `mss` bytes of payload: the path's MTU was found to be another
        (RFC 4821, RFC 8899).

        cwnd, in bytes, stays as it was. A program that counts in segments is given their new size
        here. What raises gives the flow up to the datapath's fallback.
        """

    def on_leave(self, member: int, group: Sequence[Control]) -> None:
        """Go on without a member of the aggregate, which ended or was given up.

        `group` has the controls of those who are left.
        """

    def on_close(self) -> None:
        """End: the flow ended or left, or the last of the aggregate did; a flow that is alone does
        not hear it after something raised."""
