"""Calibration: how well a grader tells known good from known bad, on a team's own dump, before it touches training.

Passing attempts are drawn, one a task; each is graded beside copies of itself with planted flaws, controls and
injections. Every grader (a model in a mode) meets the same groups; its rankings are on disk as they are made, and the same command goes on
after a stop.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from gagar_cli import __version__
from gagar_cli.calibrate_checks import check_copies
from gagar_cli.core.calibration import CalibrationGroup, choose_kinds, make_group, score_group
from gagar_cli.core.calibration_card import Card, make_card, verdict
from gagar_cli.core.consistency import measure_consistency
from gagar_cli.core.flaws import FLAWS
from gagar_cli.core.gates import GateResult, check_gate, parse_gate
from gagar_cli.core.injections import INJECTIONS
from gagar_cli.core.ranking import GroupRanking
from gagar_cli.core.sampling import draw
from gagar_cli.core.schema import GroupKey
from gagar_cli.core.spending import Spending, spending_of
from gagar_cli.errors import InputError, OutputError
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.grader.prompts import prompt_version
from gagar_cli.grader.rules import Mode
from gagar_cli.grading_digest import digest_group
from gagar_cli.grading_record import RunRecord
from gagar_cli.group_grading import GroupGrader, GroupGraderSettings
from gagar_cli.interrupts import run_interruptibly
from gagar_cli.io.dump import Dump, ReadOptions, open_dump
from gagar_cli.io.packed_logs import LogStore
from gagar_cli.io.streams import show_path
from gagar_cli.io.writers import write_atomically, write_summary_file
from gagar_cli.own_inputs import refuse_own_inputs
from gagar_cli.progress import ProgressCallback, no_progress
from gagar_cli.report.calibration_page import calibration_page
from gagar_cli.side_by_side import count_open, run_side_by_side

_CARD, _PAGE = "card.json", "report.html"


@dataclass(frozen=True, slots=True)
class CalibrateSettings:
    """What `gagar calibrate` was asked to do."""

    dumps: tuple[str, ...]
    output: str
    """A directory."""
    grader: GroupGraderSettings
    models: tuple[EndpointSettings, ...]
    modes: tuple[Mode, ...] = ("agentic",)
    read: ReadOptions = field(default_factory=ReadOptions)
    n_originals: int = 30
    flaws_per_group: int = 5
    seed: int = 0
    is_verified: bool = False
    """Run the task's tests over flawed copies, and leave out those that fail."""
    gates: tuple[str, ...] = ()
    concurrency: int = 8
    """Calls on their way at the endpoint at a time; up to twice as many groups are open."""
    overwrite: bool = False

    def record(self, model: EndpointSettings, mode: Mode, sandbox: str) -> dict[str, Any]:
        """What the rankings of one grader depend on."""
        return {
            "gagar": __version__,
            "model": model.model,
            "protocol": model.protocol,
            "temperature": model.temperature,
            "model_seed": model.seed,
            "extra_body": dict(model.extra_body),
            "prompt_version": prompt_version(mode, self.grader.rules.rubric),
            **replace(self.grader.rules, mode=mode).record(),
            "n_originals": self.n_originals,
            "flaws_per_group": self.flaws_per_group,
            "seed": self.seed,
            "verified": self.is_verified,
            "sandbox": sandbox,
        }


@dataclass(frozen=True, slots=True)
class CalibrateResult:
    """The cards of all graders, in the order in which they were named."""

    cards: tuple[Card, ...]
    n_planted: dict[str, int]
    """Flawed copies by kind."""
    n_verified: int | None
    """Groups whose copies were run through the task's tests; None where that was not asked."""
    n_dropped: int
    """Flawed copies that failed the task's tests and were left out."""
    notes: tuple[str, ...]
    gates: tuple[GateResult, ...] = ()

    def to_record(self) -> dict[str, Any]:
        """The card file: the first grader's figures at the top, all of them in `graders`."""
        cards = [{**card.to_record(), "verdict": verdict(card)} for card in self.cards]
        return {
            **cards[0],
            "graders": cards,
            "n_planted_by_kind": self.n_planted,
            "n_verified": self.n_verified,
            "n_dropped": self.n_dropped,
            "notes": list(self.notes),
        }


