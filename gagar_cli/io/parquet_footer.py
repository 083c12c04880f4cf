"""The footer of a Parquet file as parts that can be put together anew, with columns added, renamed or left out.

Column chunks that stay are carried over as the bytes they are: a footer of many row groups is walked once and never
taken apart. A footer is only accepted if its parts, put together unchanged, are the bytes it was read from. Refused,
for another way of copying: encryption, chunks in other files, unknown fields, sorted files that lose a column.
"""

from collections.abc import Mapping, Sequence
from typing import BinaryIO, NamedTuple

from gagar_cli.io import parquet_thrift as thrift
from gagar_cli.io.parquet_schema import FooterRefusedError, Schema
from gagar_cli.io.parquet_skip import Span, list_spans
from gagar_cli.io.parquet_thrift import Field, ThriftError, ThriftList

MAGIC = b"PAR1"
_MAX_FOOTER_BYTES = 1024**3
_VERSION, _SCHEMA, _N_ROWS, _ROW_GROUPS, _METADATA, _CREATED_BY, _ORDERS = range(1, 8)
_OF_CHUNK_OFFSET = b"\x26"
"""The header of `file_offset` where no path of another file comes before it."""
_TYPE_DEFINED_ORDER = [Field(1, thrift.STRUCT, [])]


class RowGroup(NamedTuple):
    """One row group: where its chunks lie in the footer, and its other fields."""

    chunks: list[Span]
    others: list[Field]

    @property
    def n_rows(self) -> int:
        """The number of its rows."""
        return thrift.get(self.others, 3, int) or 0


class Added(NamedTuple):
    """What a row group gets: encoded entries of its new chunks, and their sizes."""

    entries: list[bytes]
    n_plain_bytes: int
    n_bytes: int


