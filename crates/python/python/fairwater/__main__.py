"""The `fairwater` command: `fairwater` or `python -m fairwater`."""

import io
import signal
import sys

from fairwater._fairwater import command


def main() -> int:
    """Run the command with this process's arguments; returns its exit code."""
    # The command stops by itself when asked to, and cleans up; Python's handler would only see
    # the signal when Python runs again.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # What an algorithm prints is seen when it does.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    return command(["fairwater", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
