"""A source of a dump whose records bring what other files know about them."""

from collections.abc import Iterator, Sequence

from gagar_cli.errors import InputError
from gagar_cli.io.joins import Joins
from gagar_cli.io.jsonl import dump_line, parse_object
from gagar_cli.io.records import Fields, attempts_of, exploded
from gagar_cli.io.sources import Place, Scanned, ScannedTable, Source


class JoinedSource:
    """A source whose records bring what `--join` knows about them."""

    def __init__(self, inner: Source, joins: Joins, fields: Fields, explode: str | None = None) -> None:
        self._inner = inner
        self._run: str | None = getattr(inner, "run_directory", None)
        self.form: tuple[str, str] | None = getattr(inner, "form", None)
        self._joins = joins
        self._fields = fields
        self._explode = explode
        self.name = inner.name
        self.notes = inner.notes
        self.offered: list[str] = getattr(inner, "offered", [])

    @property
    def group_id_source(self) -> str | None:
        """How the source groups its records, where it does that itself."""
        return getattr(self._inner, "group_id_source", None)

    @property
    def is_untold(self) -> bool:
        """Whether nothing said a verdict or a reward of any record so far."""
        return self._joins.is_untold

    def scan(self, fields: Fields) -> Iterator[Scanned | ScannedTable]:
        """Every record of the source, joined."""
        for piece in self._inner.scan(fields):
            for scanned in piece.records() if isinstance(piece, ScannedTable) else (piece,):
                if isinstance(scanned.record, InputError):
                    yield scanned
                    continue
                where = f"{self.name}:{scanned.place.line}"
                yield Scanned(scanned.place, self._joined(scanned.record, fields, where))

    def read(self, places: Sequence[Place], fields: Fields) -> Iterator[dict[str, object]]:
        """The records at the given places, joined."""
        for record in self._inner.read(places, fields):
            yield self._joined(record, fields)

    def read_whole(
        self,
        places: Sequence[Place],
        columns: Sequence[str] | None = None,  # noqa: ARG002 - a join looks at any column
    ) -> Iterator[dict[str, object]]:
        """The records at ascending places with every field, joined."""
        for record in self._inner.read_whole(places):
            yield self._joined(record, self._fields)

    def read_texts(self, places: Sequence[Place]) -> Iterator[bytes]:
        """The joined records as lines."""
        for text in self._inner.read_texts(places):
            record = parse_object(text, self.name, may_be_nan=lambda _: True)
            yield dump_line(self._joined(record, self._fields)).rstrip(b"\n")

    def close(self) -> None:
        """Close the source."""
        self._inner.close()

    def _joined(
        self, record: dict[str, object], fields: Fields, where: str | None = None
    ) -> dict[str, object]:
        """The record joined; of one with a list of attempts, each attempt, laid over the record as a row will be."""
        if self._explode is None:
            return self._joins.overlay(record, fields, run=self._run, where=where)
        try:
            attempts = [
                exploded(record, self._explode, item)
                for item in range(len(attempts_of(record, self._explode)))
            ]
        except InputError:
            return record  # whoever takes it apart says what is wrong, with the place
        joined = [
            self._joins.overlay(
                attempt, fields, run=self._run, where=None if where is None else f"{where}[{item}]"
            )
            for item, attempt in enumerate(attempts)
        ]
        return record | {self._explode: joined}
