"""14: print which doors of the kernel open: devices, files of /proc and /sys, system calls (x86_64), sockets."""

import ctypes
import os
import socket

WRITABLE = (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/vm/drop_caches",
    "/proc/sysrq-trigger",
    "/proc/irq/default_smp_affinity",
    "/sys/kernel/uevent_helper",
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/release_agent",
)
READABLE = (
    "/dev/mem",
    "/dev/kmsg",
    "/dev/vda",
    "/dev/sda",
    "/dev/kvm",
    "/dev/fuse",
    "/dev/vsock",
    "/proc/kcore",
)
CALLS = {
    "unshare": (272, 0x10000000),
    "clone": (56, 0x10000000 | 17, 0, 0, 0, 0),
    "setns": (308, 0, 0),
    "mount": (165, 0, 0, 0, 0, 0),
    "pivot_root": (155, 0, 0),
    "chroot": (161, b"/tmp"),
    "keyctl": (250, 0, -3, 1),
    "add_key": (248, b"user", b"x", b"x", 1, -3),
    "request_key": (249, b"user", b"x", 0, -3),
    "bpf": (321, 0, 0, 0),
    "perf_event_open": (298, 0, 0, -1, -1, 0),
    "userfaultfd": (323, 0),
    "io_uring_setup": (425, 1, 0),
    "open_by_handle_at": (304, -100, 0, 0),
    "process_vm_writev": (311, 1, 0, 0, 0, 0, 0),
    "memfd_create": (319, b"x", 0),
    "ptrace": (101, 0, 0, 0, 0),
    "kexec_load": (246, 0, 0, 0, 0),
    "init_module": (175, 0, 0, b""),
    "reboot": (169, 0xFEE1DEAD, 672274793, 0, 0),
    "swapon": (167, b"/tmp/x", 0),
    "acct": (163, b"/tmp/x"),
    "syslog": (103, 3, b" " * 8, 8),
    "settimeofday": (164, b"\0" * 16, 0),
    "mknod": (133, b"/tmp/device", 0o60600, 0),
    "fsopen": (430, b"tmpfs", 0),
}
SOCKETS = {
    "raw": (socket.AF_INET, socket.SOCK_RAW, 1),
    "packet": (17, socket.SOCK_RAW, 0),
    "vsock": (40, socket.SOCK_STREAM, 0),
    "alg": (38, socket.SOCK_SEQPACKET, 0),
    "bluetooth": (31, socket.SOCK_RAW, 0),
}

opened = []
for path, flags in [*((path, os.O_WRONLY) for path in WRITABLE), *((path, os.O_RDONLY) for path in READABLE)]:
    try:
        os.close(os.open(path, flags))
        opened.append(path)
    except OSError:
        pass
if os.uname().machine == "x86_64":
    libc = ctypes.CDLL(None, use_errno=True)
    opened += [name for name, call in CALLS.items() if libc.syscall(*call) >= 0]
for name, arguments in SOCKETS.items():
    try:
        socket.socket(*arguments).close()
        opened.append(name)
    except OSError:
        pass
print(opened)
