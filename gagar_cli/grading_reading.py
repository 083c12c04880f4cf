"""How the dump was read when rankings were made, against how it is read to use them.

The record stands in `RANKINGS.run.json`. Another pass threshold makes other candidates: it is refused where a reward lies
between the two. What else differs may be right (a converted dump needs no joins), and is told when the two do not fit.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump, ReadOptions
from gagar_cli.io.ledger import read_settings
from gagar_cli.io.streams import show_path

_FLAGS = {
    "fields": "--field",
    "group_by": "--group-by",
    "explode": "--explode",
    "format": "--format",
    "joins": "--join",
}


def reading_record(options: ReadOptions) -> dict[str, object]:
    """What of the options decides which attempts there are, which group they are in and who passed."""
    return {
        "pass_threshold": options.pass_threshold,
        "fields": dict(options.fields),
        "group_by": options.group_by,
        "explode": options.explode,
        "format": options.format,
        "joins": list(options.joins),
    }


@contextmanager
def compared_reading(dump: Dump, rankings: str | None, options: ReadOptions) -> Iterator[None]:
    """Lay rankings over a dump in it: another threshold is refused, and what does not fit names what was read otherwise.

    Raises:
        InputError: an attempt passes under one of the two thresholds and fails under the other.
    """
    earlier = _earlier_reading(rankings)
    if earlier is None or rankings is None:
        yield
        return
    _refuse_other_threshold(dump, rankings, options, earlier.get("pass_threshold"))
    try:
        yield
    except InputError as error:
        differing = [
            _told(flag, earlier.get(name))
            for name, flag in _FLAGS.items()
            if earlier.get(name) != reading_record(options)[name]
        ]
        if not differing:
            raise
        why = f"{show_path(rankings)} was made {', '.join(differing)}"
        raise InputError(error.message, f"{error.hint} ({why})" if error.hint else why) from error


def _earlier_reading(rankings: str | None) -> Mapping[str, object] | None:
    """What the run beside a rankings file says; a table has it beside its ledger."""
    if rankings is None or rankings == "-":
        return None
    is_table = Path(rankings).suffix.lower() in (".parquet", ".pq")
    settings = read_settings(f"{rankings}.ledger.jsonl" if is_table else rankings)
    reading = None if settings is None else settings.get("read")
    return reading if isinstance(reading, Mapping) else None


def _refuse_other_threshold(dump: Dump, rankings: str, options: ReadOptions, earlier: object) -> None:
    now = options.pass_threshold
    reward = dump.column("reward")
    if (
        not isinstance(earlier, int | float)
        or earlier == now
        or reward is None
        or not dump.report.passes_by_reward
    ):
        return
    rewards = reward.fill_null(float("nan")).to_numpy()
    rows = np.flatnonzero((rewards >= min(earlier, now)) & (rewards < max(earlier, now)))
    if not len(rows):
        return
    verdict, other = ("passes", "failed") if now < earlier else ("fails", "passed")
    more = f" (and {len(rows) - 1:,} more like it)" if len(rows) > 1 else ""
    raise InputError(
        f"{dump.where(int(rows[0]))}: {verdict} with reward {rewards[rows[0]]:g} at --pass-threshold {now:g}, and {other} "
        f"at the {earlier:g} that {show_path(rankings)} was made with{more}",
        f"`--pass-threshold {earlier:g}` reads the dump as `gagar grade` did",
    )


def _told(flag: str, value: object) -> str:
    """What an earlier run was given, as on its command line."""
    if isinstance(value, Mapping):
        values = [f"{name}={path}" for name, path in value.items()]
    else:
        values = [str(each) for each in (value if isinstance(value, list) else [value]) if each is not None]
    if not values:
        return f"without `{flag}`"
    shown = " ".join(f"{flag} {shorten(escape_untrusted(each, keep_newlines=False), 80)}" for each in values)
    return f"with `{shown}`"
