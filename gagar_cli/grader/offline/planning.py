"""Which tools to call next: the conversation so far decides, so the same conversation gives the same reply.

Stages: overview; patches and turn lists; what the rules want to know (leads' turns, helpers of the same name,
failing tests); the task's tests where they can be run; the submission. A stage begins when the one before it asks
nothing new, and every stage is bounded, so a group takes at most ten replies.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.grader.offline.facts import Candidate, Group
from gagar_cli.grader.offline.judging import compose_submission
from gagar_cli.grader.offline.reading import Exchange, read_group
from gagar_cli.grader.offline.rules_helpers import helper_questions
from gagar_cli.grader.offline.rules_process import FAILED_TEST, find_leads, telling_lines
from gagar_cli.grader.offline.source import added_functions, source_files

SUBMIT = "submit_ranking"
MAX_READING_REPLIES = 7
_MAX_PAGES = 6
"""Of one patch or turn list; a patch of more than a thousand lines is judged by its beginning."""
_MAX_CALLS = 60
_MAX_QUESTIONS = 24
_MAX_LEADS = 3
_MAX_COPIED_LINES = 6


class Call(NamedTuple):
    """One tool call to make."""

    name: str
    arguments: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The same for the same call."""
        return json.dumps([self.name, self.arguments], sort_keys=True)


def plan_calls(
    exchanges: Sequence[Exchange],
    tools: frozenset[str],
    n_replies: int,
    dimensions: Sequence[str] = DIMENSIONS,
) -> list[Call]:
    """The next tool calls; a submission where there is nothing left to ask, or no reply left to ask it in."""
    made = {Call(exchange.name, exchange.arguments).key for exchange in exchanges}
    group = read_group(exchanges)
    if n_replies < MAX_READING_REPLIES and not any(exchange.name == SUBMIT for exchange in exchanges):
        for stage in (_overview, _patches_and_turns, _questions, _checks):
            calls = _new_calls(stage(group, exchanges), tools, made)
            if calls:
                return calls[:_MAX_CALLS]
    submissions = [exchange for exchange in exchanges if exchange.name == SUBMIT]
    return [Call(SUBMIT, compose_submission(group, submissions, dimensions))]


def _new_calls(wanted: Iterable[Call], tools: frozenset[str], made: set[str]) -> list[Call]:
    calls = {call.key: call for call in wanted if call.name in tools}
    return [call for key, call in calls.items() if key not in made]


def _overview(_group: Group, exchanges: Sequence[Exchange]) -> Iterator[Call]:
    yield Call("overview", {})
    yield from _next_pages(exchanges, ("overview",))


def _next_pages(exchanges: Sequence[Exchange], names: Sequence[str]) -> Iterator[Call]:
    """The pages that follow those already read."""
    for exchange in exchanges:
        start = exchange.next_start
        if exchange.name not in names or start is None:
            continue
        subject = {key: value for key, value in exchange.arguments.items() if key != "start"}
        n_read = sum(
            other.name == exchange.name
            and {key: value for key, value in other.arguments.items() if key != "start"} == subject
            for other in exchanges
        )
        if n_read < _MAX_PAGES:
            yield Call(exchange.name, {**subject, "start": start})


def _patches_and_turns(group: Group, exchanges: Sequence[Exchange]) -> Iterator[Call]:
    for candidate in group.candidates:
        is_first_twin = not candidate.twins or candidate.id < min(candidate.twins)
        if candidate.patch_state == "known" and is_first_twin:
            yield Call("view_patch", {"candidate": candidate.id})
        if candidate.n_turns:
            yield Call("list_turns", {"candidate": candidate.id})
    if any(candidate.n_output_lines for candidate in group.candidates):
        yield Call("search", {"text": "FAILED", "where": "test_output"})
    yield from _next_pages(exchanges, ("view_patch", "list_turns"))


def _questions(group: Group, exchanges: Sequence[Exchange]) -> Iterator[Call]:
    for candidate in group.candidates:
        yield from _turns_to_read(candidate, group)
    yield from _next_pages(exchanges, ("view_turns",))
    for text in sorted(_failing_tests(group))[:_MAX_QUESTIONS]:
        yield Call("search", {"text": text, "where": "test_output"})
    if group.has_repository:
        for text in list(dict.fromkeys(_helper_questions(group)))[:_MAX_QUESTIONS]:
            yield Call("search", {"text": text, "where": "repo"})


def _turns_to_read(candidate: Candidate, group: Group) -> Iterator[Call]:
    leads = find_leads(candidate, group)[:_MAX_LEADS]
    for lead in leads:
        yield Call("view_turns", {"candidate": candidate.id, "first": lead.turn, "last": lead.turn})
    if leads:
        longest = sorted(telling_lines(candidate), key=lambda text: (-len(text), text))
        for text in longest[:_MAX_COPIED_LINES]:
            yield Call("search", {"text": text, "where": "turns", "candidate": candidate.id})


def _failing_tests(group: Group) -> set[str]:
    """Tests that fail for some of the candidates but not for all."""
    failing: dict[str, set[str]] = {}
    for line in group.found("FAILED", "test_output") or ():
        match = FAILED_TEST.search(line.text)
        if match and line.at.startswith("c"):
            failing.setdefault(match[1], set()).add(line.at.partition(":")[0])
    return {text for text, ids in failing.items() if len(ids) == 1}


def _helper_questions(group: Group) -> Iterator[str]:
    for candidate in group.candidates:
        for file, language in source_files(candidate):
            for function in added_functions(file):
                yield from helper_questions(function, language)


def _checks(group: Group, _exchanges: Sequence[Exchange]) -> Iterator[Call]:
    if not (group.can_run and group.names_tests):
        return
    for candidate in group.candidates:
        is_first_twin = not candidate.twins or candidate.id < min(candidate.twins)
        if candidate.patch_state == "known" and is_first_twin:
            yield Call("run_check", {"candidate": candidate.id, "command": "tests"})
