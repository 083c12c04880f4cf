"""What a redistribution is asked to do, and what is refused of it before anything is read."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gagar_cli.core.caps import Cap
from gagar_cli.core.estimators import METHODS, Options
from gagar_cli.core.integrity_action import IntegrityAction
from gagar_cli.core.method_options import SettledCap, read_options, settle_cap
from gagar_cli.core.tier_tables import TierTable
from gagar_cli.errors import UsageError
from gagar_cli.io.scan import ReadOptions
from gagar_cli.io.streams import show_path
from gagar_cli.io.tier_tables import read_tier_table
from gagar_cli.io.writers import TABLE_SUFFIXES, refuse_existing, refuse_other_ending
from gagar_cli.own_inputs import refuse_own_inputs
from gagar_cli.redistribution_inputs import Factor

if TYPE_CHECKING:
    from gagar_cli.core.conditions import Condition

DEFAULT_TIERS = "flash"


@dataclass(frozen=True, slots=True)
class RedistributeSettings:
    """One run, as the command line gives it."""

    dumps: tuple[str, ...]
    rankings: str | None
    """A rankings file or `-`; None only for a method that can do without."""
    output: str
    """`.parquet`, `.jsonl` (also `.gz`, `.zst`), or `-`."""
    read: ReadOptions = field(default_factory=ReadOptions)
    method: str = "gagar"
    cap: Cap | None = None
    """None: what the tier table says, else `bounded`."""
    limit: float | None = None
    """What the cap bounds: λ for `paper` and `pass-recentre`, the amplification of a pass for the others. None: what the
    tier table says, else 1.5."""
    like: str | None = None
    """A trainer whose defaults `grpo` takes."""
    assignments: tuple[str, ...] = ()
    """`NAME=VALUE` for options of the method."""
    tiers: str | None = None
    """A built-in tier table, or the path of one in TOML; None: `flash`."""
    factor_column: str | None = None
    """A column of penalties in (0, 1], alone or multiplied with the tier factors."""
    factor: str | None = None
    """An expression on columns for the same, in place of a column."""
    eligible: str | None = None
    """A condition on columns; rows outside get the method's base."""
    integrity_action: IntegrityAction = "zero"
    """What a confirmed integrity violation costs: its reward, its tier, or nothing."""
    dynamic_sampling: bool = False
    """Groups without both passes and failures get no advantage."""
    check: bool = False
    """Look for groups that break an invariant."""
    full_copy: bool = False
    per_turn: bool = False
    """One row a turn, for methods that look at every turn."""
    per_token: str | None = None
    """A column of masks: one advantage a token, 0 where the mask is 0."""
    overwrite: bool = False


class Plan(NamedTuple):
    """Settings that were read and found right."""

    table: TierTable
    options: Options
    cap: SettledCap
    condition: "Condition | None"
    factor: Factor | None


def check_settings(settings: RedistributeSettings) -> Plan:
    """What the settings stand for, after everything was refused that can be before a dump is read.

    Raises:
        UsageError: settings that exclude each other, or name what does not exist.
        InputError: the tier table is wrong.
        OutputError: the output exists already.
    """
    table = read_tier_table(settings.tiers or DEFAULT_TIERS)
    settled = settle_cap(table, cap=settings.cap, limit=settings.limit)
    options = read_options(
        settings.method,
        cap=settled.cap,
        limit=settled.limit,
        preset=settings.like,
        assignments=settings.assignments,
    )
    needs = METHODS[settings.method].needs
    is_penalised = settings.factor_column is not None or settings.factor is not None
    if settings.rankings is None and "factors" in needs and not is_penalised:
        raise UsageError(
            "--rankings is missing",
            "`gagar grade` makes them; --factor-column and --factor need none, nor does --method dr-grpo",
        )
    if settings.rankings is None and "order" in needs:
        raise UsageError("--rankings is missing", "`gagar grade` makes them; --method grpo needs none")
    if settings.factor_column is not None and settings.factor is not None:
        raise UsageError(
            "--factor-column and --factor exclude each other", "--factor 'NAME * …' uses a column too"
        )
    if is_penalised and "factors" not in needs:
        flag = "--factor" if settings.factor_column is None else "--factor-column"
        raise UsageError(
            f"{flag} is not for --method {settings.method}", "gagar, gagar-reward and downweight use factors"
        )
    _check_use(settings, table)
    _check_lists(settings)
    if settings.rankings == "-" and "-" in settings.dumps:
        raise UsageError("the dump and --rankings are both `-`", "only one of them can come from stdin")
    refuse_other_ending(settings.output, TABLE_SUFFIXES)
    condition = _read_condition(settings.eligible)
    factor = _read_factor(settings.factor)
    rankings = () if settings.rankings is None else (settings.rankings,)
    refuse_own_inputs(settings.output, (*settings.dumps, *rankings, *settings.read.joins))
    refuse_existing(settings.output, overwrite=settings.overwrite)
    return Plan(table, options, settled, condition, factor)


def _read_condition(text: str | None) -> "Condition | None":
    if text is None:
        return None
    from gagar_cli.core.conditions import parse_condition

    return parse_condition(text, "--eligible")


def _read_factor(text: str | None) -> Factor | None:
    if text is None:
        return None
    from gagar_cli.core.expressions import columns_in, parse_expression

    expression = parse_expression(text, "--factor")
    return Factor(text, expression, columns_in(expression))


def _check_use(settings: RedistributeSettings, table: TierTable) -> None:
    """Refuse what is given and would change nothing."""
    method = METHODS[settings.method]
    for name, value in (("cap", settings.cap), ("limit", settings.limit)):
        if value is not None and name not in method.options:
            raise UsageError(
                f"--{name} is not for --method {settings.method}", "gagar and gagar-reward are capped"
            )
    if settings.tiers is None:
        return
    if not {"factors", "order"} & set(method.needs):
        raise UsageError(
            f"--tiers is not for --method {settings.method}",
            "gagar, gagar-reward and downweight use its factors, ranking-reward its ties",
        )
    if settings.rankings is None and (table.cap, table.limit) == (None, None):
        raise UsageError(
            f"--tiers is {show_path(settings.tiers)}, and without --rankings nothing has a tier",
            "`gagar grade` makes rankings",
        )


def _check_lists(settings: RedistributeSettings) -> None:
    if settings.per_turn and "turns" not in METHODS[settings.method].needs:
        raise UsageError(
            f"--per-turn is not for --method {settings.method}", "gigpo and graphgpo look at every turn"
        )
    if settings.per_turn and settings.per_token:
        raise UsageError("--per-turn and --per-token exclude each other", "one run for each")
    if settings.full_copy and (settings.per_turn or settings.per_token):
        flag = "--per-turn" if settings.per_turn else "--per-token"
        raise UsageError(f"{flag} and --full-copy exclude each other", f"{flag} writes a sidecar")
