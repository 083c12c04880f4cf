"""4: connect to a TCP port, an abstract socket and sockets by path."""

import socket
import sys

port, abstract, *paths = sys.argv[2:]
for family, address in [
    (socket.AF_INET, ("127.0.0.1", int(port))),
    (socket.AF_UNIX, "\0" + abstract),
    *((socket.AF_UNIX, path) for path in paths),
]:
    try:
        with socket.socket(family) as client:
            client.settimeout(2)
            client.connect(address)
            client.sendall(b"hello from inside")
            print("connected", address)
    except OSError:
        pass
