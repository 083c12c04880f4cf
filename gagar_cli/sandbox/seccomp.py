"""What a sandboxed command may ask of the kernel, in the two forms that the backends take.

`compile_filter` makes the classic BPF program that bubblewrap loads: a list of denials, compiled here because
libseccomp may be missing. `engine_profile` is the allow-list for docker engines before 25, whose own default still
lets io_uring and AF_VSOCK through (a vsock is not stopped by a network namespace: in a machine it leads to its host).
Both are for x86_64 and aarch64, and refuse programs of any other ABI.
"""

import errno
import json
import struct
from collections.abc import Iterable

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox.syscalls import ALLOWED, CHECKED, DENIED, LAST_REVIEWED, UNSUPPORTED

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column of the tables, and the audit architecture that the kernel reports."""

_NAMESPACE_FLAGS = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
_SOCKET_FAMILIES = (1, 2, 10, 16)
"""UNIX, INET, INET6, and NETLINK: name look-ups of the C library ask it for the interfaces."""
_TIOCSTI = 0x5412
_TIOCLINUX = 0x541C
"""The two type into the terminal that the command was started from."""

# BPF operations, of linux/bpf_common.h.
_LOAD_WORD = 0x20
_JUMP_EQUAL = 0x15
_JUMP_GREATER_EQUAL = 0x35
_JUMP_ANY_BIT = 0x45
_RETURN = 0x06

# Results, of linux/seccomp.h.
_KILL_PROCESS = 0x80000000
_ALLOW = 0x7FFF0000
_FAIL = 0x00050000

# Offsets in struct seccomp_data; arguments are 64 bits, little-endian on both machines.
_NUMBER = 0
_ARCHITECTURE = 4
_FIRST_ARGUMENT = 16
_SECOND_ARGUMENT = 24

_X32_BIT = 0x40000000


def compile_filter(machine: str) -> bytes:
    """The filter for bubblewrap's `--seccomp`, as an array of `struct sock_filter`.

    Raises:
        SandboxError: there is no table for the machine.
    """
    if machine not in _MACHINES:
        raise SandboxError(
            f"no system call filter for {machine}", "use docker, or a machine of x86_64 or aarch64"
        )
    column, architecture = _MACHINES[machine]
    program = [
        _step(_LOAD_WORD, _ARCHITECTURE),
        _step(_JUMP_EQUAL, architecture, 1, 0),
        _step(_RETURN, _KILL_PROCESS),
        _step(_LOAD_WORD, _NUMBER),
    ]
    if machine == "x86_64":
        # The x32 ABI numbers the same calls anew.
        program += _answer(_JUMP_GREATER_EQUAL, _X32_BIT, _KILL_PROCESS)
    program += _answer(_JUMP_GREATER_EQUAL, LAST_REVIEWED + 1, _FAIL | errno.ENOSYS)
    for numbers in DENIED.values():
        if (number := numbers[column]) is not None:
            program += _answer(_JUMP_EQUAL, number, _FAIL | errno.EPERM)
    for number in UNSUPPORTED.values():
        program += _answer(_JUMP_EQUAL, number, _FAIL | errno.ENOSYS)
    for name, steps in _argument_checks().items():
        program += [_step(_JUMP_EQUAL, CHECKED[name][column], 0, len(steps)), *steps]
    return b"".join([*program, _step(_RETURN, _ALLOW)])


def _argument_checks() -> dict[str, list[bytes]]:
    """For each checked call the steps that decide about it; every path through them returns."""
    allow = _step(_RETURN, _ALLOW)
    sockets = [_step(_LOAD_WORD, _FIRST_ARGUMENT)]
    for family in _SOCKET_FAMILIES:
        sockets += _answer(_JUMP_EQUAL, family, _ALLOW)
    sockets.append(_step(_RETURN, _FAIL | errno.EAFNOSUPPORT))
    terminal = [_step(_LOAD_WORD, _SECOND_ARGUMENT)]
    for request in (_TIOCSTI, _TIOCLINUX):
        terminal += _answer(_JUMP_EQUAL, request, _FAIL | errno.EPERM)
    clone = [
        _step(_LOAD_WORD, _FIRST_ARGUMENT),
        *_answer(_JUMP_ANY_BIT, _NAMESPACE_FLAGS, _FAIL | errno.EPERM),
    ]
    return {"clone": [*clone, allow], "ioctl": [*terminal, allow], "socket": sockets, "socketpair": sockets}


def _answer(jump: int, value: int, result: int) -> list[bytes]:
    """Return `result` where the comparison holds, else go on."""
    return [_step(jump, value, 0, 1), _step(_RETURN, result)]


def _step(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", operation, if_true, if_false, value)


def engine_profile() -> str:
    """The profile for docker's `--security-opt seccomp=`: an allow-list, as JSON."""
    rules: list[dict[str, object]] = [
        _rule(sorted(ALLOWED)),
        _rule(["clone"], _condition(0, "SCMP_CMP_MASKED_EQ", _NAMESPACE_FLAGS)),
        # One condition only, since the engine reads two on the same argument as alternatives. No terminal is ever
        # attached, so that this one is a second fence and TIOCLINUX, which wants a console, can be left out.
        _rule(["ioctl"], _condition(1, "SCMP_CMP_NE", _TIOCSTI)),
        {"names": sorted(UNSUPPORTED), "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS},
    ]
    rules += [
        _rule(["socket", "socketpair"], _condition(0, "SCMP_CMP_EQ", family)) for family in _SOCKET_FAMILIES
    ]
    profile = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "archMap": [
            {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
            {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []},
        ],
        "syscalls": rules,
    }
    return json.dumps(profile, separators=(",", ":"))


def _rule(names: Iterable[str], *conditions: dict[str, object]) -> dict[str, object]:
    return {"names": list(names), "action": "SCMP_ACT_ALLOW", "args": list(conditions)}


def _condition(index: int, operator: str, value: int) -> dict[str, object]:
    return {"index": index, "op": operator, "value": value, "valueTwo": 0}
