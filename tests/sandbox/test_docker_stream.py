import socket
import struct
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.sandbox.docker_stream import End, ExecStream
from gagar_cli.sandbox.output import CappedOutput


def frame(stream: int, content: bytes) -> bytes:
    return struct.pack(">BxxxL", stream, len(content)) + content


@pytest.fixture
def pair():
    ours, engine = socket.socketpair()
    with ours, engine:
        yield ours, engine


def pump(stream, connection, *, seconds=5.0, is_cancelled=lambda: False, has_exited=lambda: False):
    deadline = time.monotonic() + seconds
    return stream.pump(connection, deadline=deadline, is_cancelled=is_cancelled, has_exited=has_exited)


@given(
    frames=st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=30)), max_size=8),
    size=st.integers(1, 40),
)
def test_streams_are_told_apart_however_the_wire_cuts_them(frames, size):
    stream = ExecStream(1000)
    wire = b"".join(frame(*one) for one in frames)
    for start in range(0, len(wire), size):
        stream.feed(wire[start : start + size])
    assert stream.stdout.content == b"".join(content for number, content in frames if number == 1)
    assert stream.stderr.content == b"".join(content for number, content in frames if number == 2)


def test_the_end_of_the_connection_ends_it(pair):
    stream = ExecStream(100)
    pair[1].sendall(frame(1, b"out") + frame(2, b"err"))
    pair[1].close()
    assert pump(stream, pair[0]) is End.CLOSED
    assert (stream.stdout.text, stream.stderr.text) == ("out", "err")


def test_a_silent_command_is_ended_at_the_deadline(pair):
    started = time.monotonic()
    assert pump(ExecStream(100), pair[0], seconds=0.3) is End.TIMED_OUT
    assert 0.3 <= time.monotonic() - started < 0.6


def test_a_command_that_never_pauses_is_ended_at_the_deadline(pair, monkeypatch):
    monkeypatch.setattr(CappedOutput, "max_read_bytes", 1 << 40)

    def flood():
        try:
            while True:
                pair[1].sendall(frame(1, b"y\n" * 1000))
        except OSError:
            pass

    writer = threading.Thread(target=flood)
    writer.start()
    assert pump(ExecStream(100), pair[0], seconds=0.3) is End.TIMED_OUT
    pair[0].close()
    writer.join()


def test_a_flood_is_ended(pair, monkeypatch):
    monkeypatch.setattr(CappedOutput, "max_read_bytes", 5000)
    stream = ExecStream(100)
    pair[1].sendall(frame(1, b"x" * 6000))
    assert pump(stream, pair[0]) is End.FLOODED
    assert stream.stdout.is_truncated


def test_output_that_children_hold_open_does_not_keep_it(pair):
    stream = ExecStream(100)
    pair[1].sendall(frame(1, b"done"))
    assert pump(stream, pair[0], has_exited=lambda: True) is End.CLOSED
    assert stream.stdout.text == "done"


def test_output_that_comes_late_through_the_engine_is_read(pair):
    stream = ExecStream(100)
    threading.Timer(0.5, pair[1].sendall, [frame(1, b"late")]).start()
    assert pump(stream, pair[0], has_exited=lambda: True) is End.CLOSED
    assert stream.stdout.text == "late"


def test_children_that_write_on_do_not_keep_it(pair):
    stream, stopped = ExecStream(100), threading.Event()

    def write() -> None:
        while not stopped.wait(0.3):
            pair[1].sendall(frame(1, b"x"))

    writer = threading.Thread(target=write)
    writer.start()
    assert pump(stream, pair[0], has_exited=lambda: True) is End.CLOSED
    stopped.set()
    writer.join()


def test_a_cancellation_is_seen(pair):
    cancelled = threading.Event()
    threading.Timer(0.1, cancelled.set).start()
    assert pump(ExecStream(100), pair[0], is_cancelled=cancelled.is_set) is End.CANCELLED
