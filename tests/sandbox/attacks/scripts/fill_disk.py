"""8: write 700 MB into every directory that takes it, in several files."""

import os
import time

seen = set()
for top in ("/", "/tmp", "/dev/shm", "/checkout", "/var", "/run", "/home", "/base"):
    for directory, _, _ in os.walk(top):
        if directory.startswith(("/proc", "/sys")) or directory in seen or not os.access(directory, os.W_OK):
            continue
        seen.add(directory)
        for n in range(7):
            try:
                with open(f"{directory}/fill.{n}", "wb") as file:
                    for _ in range(100):
                        file.write(b"x" * 1_000_000)
            except OSError:
                break
time.sleep(0.5)