def run(settings: CalibrateSettings, progress: ProgressCallback = no_progress) -> CalibrateResult:
    """Plant, grade, and write the card and its page.

    Raises:
        UsageError: settings that cannot be carried out, or rankings made under other ones.
        InputError: bad data in the dump, or no passing attempt in which a flaw could be planted.
        OutputError: the directory cannot be written.
        SandboxError, EndpointError: what every group would meet.
    """
    gates = [parse_gate(text) for text in settings.gates]
    n_files = len(settings.models) * len(settings.modes)
    files = [_CARD, _PAGE, *map(_rankings_file, range(n_files))]
    refuse_own_inputs(settings.output, (*settings.dumps, *settings.read.joins), files=files)
    directory = Path(settings.output)
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OutputError(
            f"{show_path(settings.output)}: is no directory that can be used: {reason}"
        ) from error
    with ExitStack() as stack:
        dump = stack.enter_context(open_dump(settings.dumps, settings.read))
        groups = plan_calibration(dump, settings)
        empty = make_card("", [], consistency=[], spending=Spending())
        unmeasured = CalibrateResult((empty,) * n_files, {}, None, 0, ()).to_record()
        for gate in gates:
            # A gate that names nothing is refused before the first call.
            check_gate(gate, unmeasured)
        result = run_interruptibly(_calibrate(settings, groups, directory, progress))
        result = replace(result, notes=(*dump.report.notes, *result.notes))
    record = result.to_record()
    result = replace(result, gates=tuple(check_gate(gate, record) for gate in gates))
    write_summary_file(directory / _CARD, record)
    with write_atomically(directory / _PAGE) as stream:
        stream.write(calibration_page(result).encode("utf-8", "backslashreplace"))
    return result


def _rankings_file(number: int) -> str:
    """The rankings of the contestant with this number, counted from 0."""
    return "rankings.jsonl" if number == 0 else f"rankings-{number + 1}.jsonl"


def plan_calibration(dump: Dump, settings: CalibrateSettings) -> list[CalibrationGroup]:
    """Groups of drawn originals, one a group of the dump, with kinds of flaws spread as evenly as they go.

    Raises:
        InputError: no passing attempt has a place for a flaw.
        OutputError: the temporary directory has no space for long test outputs.
    """
    index = dump.index.with_row_index("row").filter(
        (pl.col("row") == pl.col("primary_row")) & pl.col("passed") & ~pl.col("invalid")
    )
    by_group = {
        f"{step}:{group_id}": (GroupKey(step, group_id), rows)
        for step, group_id, rows in index.group_by("group", maintain_order=True)
        .agg(pl.col("step").first(), pl.col("group_id").first(), "row")
        .select("step", "group_id", "row")
        .iter_rows()
    }
    counts: Counter[str] = Counter()
    names = list(INJECTIONS)
    planned: list[CalibrationGroup] = []
    store = LogStore()  # of all groups, as all of them are there until the last is graded
    for name in draw(by_group, None, seed=settings.seed, salt="groups"):
        if len(planned) == settings.n_originals:
            break
        key, rows = by_group[name]
        row = int(draw([str(one) for one in rows], 1, seed=settings.seed, salt=name)[0])
        task, original = dump.read_trajectories([row])[0]
        kinds = choose_kinds(original.model_patch or "", counts, settings.flaws_per_group, seed=settings.seed)
        made = make_group(
            key,
            task,
            original,
            kinds=kinds,
            injection=names[len(planned) % len(names)],
            seed=settings.seed,
        )
        if made is not None:
            counts.update(variant.kinds[0] for variant in made.variants if variant.role == "flaw")
            kept = tuple(map(store.packed, made.group.trajectories))
            planned.append(replace(made, group=replace(made.group, trajectories=kept)))
    if not planned:
        raise InputError(
            "no passing attempt has a patch in which a flaw could be planted",
            "calibration needs passing attempts with a unified diff in `model_patch`",
        )
    return planned


