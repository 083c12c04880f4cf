"""17: type a command into every terminal that can be opened or was handed down."""

import fcntl
import os
import termios
from pathlib import Path

handed_down = [int(path.name) for path in Path("/proc/self/fd").iterdir()]
for path in (
    "/dev/tty",
    "/dev/console",
    *map(str, Path("/dev/pts").glob("*")),
    *map(str, Path("/proc").glob("[0-9]*/fd/*")),
):
    try:
        handed_down.append(os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK))
    except OSError:
        pass
n_typed = 0
for file in handed_down:
    try:
        fcntl.ioctl(file, termios.TIOCSCTTY, 0)
    except OSError:
        pass
    for letter in b"echo typed\n":
        try:
            fcntl.ioctl(file, termios.TIOCSTI, bytes([letter]))
            n_typed += 1
        except OSError:
            pass
print("typed", n_typed)
