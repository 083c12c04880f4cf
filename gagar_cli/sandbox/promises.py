"""What hostile code may try, and what each backend leaves open: read by `gagar doctor` and by the tests of attacks.

An attack that `OPEN` does not name for a backend is held by it. Nothing here is held against a bug of the kernel,
which sandboxes share with their machine, nor against a bug of runc under docker.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Attack(NamedTuple):
    """One thing that a candidate's code is run with in the tests."""

    number: str
    what: str
    """For people, as something that is tried."""


ATTACKS = (
    Attack("1", "read keys and files of the machine"),
    Attack("2", "read the environment of other processes"),
    Attack("3", "write outside the checkout"),
    Attack("4", "connect to the network or to sockets of the machine"),
    Attack("5", "fork without end"),
    Attack("6", "take memory in one process"),
    Attack("7", "take memory in many processes"),
    Attack("7b", "take memory in anonymous files"),
    Attack("7c", "take memory in buffers of sockets"),
    Attack("7d", "take memory in pipes"),
    Attack("8", "fill the disk"),
    Attack("9", "make files without end"),
    Attack("10", "make one file of a terabyte"),
    Attack("11", "write output without end"),
    Attack("12", "live on after the timeout"),
    Attack("13", "kill processes of the machine"),
    Attack("14", "reach the kernel by devices, /proc and system calls"),
    Attack("15", "change what another candidate runs"),
    Attack("15b", "leave a process behind that changes what runs next"),
    Attack("16", "use more processors than allowed"),
    Attack("17", "type into the owner's terminal"),
    Attack("18", "live on after the owner was killed"),
    Attack("19", "read paths of the machine from command lines"),
)

OPEN: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "docker": {},
        "bubblewrap": {
            "6": "the limit is looked at 20 times a second: what is taken between two looks is not held",
            "7": "the limit is looked at 20 times a second: what is taken between two looks is not held",
            "7c": "buffers count against the machine's memory alone, of which a sandbox may take 1 GiB unseen",
            "9": "files are counted 20 times a second: more than allowed exist until the command is ended",
            "16": "only each process's CPU seconds and the wall time are held, not the rate",
        },
    }
)
"""By backend: the numbers of the attacks that it holds in part or not at all, and what is true instead."""


def open_attacks(backend: str) -> list[tuple[Attack, str]]:
    """The attacks that a backend does not hold in full, each with what is true instead, in order.

    >>> [attack.number for attack, _ in open_attacks("docker")]
    []
    """
    reasons = OPEN[backend]
    return [(attack, reasons[attack.number]) for attack in ATTACKS if attack.number in reasons]
