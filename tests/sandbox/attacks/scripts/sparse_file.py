"""10: make a file of a terabyte that holds nothing."""

import signal
import time

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open("sparse", "wb") as file:
    try:
        file.truncate(1 << 40)
    except OSError:
        pass
    time.sleep(0.3)
