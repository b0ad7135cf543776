"""Algorithms on this machine's TCP."""

from __future__ import annotations

import atexit
import sys
import threading
from types import TracebackType
from typing import Any

from fairwater._fairwater import Attachment
from fairwater._parameters import checked


class attach:  # noqa: N801 (it reads as a function)
    """Put an algorithm on this machine's TCP, as long as the `with` block lasts.

        with fairwater.attach(MyAlg, gain=0.5) as name:
            socket.setsockopt(IPPROTO_TCP, TCP_CONGESTION, name.encode())

    `name` is the kernel's name of it, `fw_myalg`, which any TCP socket and route can choose. What
    is wrong with a flow goes to standard error as it comes, and is kept in `notices`.

    The algorithm runs in a thread of this process. While it is silent for more than `silent_after`
    seconds, because it blocks, or because the rest of the process keeps the interpreter, its flows
    go on under Cubic in the kernel, and it has them back afterwards; if the process is killed, they
    stay under Cubic. Of more than `max_flows` at once the others are under Cubic from the start.

    What is still attached when the interpreter ends is detached then.

    Needs root and a kernel with BTF: `PermissionError` says what is missing. `ValueError` says
    what is wrong with the algorithm, `OSError` what the kernel refused.
    """

    def __init__(
        self,
        algorithm: type,
        /,
        *,
        silent_after: float = 0.2,
        max_flows: int = 16_384,
        **parameters: Any,
    ) -> None:
        self._attachment: Attachment | None = None
        self._start = (algorithm, checked(algorithm, parameters), silent_after, max_flows)
        self._end = threading.Event()
        self._listener = threading.Thread(target=self._listen, name="notices", daemon=True)
        self.notices: list[str] = []

    def __enter__(self) -> str:
        if self._attachment is not None:
            raise RuntimeError("this was attached before: each `with` needs an attach of its own")
        self._attachment = Attachment(*self._start)
        # The plane's thread cannot run on in an interpreter that has ended.
        atexit.register(self._detach)
        self._listener.start()
        return self._attachment.name

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._detach()

    def _detach(self) -> None:
        atexit.unregister(self._detach)
        if self._attachment is not None:
            self._end.set()
            self._listener.join()
            self._tell(self._attachment.detach())

    def _listen(self) -> None:
        while self._attachment is not None and not self._end.wait(0.1):
            self._tell(self._attachment.notices())

    def _tell(self, notices: list[str]) -> None:
        self.notices += notices
        for notice in notices:
            print(f"{notice}; it goes on under Cubic in the kernel.", file=sys.stderr)
