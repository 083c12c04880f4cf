"""11: write without end on both streams, whatever becomes of the reader."""

import os
import signal

signal.signal(signal.SIGPIPE, signal.SIG_IGN)
while True:
    for stream in (1, 2):
        try:
            os.write(stream, b"y\n" * 32768)
        except OSError:
            pass
