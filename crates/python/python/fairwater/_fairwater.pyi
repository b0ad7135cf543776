"""What is written in Rust."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

__all__ = [
    "GYM_FEATURES",
    "GYM_PROGRAM",
    "Attachment",
    "Control",
    "FlowInfo",
    "Grid",
    "GymEnvironment",
    "GymFleet",
    "Report",
    "ResultsFolder",
    "PolicyAdapter",
    "__version__",
    "command",
    "on_fork_in_child",
    "simulate",
    "time_reports",
]

__version__: str

def on_fork_in_child() -> bool: ...

@disjoint_base
class Report:
    """What a program reported, with the datapath's own time.

    The program's report variables are attributes: `report.acked` for `Report.acked`, an `int`, or
    a `bool` where it is a boolean; `report["acked"]` is the same. One of them hides an attribute
    below of the same name. A report can be read until the `on_report` that it was given to
    returns: the next comes in the same object.
    """

    def __new__(cls, layout: object) -> Report: ...
    @property
    def time_us(self) -> int:
        """The datapath's time of the report, µs. It has no fixed zero: use differences."""
    @property
    def cwnd(self) -> int:
        """The congestion window after the invocation that reported, bytes."""
    @property
    def rate(self) -> int:
        """The pacing rate after the invocation that reported, bytes/s; 0 is none."""
    @property
    def program(self) -> str:
        """The name of the program that reported."""
    def __getitem__(self, name: str, /) -> int | bool: ...
    def __getattr__(self, name: str, /) -> Any: ...

@final
class Control:
    """What the algorithm wants of its flow.

    It takes effect together, at the datapath's next invocation, when the author's function
    returns; nothing does when that raises. It can be used until then. Numbers are `int`, or
    `float`, which is rounded down. A number that is no number raises `TypeError`, one out of
    range `ValueError`.
    """

    def set_cwnd(self, bytes: float) -> None:
        """Set the congestion window, bytes; at least 1. The datapath rounds to whole segments."""
    def set_rate(self, bytes_per_s: float) -> None:
        """Set the pacing rate, bytes/s, at most `fairwater.MAX_RATE`; 0 is none."""
    def update(self, **values: float) -> None:
        """Set control variables of the program that the flow runs, or was just switched to.

        `AttributeError` names the nearest variable when there is none of a name.
        """
    def switch(self, program: str, /, **values: float) -> None:
        """Switch to a program: its variables take their initial values, but for those given.

        Its timer restarts, also when it is the program that runs. `ValueError` names the
        nearest program when there is none of that name.
        """
    def withdraw(self, reason: str) -> None:
        """Give the flow up to the datapath's fallback for good; the reason is shown."""
    @property
    def program(self) -> str:
        """The name of the program that the flow runs, after any `switch` of this call."""
    @property
    def member(self) -> int:
        """Which of its aggregate's members the flow is: a small number from 0, which is given out
        again when the flow has left; 0 if it is alone."""
    @property
    def group(self) -> list[Control]:
        """The controls of all members of the aggregate, by number, this one's too. What is asked
        for of any of them takes effect with the rest; of a flow that is alone, it is this one."""

@final
class FlowInfo:
    """What is known of a flow when it begins, or comes back from the datapath's fallback."""

    @property
    def local(self) -> tuple[str, int]:
        """The local address and port."""
    @property
    def remote(self) -> tuple[str, int]:
        """The remote address and port."""
    @property
    def mss(self) -> int:
        """Maximum segment size, bytes of payload."""
    @property
    def cwnd(self) -> int:
        """The congestion window at this moment, bytes; the initial one of a new connection."""
    @property
    def srtt_us(self) -> int:
        """Smoothed RTT so far, µs; 0 when none was measured."""
    @property
    def now_us(self) -> int:
        """The datapath's time, µs."""
    @property
    def tag(self) -> int:
        """What the datapath tells flows apart by, where it does; 0 elsewhere."""

def command(arguments: Sequence[str]) -> int:
    """Run the command with these arguments, the program's name first; returns the exit code."""

