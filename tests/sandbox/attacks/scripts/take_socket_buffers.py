"""7c: fill the buffers of socket pairs with up to 4 GiB, in as many processes as it takes."""

import os
import socket
import time

held = []
n_bytes = 0
for _ in range(15):
    if os.fork() == 0:
        break
while n_bytes < 256 << 20:
    try:
        pair = socket.socketpair()
    except OSError:
        break
    held.append(pair)
    pair[0].setblocking(False)
    pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
    try:
        while True:
            n_bytes += pair[0].send(b"x" * 65536)
    except OSError:
        pass
time.sleep(1)
