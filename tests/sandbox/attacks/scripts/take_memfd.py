"""7b: fill 3 GiB of anonymous files and drop them from every address space."""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
n_mebibytes = 0
while n_mebibytes < 3072:
    file = libc.memfd_create(b"x", 0)
    if file < 0:
        break
    for _ in range(64):
        os.write(file, b"x" * (1 << 20))
        n_mebibytes += 1
print(n_mebibytes)
