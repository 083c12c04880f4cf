"""2: print the environment and command line of every process in sight."""

import os
from pathlib import Path

print(dict(os.environ))
for name in ("environ", "cmdline", "auxv"):
    for path in Path("/proc").glob(f"[0-9]*/{name}"):
        try:
            print(path.read_bytes())
        except OSError:
            pass
