"""The schema of a Parquet file: top-level columns, and the leaves that each of them has."""

from collections.abc import Mapping, Sequence

from gagar_cli.io import parquet_thrift as thrift
from gagar_cli.io.parquet_thrift import Field, ThriftList

_NAME, _N_CHILDREN = 4, 5


class FooterRefusedError(Exception):
    """A file that is better copied another way; says why."""


class Schema:
    """A schema taken apart by top-level column.

    Raises:
        FooterRefusedError: it is damaged, or two columns have one name.
    """

    def __init__(self, schema: ThriftList | None) -> None:
        elements = [each for each in schema.values if isinstance(each, list)] if schema else []
        if not elements or thrift.get(elements[0], _N_CHILDREN, int) is None:
            raise FooterRefusedError("the schema has no root")
        self._root = elements[0]
        self._columns: dict[str, list[list[Field]]] = {}
        self.leaves: dict[str, range] = {}
        """The leaves of each top-level column, counted through the file."""
        position = 1
        n_leaves = 0
        while position < len(elements):
            stop = _end_of_subtree(elements, position)
            name = _text(thrift.get(elements[position], _NAME, bytes))
            if name in self._columns:
                raise FooterRefusedError("two columns have one name")
            self._columns[name] = elements[position:stop]
            n_own = sum(not thrift.get(element, _N_CHILDREN, int) for element in elements[position:stop])
            self.leaves[name] = range(n_leaves, n_leaves + n_own)
            n_leaves += n_own
            position = stop
        if len(self._columns) != thrift.get(self._root, _N_CHILDREN, int):
            raise FooterRefusedError("the schema does not fit its root")

    def extended(self, elements: Sequence[list[Field]], names: Mapping[str, str | None]) -> ThriftList:
        """The schema with elements at its end; `names` gives columns new names, None leaves them out."""
        kept: list[thrift.Value] = []
        for name, subtree in self._columns.items():
            new = names.get(name, name)
            if new is not None:
                kept += [thrift.put(subtree[0], _NAME, new.encode()), *subtree[1:]]
        n_columns = len(self._columns) + len(elements) - sum(new is None for new in names.values())
        return ThriftList(thrift.STRUCT, [thrift.put(self._root, _N_CHILDREN, n_columns), *kept, *elements])


def _end_of_subtree(elements: Sequence[list[Field]], position: int) -> int:
    n_open = 1
    while n_open:
        if position >= len(elements):
            raise FooterRefusedError("the schema ends too early")
        n_open += (thrift.get(elements[position], _N_CHILDREN, int) or 0) - 1
        position += 1
    return position


def _text(name: bytes | None) -> str:
    try:
        return (name or b"").decode()
    except UnicodeDecodeError as error:
        raise FooterRefusedError("a column's name is no text") from error
