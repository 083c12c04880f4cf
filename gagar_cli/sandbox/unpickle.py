"""Turns a pickle into JSON lines without running anything that it holds. A program of its own, run in a sandbox.

`main(FILE)` reads a `.pt` archive of torch or a plain pickle. Names that a pickle refers to are looked
up in one table: plain containers, and stand-ins that keep what tensors, arrays and two trainers' classes are made of.
Any other name ends the program. It limits its own memory and time first; only the standard library
and the module beside it are imported.
The exit code is 0, or 3 with the reason as the last line on stderr.
"""

import io
import json
import math
import pickle
import resource
import sys
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, Any

from gagar_cli.sandbox.unpickle_numbers import (
    NAMES,
    Array,
    Kind,
    RefusedError,
    Storage,
    dtype,
    from_buffer,
    rebuilt_tensor,
    scalar,
)

MAX_MEMORY_BYTES = 4 * 1024**3
MAX_SECONDS = 900
MAX_DEPTH = 60
MAX_EXPANSION = 100
MIN_EXPANDED = 1_000_000
STEP = "dump_rollout_id"
STORAGES = {
    "FloatStorage": "f4", "DoubleStorage": "f8", "HalfStorage": "f2", "BFloat16Storage": "bf", "LongStorage": "i8",
    "IntStorage": "i4", "ShortStorage": "i2", "CharStorage": "i1", "ByteStorage": "u1", "BoolStorage": "b1",
    "UntypedStorage": "u1",
}  # fmt: skip


def encoded(text: Any, encoding: Any = "latin1") -> bytes:
    """`_codecs.encode` as old protocols use it for bytes."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise RefusedError("_codecs.encode of something else than bytes")
    return text.encode("latin1")


def no_bytes(*arguments: Any) -> bytes:
    """Empty bytes as old protocols have them."""
    if arguments:
        raise RefusedError("bytes made by a call")
    return b""


def default_dict(*_: Any) -> dict[Any, Any]:
    """A dict: its factory is not called."""
    return {}


def nested(data: Any) -> Any:
    """A storage that was saved by torch within a pickle."""
    value = load(io.BytesIO(bytes(data)), depth=1)
    if not isinstance(value, Storage | list):
        raise RefusedError("a storage that is none")
    return value


def batch(_cls: Any, state: Any) -> Any:
    """SkyRL's batch of tensors, by their names: it is refused with them."""
    tensors = state.get("batch_dict") if isinstance(state, dict) else None
    return {"skyrl_batch": sorted(map(str, tensors or ()))}


class Opaque:
    """A name that may be referred to and not called."""


class LeftOut:
    """An object that holds nothing of an attempt, such as slime's reference to a file of tensors: null in the lines."""

    def __setstate__(self, _state: Any) -> None:
        """Forget what it is made of."""


def _tables() -> dict[tuple[str, str], Any]:
    numpy_parts = {"_reconstruct": Array, "scalar": scalar}
    table: dict[tuple[str, str], Any] = {
        ("collections", "OrderedDict"): dict,
        ("collections", "defaultdict"): default_dict,
    }
    table[("_codecs", "encode")] = encoded
    for name, made in (
        ("set", set),
        ("frozenset", frozenset),
        ("list", list),
        ("dict", dict),
        ("tuple", tuple),
    ):
        for module in ("builtins", "__builtin__"):
            table[(module, name)] = made
    table[("__builtin__", "bytes")] = no_bytes
    for core in ("numpy.core", "numpy._core"):
        table.update({(f"{core}.multiarray", name): made for name, made in numpy_parts.items()})
        table[(f"{core}.numeric", "_frombuffer")] = from_buffer
    table[("numpy", "ndarray")] = Opaque
    table[("numpy", "dtype")] = dtype
    for name in NAMES:
        table[("torch", name)] = Opaque
    for name, code in STORAGES.items():
        table[("torch", name)] = Kind(code)
        table[("torch.storage", name)] = Kind(code)
    table[("torch._utils", "_rebuild_tensor_v2")] = rebuilt_tensor
    table[("torch._utils", "_rebuild_tensor")] = rebuilt_tensor
    table[("torch._utils", "_rebuild_parameter")] = lambda data, *_: data
    table[("torch.storage", "_load_from_bytes")] = nested
    table[("slime.utils.tensor_store", "DiskTensorRef")] = LeftOut
    for module in ("skyrl.backends.skyrl_train.training_batch", "skyrl_train.training_batch"):
        table[(module, "_rebuild_tensor_batch")] = batch
        for name in ("TensorBatch", "TrainingInputBatch", "TrainingOutputBatch"):
            table[(module, name)] = Opaque
    return table


