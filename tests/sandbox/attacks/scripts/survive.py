"""12, 15b, 18: leave a process that left its session, ignores every signal and holds no stream open."""

import os
import signal
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        for stream in (0, 1, 2):
            os.close(stream)
        time.sleep(120)
    os._exit(0)
time.sleep(120)