class Footer:
    """A footer taken apart.

    Raises:
        FooterRefusedError: it is damaged, or has what is not handled here.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._fields: list[Field] = []
        self.row_groups: list[RowGroup] = []
        try:
            self._walk()
            is_same = self._row_groups_unchanged() and self.encode(None) == text
        except (ThriftError, RecursionError) as error:
            raise FooterRefusedError(str(error)) from error
        if not is_same:
            raise FooterRefusedError("the footer is not in canonical form")
        self._schema = Schema(thrift.get(self._fields, _SCHEMA, ThriftList))
        self.columns = self._schema.leaves
        """The leaves of each top-level column, counted through the file."""
        n_leaves = sum(len(leaves) for leaves in self.columns.values())
        if any(len(group.chunks) != n_leaves for group in self.row_groups):
            raise FooterRefusedError("a row group lacks a column")
        sizes = [group.n_rows for group in self.row_groups]
        if min(sizes, default=0) < 0 or self.n_rows != sum(sizes):
            raise FooterRefusedError("the row groups do not have the rows of the file")
        orders = thrift.get(self._fields, _ORDERS, ThriftList)
        if orders is not None and len(orders.values) != n_leaves:
            raise FooterRefusedError("the column orders do not fit the columns")

    @property
    def n_rows(self) -> int:
        """Rows of the file."""
        return thrift.get(self._fields, _N_ROWS, int) or 0

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """The key-value metadata; keys without a value are left out.

        Raises:
            FooterRefusedError: a key is there twice.
        """
        pairs = {}
        for entry in self._metadata_entries():
            key, value = thrift.get(entry, 1, bytes), thrift.get(entry, 2, bytes)
            if key in pairs:
                raise FooterRefusedError("the metadata has a key twice, of which readers take different ones")
            if key is not None and value is not None:
                pairs[key] = value
        return pairs

    def extended(
        self,
        elements: Sequence[list[Field]],
        added: Sequence[Added],
        *,
        names: Mapping[str, str | None],
        metadata: Mapping[bytes, bytes],
    ) -> bytes:
        """The bytes of the footer with columns at its end.

        `elements` are their entries in the schema, `added` has one entry a row group; `names` gives columns of the
        file new names, None leaves them out; `metadata` replaces values that are there.

        Raises:
            FooterRefusedError: a column is to be left out of a file that is sorted, or is damaged.
        """
        dropped = {leaf for name, new in names.items() if new is None for leaf in self.columns[name]}
        if dropped and any(thrift.get(group.others, 4, ThriftList) for group in self.row_groups):
            raise FooterRefusedError("the file is sorted")
        renamed = {
            leaf: new.encode()
            for name, new in names.items()
            if new is not None
            for leaf in self.columns[name]
        }
        try:
            groups = [
                self._extended_group(group, new, dropped, renamed)
                for group, new in zip(self.row_groups, added, strict=True)
            ]
        except ThriftError as error:
            raise FooterRefusedError(str(error)) from error
        made = thrift.put(self._fields, _SCHEMA, self._schema.extended(elements, names))
        orders = thrift.get(made, _ORDERS, ThriftList)
        if orders is not None:
            kept = [order for leaf, order in enumerate(orders.values) if leaf not in dropped]
            made = thrift.put(
                made, _ORDERS, ThriftList(orders.kind, [*kept, *[list(_TYPE_DEFINED_ORDER)] * len(elements)])
            )
        entries = [_with_value(entry, metadata) for entry in self._metadata_entries()]
        if entries:
            made = thrift.put(made, _METADATA, ThriftList(thrift.STRUCT, list(entries)))
        return self.encode(groups, made)

    def encode(self, groups: Sequence[bytes] | None, fields: list[Field] | None = None) -> bytes:
        """The bytes of the footer with these row groups; None for those that it has."""
        pieces = []
        last_id = 0
        for field in self._fields if fields is None else fields:
            if field.id != _ROW_GROUPS:
                # One field as a struct of its own, without the end, shifted to follow the last one.
                text = thrift.encode_struct([field._replace(id=field.id - last_id)])[:-1]
            else:
                of_field = thrift.field_header(field.id, last_id, thrift.LIST)
                start, stop = self._groups_span
                if groups is None:
                    text = of_field + self._text[start:stop]
                else:
                    text = of_field + thrift.list_header(thrift.STRUCT, len(groups)) + b"".join(groups)
            pieces.append(text)
            last_id = field.id
        return b"".join([*pieces, b"\0"])

    def _walk(self) -> None:
        text = self._text
        field_id, kind, position = thrift.read_field_header(text, 0, 0)
        while kind:
            if not _VERSION <= field_id <= _ORDERS:
                raise FooterRefusedError(f"the footer has a field {field_id}")
            if field_id == _ROW_GROUPS:
                start = position
                position = self._walk_row_groups(position)
                self._groups_span = (start, position)
                self._fields.append(Field(field_id, kind, b""))
            else:
                value, position = thrift.decode_value(text, position, kind)
                self._fields.append(Field(field_id, kind, value))
            field_id, kind, position = thrift.read_field_header(text, position, field_id)
        needed = {_SCHEMA, _N_ROWS, _ROW_GROUPS}
        if position != len(text) or not needed <= {field.id for field in self._fields}:
            raise FooterRefusedError("the footer is incomplete")

    def _walk_row_groups(self, position: int) -> int:
        text = self._text
        kind, n_groups, position = thrift.read_list_header(text, position)
        for _ in range(n_groups):
            field_id, kind, position = thrift.read_field_header(text, position, 0)
            if (field_id, kind) != (1, thrift.LIST):
                raise FooterRefusedError("a row group does not start with its columns")
            chunks, position = list_spans(text, position)
            others, position = thrift.decode_struct(text, position, last_id=1)
            if any(text[chunk.start : chunk.start + 1] != _OF_CHUNK_OFFSET for chunk in chunks):
                raise FooterRefusedError("a column lies in another file")
            self.row_groups.append(RowGroup(chunks, others))
        return position

    def _row_groups_unchanged(self) -> bool:
        """Whether the fields of the row groups beside their chunks come back as they were."""
        start, stop = self._groups_span
        text = self._text
        groups = [
            self._encode_group([text[chunk.start : chunk.stop] for chunk in group.chunks], group.others)
            for group in self.row_groups
        ]
        return thrift.list_header(thrift.STRUCT, len(groups)) + b"".join(groups) == text[start:stop]

    def _encode_group(self, chunks: Sequence[bytes], others: list[Field]) -> bytes:
        head = thrift.field_header(1, 0, thrift.LIST) + thrift.list_header(thrift.STRUCT, len(chunks))
        return head + b"".join(chunks) + thrift.encode_struct(others, last_id=1)

    def _extended_group(
        self, group: RowGroup, new: Added, dropped: set[int], renamed: Mapping[int, bytes]
    ) -> bytes:
        n_plain_bytes, n_bytes = new.n_plain_bytes, new.n_bytes
        chunks = []
        text = self._text
        if not dropped and not renamed and group.chunks:
            chunks = [text[group.chunks[0].start : group.chunks[-1].stop]]
        else:
            for leaf, span in enumerate(group.chunks):
                if leaf in dropped:
                    chunk, _ = thrift.decode_struct(text, span.start)
                    about = thrift.get(chunk, 3, list) or []
                    n_plain_bytes -= thrift.get(about, 6, int) or 0
                    n_bytes -= thrift.get(about, 7, int) or 0
                elif leaf in renamed:
                    chunks.append(_renamed(text[span.start : span.stop], renamed[leaf]))
                else:
                    chunks.append(text[span.start : span.stop])
        others = group.others
        for field_id, more in ((2, n_plain_bytes), (6, n_bytes)):
            size = thrift.get(others, field_id, int)
            if size is not None:
                others = thrift.put(others, field_id, size + more)
        n_chunks = len(group.chunks) - len(dropped) + len(new.entries)
        head = thrift.field_header(1, 0, thrift.LIST) + thrift.list_header(thrift.STRUCT, n_chunks)
        return head + b"".join([*chunks, *new.entries]) + thrift.encode_struct(others, last_id=1)

    def _metadata_entries(self) -> list[list[Field]]:
        entries = thrift.get(self._fields, _METADATA, ThriftList)
        return [entry for entry in entries.values if isinstance(entry, list)] if entries else []


def read_footer(stream: BinaryIO) -> tuple[bytes, int]:
    """The bytes of a file's footer, and where it starts.

    Raises:
        FooterRefusedError: the file is no Parquet, or its footer is encrypted.
    """
    size = stream.seek(0, 2)
    stream.seek(max(size - 8, 0))
    tail = stream.read(8)
    stream.seek(0)
    head = stream.read(4)
    length = int.from_bytes(tail[:4], "little")
    start = size - 8 - length
    if head != MAGIC or tail[4:] != MAGIC or start < len(MAGIC) or length > _MAX_FOOTER_BYTES:
        raise FooterRefusedError("the file has no plain footer")
    stream.seek(start)
    text = stream.read(length)
    if len(text) != length:
        raise FooterRefusedError("the file changed while it was read")
    return text, start


def _renamed(chunk: bytes, name: bytes) -> bytes:
    """A chunk's entry with another name of its top-level column.

    Raises:
        FooterRefusedError: the entry is not as expected.
    """
    fields, stop = thrift.decode_struct(chunk)
    about = thrift.get(fields, 3, list)
    path = thrift.get(about, 3, ThriftList) if about is not None else None
    if about is None or path is None or not path.values or thrift.encode_struct(fields) != chunk[:stop]:
        raise FooterRefusedError("a column has no path, or is not in canonical form")
    new = ThriftList(path.kind, [name, *path.values[1:]])
    return thrift.encode_struct(thrift.put(fields, 3, thrift.put(about, 3, new)))


def _with_value(entry: list[Field], metadata: Mapping[bytes, bytes]) -> list[Field]:
    key = thrift.get(entry, 1, bytes)
    return entry if key is None or key not in metadata else thrift.put(entry, 2, metadata[key])
