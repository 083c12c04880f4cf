"""Lines of a native file as they stand in it, for what copies a dump: its records are kept converted."""

from collections.abc import Iterator, Sequence

from gagar_cli.errors import InputError
from gagar_cli.io.formats.files import NativeFile
from gagar_cli.io.jsonl import read_lines
from gagar_cli.io.native_found import Found
from gagar_cli.io.remote import is_remote
from gagar_cli.io.sources import Place
from gagar_cli.io.streams import FileIdentity, path_identity, show_path


class NativeLines:
    """The lines of one file, which is to be the one that was scanned."""

    def __init__(self, found: Found) -> None:
        self._found = found
        is_named = found.path != "-" and not is_remote(found.path)
        self.are_records = is_named and found.format.is_row and found.container == "lines"
        """Whether each record is one line, of a file that can be read again."""
        self._scanned: FileIdentity | None = None

    def note(self) -> None:
        """Note which file is scanned."""
        if self.are_records:
            self._scanned = path_identity(self._found.path)

    def read(self, places: Sequence[Place]) -> Iterator[bytes]:
        """The lines at ascending places; needs `are_records`.

        Raises:
            InputError: the file is another one than was scanned.
        """
        file = NativeFile(self._found.path, self._found.container)
        try:
            with file.reading() as stream:
                lines = read_lines(stream)
                for place in places:
                    line = next((line for line in lines if line.number == place.line), None)
                    if line is None or line.is_too_long:
                        raise self._changed(place.line)
                    yield line.text
            if self._scanned is None or path_identity(self._found.path) != self._scanned:
                raise self._changed(places[-1].line)
        finally:
            file.close()

    def _changed(self, line: int) -> InputError:
        return InputError(f"{show_path(self._found.path)}:{line}: the file changed while it was read")
