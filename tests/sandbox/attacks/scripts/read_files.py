"""1: print what can be read of the files that are named, by every way that leads there."""

import sys

for path in sys.argv[2:]:
    for way in (path, f"/proc/1/root{path}", f"/proc/self/root{path}", f"/proc/1/cwd/../../..{path}"):
        try:
            with open(way) as file:
                print(file.read())
        except (OSError, UnicodeDecodeError):
            pass
