"""19: print every command line in sight."""

from pathlib import Path

for path in Path("/proc").glob("[0-9]*/cmdline"):
    try:
        print(path.read_bytes())
    except OSError:
        pass