TABLE = _tables()


class Reader(pickle.Unpickler):
    """An unpickler for which the table is all there is."""

    def __init__(self, stream: IO[bytes], storages: Callable[[str], bytes]) -> None:
        super().__init__(stream, encoding="latin1")
        self._storages = storages

    def find_class(self, module: str, name: str) -> Any:
        """What the table has."""
        found = TABLE.get((module, name))
        if found is None:
            raise RefusedError(f"it refers to {module}.{name}, which is not read"[:300])
        return found

    def persistent_load(self, pid: Any) -> Storage:
        """A storage of the archive."""
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage" or not isinstance(pid[1], Kind):
            raise RefusedError("a storage in an unknown form")
        return Storage(pid[1], self._storages(str(pid[2])))


def load(stream: IO[bytes], depth: int = 0) -> Any:
    """The value in a stream: an archive of torch, or a pickle."""
    if depth > 2:
        raise RefusedError("pickles in pickles in pickles")
    head = stream.read(4)
    stream.seek(0)
    if head != b"PK\x03\x04":
        return Reader(stream, _no_storages).load()
    with zipfile.ZipFile(stream) as archive:
        names = {name.partition("/")[2]: name for name in archive.namelist()}
        if "data.pkl" not in names:
            raise RefusedError("an archive without data.pkl")

        def storage(key: str) -> bytes:
            name = names.get(f"data/{key}")
            if name is None:
                raise RefusedError("a storage that is not in the archive")
            return archive.read(name)

        # torch stores without compression: an entry that expands is no dump of its.
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
            raise RefusedError("a compressed archive")
        with archive.open(names["data.pkl"]) as pickled:
            return Reader(pickled, storage).load()


def _no_storages(_key: str) -> bytes:
    raise RefusedError("a storage outside of an archive")


class Budget:
    """How much may come out: values and characters together, by what went in."""

    def __init__(self, n_bytes: int) -> None:
        self._left = max(MIN_EXPANDED, MAX_EXPANSION * n_bytes)

    def spend(self, n: int) -> None:
        """Take from what is left."""
        self._left -= n
        if self._left < 0:
            raise RefusedError("it expands beyond what its size explains")


def plain(value: Any, budget: Budget, depth: int = 0) -> Any:
    """A value as JSON has it."""
    if depth > MAX_DEPTH:
        raise RefusedError("values nested too deep")
    budget.spend(1 + len(value) if isinstance(value, str | bytes | bytearray) else 1)
    if value is None or isinstance(value, LeftOut):
        return None
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Array):
        return plain(value.value, budget, depth)
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else str(plain(key, budget, depth + 1)): plain(
                each, budget, depth + 1
            )
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain(each, budget, depth + 1) for each in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(each, budget, depth + 1) for each in value), key=repr)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("latin1")
    raise RefusedError(f"a value of the type {type(value).__name__}")


def records(value: Any) -> Iterator[dict[str, Any]]:
    """The samples of a dump of slime, or the rows of a list of them."""
    step = None
    if isinstance(value, dict) and isinstance(value.get("samples"), list):
        step = value.get("rollout_id")
        value = value["samples"]
    elif isinstance(value, dict) and "skyrl_batch" in value:
        raise RefusedError(
            f"SkyRL's batch of {', '.join(value['skyrl_batch'])}: token ids only, its trainer removes rewards and "
            "groups before it writes: read dumped_evals/*.jsonl"
        )
    if not isinstance(value, list) or not value or not all(isinstance(each, dict) for each in value):
        raise RefusedError("no list of samples in it")
    for each in value:
        yield each if type(step) is not int else {STEP: step, **each}


def main(path: str) -> int:
    """Write the records of a file as lines; the exit code."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS))
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - started for each file: without pathlib it is there sooner
            budget = Budget(stream.seek(0, 2))
            stream.seek(0)
            value = load(stream)
        for record in records(value):
            sys.stdout.write(json.dumps(plain(record, budget)) + "\n")
        sys.stdout.flush()
    except RefusedError as error:
        reason = str(error)
    except MemoryError:
        reason = "it takes more memory than it may"
    except Exception as error:  # noqa: BLE001 - any bytes may come, and each wants its reason
        reason = f"{type(error).__name__}: {error}"[:300]
    else:
        return 0
    sys.stderr.write("\n" + json.dumps(reason) + "\n")
    return 3
