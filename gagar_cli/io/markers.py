"""Marks that a writer puts into a growing dump: this group is whole, or the dump is. No records; readers skip them.

{"end_of_group": true, "group_id": "task-7", "step": 3}
{"end_of_dump": true}
"""

from collections.abc import Mapping

END_OF_GROUP = "end_of_group"
END_OF_DUMP = "end_of_dump"
END_FILE = "_SUCCESS"
"""A file of this name in a folder of shards says that no more come."""


def is_marker(record: Mapping[str, object]) -> bool:
    """Whether a line is a mark and no record."""
    return record.get(END_OF_DUMP) is True or record.get(END_OF_GROUP) is True
