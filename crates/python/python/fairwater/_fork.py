"""What a forked child must not keep of a process that hosts algorithms.

A congestion control stays registered, and a plane's programs stay in force, while any process has
a descriptor of them. A child that an algorithm forks would keep them when the plane is gone.
"""

from __future__ import annotations

import contextlib
import os

from fairwater._fairwater import on_fork_in_child


def release_in_child() -> None:
    """Give up the BPF descriptors of a parent that hosts algorithms."""
    if not on_fork_in_child():
        return
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("anon_inode:bpf"):
                # The number stays taken: its owner does not know that this is another process.
                os.dup2(null, int(name), inheritable=False)
    os.close(null)


os.register_at_fork(after_in_child=release_in_child)
