"""Whether the valid attempts of a group are those that its grader saw, as far as the ranking tells.

A ranking by `gagar grade` names all of them, those that failed too. One that is not among them arrived after the group
was graded. What other tools write says nothing of it, and is taken as it is.
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gagar_cli.core.lateness import late_names
from gagar_cli.core.ranking import GroupRanking

_CHUNK_IDS = 65_536
_SCHEMA: dict[str, type[pl.DataType]] = {"line": pl.Int64, "group": pl.UInt32, "trajectory_id": pl.String}


class SeenAttempts:
    """Collects the attempts that graders saw, line by line."""

    def __init__(self) -> None:
        self._lines: list[tuple[int, int, int]] = []
        """Line, group and number of ids."""
        self._ids: list[str] = []
        self._chunks = [pl.DataFrame(schema=_SCHEMA)]

    def add(self, ranking: GroupRanking, line: int, code: int) -> None:
        """Takes in a graded line, of the group with that code."""
        names = ranking.blind_ids
        if not names:
            return
        n_before = len(self._ids)
        self._ids += names.values()
        self._ids += late_names(ranking)
        self._lines.append((line, code, len(self._ids) - n_before))
        if len(self._ids) >= _CHUNK_IDS:
            self._pack()

    def find_late(self, last_line: NDArray[np.int64], primary: pl.DataFrame) -> pl.DataFrame:
        """Valid attempts that the line in force does not have, as `group` and `passed`, where that line tells.

        `last_line`: (n_groups,) the line in force. `primary`: a row an attempt, with `group`, `trajectory_id`, `passed` and
        `invalid`.
        """
        self._pack()
        seen = pl.concat(self._chunks)
        self._chunks = []
        seen = seen.filter(seen["line"].to_numpy() == last_line[seen["group"].to_numpy()])
        is_told = np.zeros(len(last_line), dtype=bool)
        is_told[seen["group"].to_numpy()] = True
        is_here = ~primary["invalid"].to_numpy() & is_told[primary["group"].to_numpy()]
        here = primary.select("group", "trajectory_id", "passed").filter(is_here)
        unseen = here.join(seen, on=["group", "trajectory_id"], how="anti") if seen.height else here
        return unseen.select("group", "passed")

    def _pack(self) -> None:
        if not self._lines:
            return
        lines, codes, counts = np.array(self._lines, dtype=np.int64).T
        columns = {
            "line": np.repeat(lines, counts),
            "group": np.repeat(codes, counts),
            "trajectory_id": self._ids,
        }
        self._chunks.append(pl.DataFrame(columns, schema=_SCHEMA))
        self._lines, self._ids = [], []
