"""What groups the records of a dump, whether it is read at once or while it grows: the first record decides."""

from collections.abc import Mapping

from gagar_cli.core.schema import GroupKey
from gagar_cli.errors import InputError
from gagar_cli.io.mistaken import mistaken
from gagar_cli.io.read_options import ReadOptions
from gagar_cli.io.records import MISSING, Fields, read_group_key


class GroupField:
    """What groups all records: settled by the first one."""

    def __init__(self, options: ReadOptions, fields: Fields) -> None:
        self.name: str | None = None
        """A canonical field or a path; None where every record is its own group."""
        self._options = options
        self._fields = fields
        self.is_settled = False

    def settle(self, record: Mapping[str, object]) -> None:
        """Let a record settle it, or hold a later one against it.

        Raises:
            InputError: it says otherwise, or nothing that groups.
        """
        has_group_id = self._fields.find(record, "group_id") not in (MISSING, None)
        if self.is_settled:
            if has_group_id and self.name != "group_id":
                raise InputError("group_id appears first here, the records before have none")
            return
        if has_group_id:
            self.name = "group_id"
        elif self._options.group_by:
            self.name = self._options.group_by
        elif self._fields.find(record, "instance_id") not in (MISSING, None):
            self.name = "instance_id"
        elif self._options.explode is None:
            raise mistaken(record) or InputError(
                "no group_id and no instance_id", "say what groups the records with `--group-by FIELD`"
            )
        self.is_settled = True

    def key_of(self, mark: Mapping[str, object]) -> GroupKey:
        """The group that a mark names.

        Raises:
            InputError: it names none.
        """
        step = self._fields.find(mark, "step")
        if step is not MISSING and not isinstance(step, int | None):
            raise InputError("step is not an integer or null")
        group = read_group_key(mark, self._fields, self.name or "group_id")
        return GroupKey(step if isinstance(step, int) else None, group)
