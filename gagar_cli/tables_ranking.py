"""One group's ranking for people: a table of its candidates, and lines for findings, corrections and conversations.

Every text of a trajectory or a model stands behind a bar, line by line, so that none of it can pass for ours.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gagar_cli.core.overriding import overrides_of
from gagar_cli.core.ranking import TIERS, Finding, GroupRanking, RankedCandidate
from gagar_cli.core.spending import spending_of
from gagar_cli.core.text import counted, escape_untrusted, split_lines
from gagar_cli.tables import rows_table

if TYPE_CHECKING:
    from rich.table import Table

    from gagar_cli.show import ShowResult

_BAR = "│"


def ranking_table(ranking: GroupRanking) -> "Table":
    """The candidates of a group, best first."""
    blind = ranking.shown_as
    rows = []
    for each in sorted(ranking.candidates, key=_order):
        weighted = "" if each.weighted_score is None else f"{each.weighted_score:.2f}"
        scores = " ".join(str(score) for score in each.scores.values())
        remarks = [name for name, is_set in each.flags.items() if is_set]
        remarks += [f"{name} unproven" for name in each.unproven]
        blind_id = blind.get(each.trajectory_id, "")
        rows.append((place_of(each), blind_id, scores, weighted, ", ".join(remarks), each.trajectory_id))
    columns = ("place", "id", "scores", "weighted", "flags", "trajectory")
    return rows_table(f"Group {ranking.key}: {ranking.status}", columns, rows, numeric=(3,))


def place_of(candidate: RankedCandidate) -> str:
    """`T1 #2`, or `violation`."""
    if candidate.is_integrity_violation:
        return "violation"
    return f"{candidate.tier} #{candidate.rank}"


def ranking_lines(result: "ShowResult") -> Iterator[str]:
    """What the table does not have: why, with which proof, at what cost, and who corrected it."""
    ranking = result.ranking
    dimensions = next((each.scores for each in ranking.candidates if each.scores), {})
    if dimensions:
        yield f"scores: {', '.join(name.replace('_', ' ') for name in dimensions)}"
    if ranking.reason:
        yield f"why: {_inline(ranking.reason)}"
    yield from _grader_lines(ranking)
    for override in overrides_of(ranking):
        yield from _override_lines(override)
    blind = ranking.shown_as
    for candidate in sorted(ranking.candidates, key=_order):
        if not candidate.findings and not candidate.rationale:
            continue
        yield ""
        name = blind.get(candidate.trajectory_id)
        yield f"{name or ''} {_inline(candidate.trajectory_id)}: {place_of(candidate)}".strip()
        yield from _barred(candidate.rationale, "  ")
        for number, finding in enumerate(candidate.findings):
            yield from _finding_lines(finding, result, candidate.trajectory_id, number)


def conversation_lines(messages: tuple[Mapping[str, Any], ...]) -> Iterator[str]:
    """A conversation, message by message."""
    for number, message in enumerate(messages, start=1):
        yield ""
        cut = " (cut off at its largest length, asked again)" if message.get("cut_off") is True else ""
        yield f"[{number}] {_inline(str(message.get('role') or 'unknown'))}{cut}"
        for field in ("reasoning_content", "reasoning"):
            if isinstance(thought := message.get(field), str) and thought:
                yield "  reasons"
                yield from _barred(thought, "    ")
        content = message.get("content")
        yield from _barred(
            content if isinstance(content, str) else "" if content is None else str(content), "  "
        )
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            function = call.get("function") if isinstance(call, Mapping) else None
            if isinstance(function, Mapping):
                name, arguments = function.get("name"), function.get("arguments")
                yield f"  calls {_inline(str(name))} {_inline(str(arguments))}"


def _grader_lines(ranking: GroupRanking) -> Iterator[str]:
    grader = ranking.grader
    facts = [str(grader[name]) for name in ("model", "protocol", "mode") if grader.get(name)]
    if grader.get("sandbox"):
        facts.append(f"sandbox {grader['sandbox']}")
    if grader.get("prompt_version"):
        facts.append(f"prompts {grader['prompt_version']}")
    if facts:
        yield f"grader: {_inline(', '.join(facts))}"
    spent = spending_of(grader)
    if spent.n_calls:
        cost = grader.get("cost")
        told = f", cost {cost:.4f}" if isinstance(cost, float) else ""
        yield (
            f"took: {counted(spent.n_calls, 'call')}, {counted(spent.n_input_tokens, 'token')} in "
            f"({spent.n_cached_tokens:,} cached), "
            f"{spent.n_output_tokens:,} out, {spent.seconds:.1f} s{told}"
        )


def _override_lines(override: Mapping[str, Any]) -> Iterator[str]:
    before, after = (_told_place(override.get(name)) for name in ("before", "after"))
    when = _inline(str(override.get("at") or ""))
    yield f"override: {_inline(str(override.get('trajectory_id')))} from {before} to {after}, {when}"
    yield f"  by {_inline(str(override.get('author')))}: {_inline(str(override.get('reason')))}"


def _told_place(place: object) -> str:
    if not isinstance(place, Mapping):
        return "?"
    if place.get("integrity_violation"):
        return "violation"
    if place.get("tier") is None:
        return "no place"
    return _inline(f"{place.get('tier')} #{place.get('rank')}")


def _finding_lines(finding: Finding, result: "ShowResult", trajectory_id: str, number: int) -> Iterator[str]:
    against = f", compared with {_inline(finding.compared_with)}" if finding.compared_with else ""
    yield f"  {_inline(', '.join(finding.supports))} ({finding.kind} {_inline(finding.at)}{against})"
    yield from _barred(finding.claim, "    ")
    context = result.contexts.get((trajectory_id, number))
    if context is None:
        yield from _barred(finding.quote or finding.anchor, "      > ")
        return
    for line in context:
        yield f"      {'>' if line.is_cited else ' '} {_BAR} {_inline(line.text, keep_tabs=True)}"


def _barred(text: str, indent: str) -> Iterator[str]:
    for line in split_lines(text) if text else ():
        yield f"{indent}{_BAR} {_inline(line, keep_tabs=True)}"


def _inline(text: str, *, keep_tabs: bool = False) -> str:
    if keep_tabs:
        return escape_untrusted(text).replace("\n", "\\n")
    return escape_untrusted(text, keep_newlines=False)


def _order(candidate: RankedCandidate) -> tuple[int, int]:
    if candidate.is_integrity_violation or candidate.tier not in TIERS:
        return len(TIERS), 0
    return TIERS.index(candidate.tier), candidate.rank or 0
