"""13: kill the processes that are named, their groups, and all others."""

import os
import signal
import sys

signal.signal(signal.SIGTERM, signal.SIG_IGN)
for pid in [*map(int, sys.argv[2:]), *range(2, 50_000), -1]:
    if abs(pid) in (os.getpid(), os.getppid()):
        continue
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