@final
class Attachment:
    """An algorithm at work on this machine's TCP, in a thread of this process."""

    def __new__(
        cls,
        algorithm: type,
        parameters: Mapping[str, Any],
        silent_after_s: float,
        max_flows: int,
        /,
    ) -> Attachment: ...
    @property
    def name(self) -> str:
        """The kernel's name of the algorithm."""
    def notices(self) -> list[str]:
        """What went wrong with flows since this was last asked."""
    def detach(self) -> list[str]:
        """Detach; returns what `notices` would."""

def simulate(
    name: str,
    source: str,
    folder: os.PathLike[str],
    algorithms: Mapping[str, type],
    settings: Sequence[str],
    seed: int | None,
    jobs: int | None,
    progress: Callable[[float], object] | None,
) -> tuple[dict[str, dict[str, Any]], list[tuple[int, str]], list[str]]:
    """Simulate each point of a scenario's grid: the columns of each table, notices, and failures.

    A failure is a sentence about a flow that ran without its algorithm.
    """

@final
class Grid:
    """A scenario's grid, point by point."""

    def __new__(
        cls,
        name: str,
        source: str,
        folder: os.PathLike[str],
        files: Mapping[str, str] | None = None,
        settings: Sequence[str] = ...,
        seed: int | None = None,
    ) -> Grid:
        """The grid of a scenario's source, changed by `settings` (`key=value`) and the seed.

        Files that it names are those of `files` if that is given, else in `folder`.
        """
    def __len__(self) -> int: ...
    @property
    def source(self) -> str:
        """The source, with what settings and the seed changed in it."""
    @property
    def files(self) -> dict[str, str]:
        """The texts of the files that it names, by name."""
    @property
    def scripts(self) -> dict[str, str]:
        """The texts of the Python files that its algorithms are in, by name."""
    def simulate(self, index: int) -> str:
        """Simulate a point: what is found, as JSON."""

@final
class ResultsFolder:
    """The folder of a grid's results: what `fairwater run` makes, file by file."""

    def __new__(cls, path: os.PathLike[str], grid: Grid, fresh: bool) -> ResultsFolder: ...
    def missing(self) -> list[int]:
        """The points that are still to be run."""
    def keep(self, found: str) -> None:
        """Keep what `Grid.simulate` found."""
    def finish(self, title: str) -> list[str]:
        """Write the tables, the lines and the report page of all points; returns failures."""

GYM_PROGRAM: str
GYM_FEATURES: list[tuple[str, float, float, str]]

@final
class GymEnvironment:
    """One environment; settings are those of `fairwater.gym.PathEnv`."""

    def __new__(cls, seed: int, **settings: Any) -> GymEnvironment: ...
    def reset(self, seed: int | None) -> npt.NDArray[np.float32]:
        """Begin an episode: its first observation."""
    def step(self, action: float) -> tuple[npt.NDArray[np.float32], float, bool, bool]:
        """Observation, reward, terminated, truncated."""
    def info(self) -> dict[str, float]:
        """The path and the last step, in units."""

@final
class GymFleet:
    """Several environments; each call fills the arrays that it is given."""

    INFO: list[str]
    """The columns of `info`."""

    def __new__(cls, count: int, seed: int, **settings: Any) -> GymFleet: ...
    def reset(self, seeds: Sequence[int | None], observations: npt.NDArray[np.float32]) -> None: ...
    def step(
        self,
        actions: npt.NDArray[np.float32],
        observations: npt.NDArray[np.float32],
        rewards: npt.NDArray[np.float64],
        terminated: npt.NDArray[np.bool_],
        truncated: npt.NDArray[np.bool_],
        last_observations: npt.NDArray[np.float32],
    ) -> None: ...
    def info(self, rows: npt.NDArray[np.float64]) -> None: ...

@final
class PolicyAdapter:
    """A flow as a policy of `fairwater.gym` sees it and steers it."""

    def __new__(cls, mss: int) -> PolicyAdapter:
        """For a flow that begins, with segments of `mss` bytes of payload."""
    def observe(self, report: Any) -> npt.NDArray[np.float32]:
        """Take a report of `fairwater.gym.PROGRAM`, and return what a policy observes."""
    def apply(self, action: float) -> int:
        """Take an action, -1 to 1; returns the cwnd to set, bytes."""

def time_reports(
    algorithm: type, parameters: Mapping[str, Any], reports: int, flows: int
) -> tuple[float, int]:
    """Hand reports to an algorithm; returns the seconds it took, and the commands that came."""
