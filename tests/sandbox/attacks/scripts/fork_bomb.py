"""5: fork 1,500 times."""

import os
import time

for _ in range(1500):
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    except OSError:
        break
time.sleep(1)
os._exit(0)