async def _calibrate(
    settings: CalibrateSettings, groups: list[CalibrationGroup], directory: Path, progress: ProgressCallback
) -> CalibrateResult:
    cards: list[Card] = []
    notes: list[str] = []
    contestants = [(model, mode) for model in settings.models for mode in settings.modes]
    n_all = len(groups) * len(contestants)
    n_done = n_dropped = 0
    n_verified: int | None = None
    progress(0, n_all, "")

    def tell() -> None:
        nonlocal n_done
        n_done += 1
        progress(n_done, n_all, "")

    image = next((one.group.task.docker_image for one in groups if one.group.task.docker_image), None)
    for number, (model, mode) in enumerate(contestants):
        rules = replace(settings.grader.rules, mode=mode, ranks_all_pass=True)
        grader_settings = replace(settings.grader, endpoint=model, rules=rules, seed=settings.seed)
        path = str(directory / _rankings_file(number))
        async with GroupGrader(grader_settings, dump_image=image) as grader:
            if number == 0 and settings.is_verified:
                checked = await check_copies(groups, grader)
                groups, n_verified, n_dropped = list(checked.groups), checked.n_checked, checked.n_dropped
                notes += checked.notes
            with RunRecord(path, path, overwrite=settings.overwrite) as record:
                record.open(settings.record(model, mode, grader.backend.name))
                grader.tell_earlier(record.done.values())
                rankings = await _grade_all(groups, grader, record, settings.concurrency, tell)
                notes += record.notes
        label = model.model if len(settings.modes) == 1 else f"{model.model}, {mode}"
        notes += grader.backend.notes
        notes += grader.notes_of(label if len(contestants) > 1 else "")
        cards.append(_card(label, groups, rankings))
    planted = Counter(
        variant.kinds[0] for one in groups for variant in one.variants if variant.role == "flaw"
    )
    return CalibrateResult(
        tuple(cards),
        {kind: planted[kind] for kind in FLAWS},
        n_verified,
        n_dropped,
        tuple(dict.fromkeys(notes)),
    )


async def _grade_all(
    groups: Sequence[CalibrationGroup],
    grader: GroupGrader,
    record: RunRecord,
    concurrency: int,
    tell: Callable[[], None],
) -> list[GroupRanking]:
    rankings: list[GroupRanking | None] = [None] * len(groups)
    waiting = iter(enumerate(groups))

    async def work() -> None:
        for number, one in waiting:
            digest = await asyncio.to_thread(digest_group, one.group)
            earlier = record.settled(one.group.key, digest)
            if earlier is None:
                graded = await grader.grade(one.group)
                ranking = replace(graded.ranking, input_digest=digest, config_digest=record.config_digest)
                await record.keep(ranking, graded.messages)
            else:
                ranking = record.read(await record.keep_settled(earlier))
            rankings[number] = ranking
            tell()

    await run_side_by_side(work() for _ in range(count_open(len(groups), concurrency)))
    return [ranking for ranking in rankings if ranking is not None]


def _card(label: str, groups: Sequence[CalibrationGroup], rankings: Sequence[GroupRanking]) -> Card:
    outcomes = [
        score_group(one.variants, ranking) if ranking.status == "graded" else None
        for one, ranking in zip(groups, rankings, strict=True)
    ]
    spent = sum((spending_of(ranking.grader) for ranking in rankings), Spending())
    consistency = [measure_consistency([ranking]) for ranking in rankings]
    reasons = [ranking.reason or "unknown" for ranking in rankings if ranking.status != "graded"]
    return make_card(label, outcomes, consistency=consistency, spending=spent, reasons=reasons)
