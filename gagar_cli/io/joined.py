"""A source of a dump whose records bring what other files know about them."""

from collections.abc import Iterator, Sequence

from gagar_cli.errors import InputError
from gagar_cli.io.joins import Joins
from gagar_cli.io.jsonl import dump_line, parse_object
from gagar_cli.io.records import Fields
from gagar_cli.io.sources import Place, Scanned, ScannedTable, Source


class JoinedSource:
    """A source whose records bring what `--join` knows about them."""

    def __init__(self, inner: Source, joins: Joins, fields: Fields) -> None:
        self._inner = inner
        self._run: str | None = getattr(inner, "run_directory", None)
        self.form: tuple[str, str] | None = getattr(inner, "form", None)
        self._joins = joins
        self._fields = fields
        self.name = inner.name
        self.notes = inner.notes

    @property
    def group_id_source(self) -> str | None:
        """How the source groups its records, where it does that itself."""
        return getattr(self._inner, "group_id_source", None)

    def scan(self, fields: Fields) -> Iterator[Scanned | ScannedTable]:
        """Every record of the source, joined."""
        for piece in self._inner.scan(fields):
            for scanned in piece.records() if isinstance(piece, ScannedTable) else (piece,):
                if isinstance(scanned.record, InputError):
                    yield scanned
                    continue
                where = f"{self.name}:{scanned.place.line}"
                yield Scanned(
                    scanned.place, self._joins.overlay(scanned.record, fields, run=self._run, where=where)
                )

    def read(self, places: Sequence[Place], fields: Fields) -> Iterator[dict[str, object]]:
        """The records at the given places, joined."""
        for record in self._inner.read(places, fields):
            yield self._joins.overlay(record, fields, run=self._run)

    def read_whole(self, places: Sequence[Place]) -> Iterator[dict[str, object]]:
        """The records at ascending places with every field, joined."""
        for record in self._inner.read_whole(places):
            yield self._joins.overlay(record, self._fields, run=self._run)

    def read_texts(self, places: Sequence[Place]) -> Iterator[bytes]:
        """The joined records as lines."""
        for text in self._inner.read_texts(places):
            record = parse_object(text, self.name, may_be_nan=lambda _: True)
            yield dump_line(self._joins.overlay(record, self._fields, run=self._run)).rstrip(b"\n")

    def close(self) -> None:
        """Close the source."""
        self._inner.close()
