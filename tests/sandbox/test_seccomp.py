import errno
import json
import struct

import pytest

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox.seccomp import compile_filter, engine_profile
from gagar_cli.sandbox.syscalls import ALLOWED, CHECKED, DENIED, LAST_REVIEWED, UNSUPPORTED

ALLOW, KILL = 0x7FFF0000, 0x80000000
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386 = 0x40000003


def run_filter(program: bytes, number: int, *arguments: int, architecture: int) -> int:
    """A slow, obvious machine for the five operations that the filter uses."""
    facts = struct.pack("<iIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    steps = list(struct.iter_unpack("<HBBI", program))
    place, word = 0, 0
    while True:
        operation, if_true, if_false, value = steps[place]
        place += 1
        if operation == 0x06:
            return value
        if operation == 0x20:
            (word,) = struct.unpack_from("<I", facts, value)
            continue
        holds = {0x15: word == value, 0x35: word >= value, 0x45: bool(word & value)}[operation]
        place += if_true if holds else if_false


def refusal(number: int) -> int:
    return 0x00050000 | number


@pytest.fixture(params=ARCHITECTURES)
def ask(request):
    """Asks the filter of a machine about a call; `columns` picks that machine's number."""
    machine = request.param
    program = compile_filter(machine)

    def ask_filter(number: int, *arguments: int, architecture: int = ARCHITECTURES[machine]) -> int:
        return run_filter(program, number, *arguments, architecture=architecture)

    ask_filter.column = list(ARCHITECTURES).index(machine)
    return ask_filter


def test_every_denied_call_is_refused(ask):
    numbers = [row[ask.column] for row in DENIED.values() if row[ask.column] is not None]
    assert {ask(number) for number in numbers} == {refusal(errno.EPERM)}


def test_calls_that_c_libraries_do_without_are_unsupported(ask):
    newer = [LAST_REVIEWED + 1, LAST_REVIEWED + 100]
    assert {ask(number) for number in [*UNSUPPORTED.values(), *newer]} == {refusal(errno.ENOSYS)}


def test_all_other_calls_are_allowed(ask):
    special = {row[ask.column] for row in [*DENIED.values(), *CHECKED.values()]} | set(UNSUPPORTED.values())
    assert {ask(number) for number in set(range(LAST_REVIEWED + 1)) - special} == {ALLOW}


def test_another_abi_is_killed(ask):
    assert ask(0, architecture=I386) == KILL


def test_the_x32_abi_is_killed():
    program = compile_filter("x86_64")
    assert run_filter(program, 0x40000000 | 1, architecture=ARCHITECTURES["x86_64"]) == KILL


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("socket", (1, 1, 0), ALLOW),
        ("socket", (10, 1, 0), ALLOW),
        ("socket", (16, 3, 0), ALLOW),
        ("socket", (40, 1, 0), refusal(errno.EAFNOSUPPORT)),
        ("socket", (17, 3, 0), refusal(errno.EAFNOSUPPORT)),
        ("socket", ((1 << 32) | 40, 1, 0), refusal(errno.EAFNOSUPPORT)),
        ("socketpair", (1, 1, 0), ALLOW),
        ("socketpair", (30, 1, 0), refusal(errno.EAFNOSUPPORT)),
        ("ioctl", (0, 0x5401), ALLOW),
        ("ioctl", (0, 0x5412), refusal(errno.EPERM)),
        ("ioctl", (0, 0xFFFFFFFF_00005412), refusal(errno.EPERM)),
        ("ioctl", (0, 0x541C), refusal(errno.EPERM)),
        ("clone", (0x01200011,), ALLOW),
        ("clone", (0x003D0F00,), ALLOW),
        ("clone", (0x10000011,), refusal(errno.EPERM)),
        ("clone", (0x00020011,), refusal(errno.EPERM)),
    ],
)
def test_some_calls_are_told_by_their_arguments(ask, name, arguments, expected):
    assert ask(CHECKED[name][ask.column], *arguments) == expected


def test_the_program_is_within_what_the_kernel_takes(ask):
    assert 0 < len(compile_filter("x86_64")) // 8 <= 4096
    assert len(compile_filter("aarch64")) % 8 == 0


def test_an_unknown_machine_has_no_filter():
    with pytest.raises(SandboxError, match="riscv64"):
        compile_filter("riscv64")


def test_no_call_is_in_two_lists():
    lists = [set(DENIED), set(UNSUPPORTED), set(CHECKED), set(ALLOWED)]
    assert sum(map(len, lists)) == len(set().union(*lists))


def test_the_engine_profile_allows_by_name_only():
    profile = json.loads(engine_profile())
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    allowed = [
        rule for rule in profile["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" and not rule["args"]
    ]
    assert {name for rule in allowed for name in rule["names"]} == ALLOWED
    families = [rule["args"][0]["value"] for rule in profile["syscalls"] if "socket" in rule["names"]]
    assert families == [1, 2, 10, 16]
