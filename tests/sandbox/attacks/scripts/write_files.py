"""3: leave a file in every directory that is named."""

import os
import sys

for directory in sys.argv[3:]:
    for way in (directory, f"/proc/1/root{directory}", f"/checkout/../..{directory}"):
        try:
            os.makedirs(way, exist_ok=True)
            with open(os.path.join(way, sys.argv[2]), "w") as file:
                file.write("written from inside")
        except OSError:
            pass
