"""6, 7: so many processes touch so many MiB each."""

import os
import sys
import time

n_processes, n_mebibytes = map(int, sys.argv[2:])
for _ in range(n_processes - 1):
    if os.fork() == 0:
        break
taken = []
for _ in range(n_mebibytes // 32):
    taken.append(b"x" * (32 << 20))
time.sleep(2)
print("all taken", flush=True)
