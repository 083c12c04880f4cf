"""7d: fill pipes, each made as large as the kernel lets it be."""

import fcntl
import os
import time

n_bytes = 0
held = []
while n_bytes < 3 << 30:
    try:
        pair = os.pipe()
    except OSError:
        break
    held.append(pair)
    os.set_blocking(pair[1], False)
    try:
        fcntl.fcntl(pair[1], 1031, 1 << 20)
    except OSError:
        pass
    try:
        while True:
            n_bytes += os.write(pair[1], b"x" * 65536)
    except OSError:
        pass
time.sleep(0.5)
