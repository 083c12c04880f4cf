"""The grader's tools: their schemas, and the dispatch of a call to what it shows.

Every call is answered: a bad name, bad arguments or a missing place come back as a line that starts with `error:`,
in the conversation. Tools read; the one that runs anything is `run_check`, and it runs in a sandbox.
"""

import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from gagar_cli.core.patch import PatchConflict
from gagar_cli.core.text import counted, shorten
from gagar_cli.errors import CheckoutError
from gagar_cli.grader import views
from gagar_cli.grader.checks import (
    MAX_COMMAND_CHARS,
    VERIFY_PRESET,
    CheckRunner,
    describe,
    describe_verification,
)
from gagar_cli.grader.pages import as_lines, head_and_tail, page, show_inline
from gagar_cli.grader.patterns import BadExpressionError, expression, literal
from gagar_cli.grader.searching import search_lines
from gagar_cli.grader.tool_schemas import (
    READING_SCHEMAS,
    RUN_CHECK_SCHEMA,
    SEARCH_PLACES,
    SUBMIT_SCHEMA,
    VIEW_OUTPUT_SCHEMA,
)
from gagar_cli.grader.turns import call_apart
from gagar_cli.grader.variants import compare_all
from gagar_cli.grader.workspace import Attempt, Workspace

QUICK_SECONDS = 0.004
"""Of the processor, for one call. A reply may make dozens, and the other groups wait for all that are not done apart."""
TAIL_LINES = 40
"""Of a test output where no start is given: its summary and the last failure."""
_TOLD_CHARS = 120
_MAX_TOLD = 10
"""Of what a wrong call gave, so much is repeated in its answer."""


class Toolbox:
    """The tools of one group's grading; only the named ones where `only` is given."""

    def __init__(
        self,
        workspace: Workspace,
        checks: CheckRunner | None,
        only: Collection[str] | None = None,
        *,
        submit: Mapping[str, Any] = SUBMIT_SCHEMA,
    ) -> None:
        self.workspace = workspace
        self._checks = checks
        self._only = only
        self._submit = dict(submit)
        self._has_been_slow = False

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """The tools of this group in the form of the chat-completions protocol."""
        runs = [RUN_CHECK_SCHEMA, VIEW_OUTPUT_SCHEMA] if self._checks else []
        every = [*READING_SCHEMAS, *runs, self._submit]
        return [one for one in every if self._only is None or one["function"]["name"] in self._only]

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What a tool shows. Never raises for what the grader asked: mistakes are answered with `error:`.

        Raises:
            SandboxError: the sandbox itself broke.
        """
        if self._only is not None and name not in self._only:
            return self._refuse_name(name)
        try:
            _refuse_unknown(name, arguments, self.schemas)
            if name == "run_check":
                return await self._run_check(arguments)
            if name in _READERS:
                # Outputs of commands are not among what is quick; one expression can take seconds for any text.
                is_bounded = self._checks is None and not arguments.get("regex")
                is_quick = is_bounded and self.workspace.is_quick and not self._has_been_slow
                began = time.thread_time()
                shown = await call_apart(partial(_READERS[name], self, arguments), is_quick=is_quick)
                if is_quick:
                    # Few characters can be made to take long: then this group shall wait, not the others.
                    self._has_been_slow = time.thread_time() - began > QUICK_SECONDS
                return shown
        except _BadCallError as error:
            return f"error: {error}"
        except (PatchConflict, CheckoutError) as error:
            return f"error: {show_inline(str(error))}"
        return self._refuse_name(name)

    def _refuse_name(self, name: str) -> str:
        names = ", ".join(schema["function"]["name"] for schema in self.schemas)
        return f"error: there is no tool {_quoted(name)}, expected one of {names}"

    def _overview(self, arguments: Mapping[str, Any]) -> str:
        sandbox_name = self._checks.name if self._checks else None
        return page(views.overview(self.workspace, sandbox_name), _start(arguments))

    def _list_files(self, arguments: Mapping[str, Any]) -> str:
        if self.workspace.repository is None:
            raise _BadCallError("no repository is supplied for this task")
        prefix = _text(arguments, "path", default="").strip("/")
        paths = self.workspace.repository.list_files()
        inside = [path for path in paths if not prefix or path == prefix or path.startswith(prefix + "/")]
        return page(
            views.listed_files(inside, prefix), _start(arguments), empty=f"no files under {_quoted(prefix)}"
        )

    def _read_file(self, arguments: Mapping[str, Any]) -> str:
        path = _text(arguments, "path")
        candidate = self._attempt(arguments).blind_id if arguments.get("candidate") else None
        view = views.file_lines(self.workspace, path, candidate)
        if view is None:
            raise _BadCallError(self._why_no_text(path, candidate))
        shown = page(view.lines, _start(arguments), empty="the file is empty", column=_column(arguments))
        return f"{views.EVERY_LINE_CRLF}\n{shown}" if view.is_crlf else shown

    def _why_no_text(self, path: str, candidate: str | None) -> str:
        where = "as this candidate leaves it" if candidate else "at the base commit"
        repository = self.workspace.repository
        reason = "" if repository else " (no repository is supplied)"
        if repository and path in repository.list_files():
            reason = " (the file is binary or too large, or the patch removes it)"
        return f"there is no text file {_quoted(path)} {where}{reason}"

    def _search(self, arguments: Mapping[str, Any]) -> str:
        text = _text(arguments, "text")
        where = _text(arguments, "where", default="all")
        if where not in SEARCH_PLACES:
            raise _BadCallError(f"where is {_quoted(where)}, expected one of {', '.join(SEARCH_PLACES)}")
        candidate = self._attempt(arguments).blind_id if arguments.get("candidate") else None
        is_expression = arguments.get("regex") or False
        if not isinstance(is_expression, bool):
            raise _BadCallError(f"regex is {_quoted(is_expression)}, expected true or false")
        try:
            pattern = expression(text) if is_expression else literal(text)
        except BadExpressionError as error:
            raise _BadCallError(f"text is no regular expression: {show_inline(str(error))}") from error
        hits = search_lines(self.workspace, pattern, where, candidate)
        empty = "no line matches that expression" if is_expression else "no line contains that text"
        return page(hits, _start(arguments), empty=empty)

    def _view_patch(self, arguments: Mapping[str, Any]) -> str:
        attempt = self._attempt(arguments)
        if attempt.trajectory.model_patch is None:
            raise _BadCallError(f"the patch of {attempt.blind_id} is unknown")
        path = _text(arguments, "path", default="") or None
        if path is not None and not attempt.sections(path):
            raise _BadCallError(f"the patch of {attempt.blind_id} does not touch {_quoted(path)}")
        return page(
            views.patch_lines(attempt, path), _start(arguments), empty="no changes", column=_column(arguments)
        )

    def _compare_patches(self, arguments: Mapping[str, Any]) -> str:
        if not arguments.get("first") and not arguments.get("second"):
            candidates = [self.workspace.attempts[name] for name in self.workspace.candidates]
            return page(as_lines(compare_all(candidates)), _start(arguments))
        first, second = self._attempt(arguments, "first"), self._attempt(arguments, "second")
        return page(views.compare_lines(first, second), _start(arguments))

    def _list_turns(self, arguments: Mapping[str, Any]) -> str:
        return page(
            views.turn_digests(self._attempt(arguments)), _start(arguments), empty="no turns are recorded"
        )

    def _view_turns(self, arguments: Mapping[str, Any]) -> str:
        attempt = self._attempt(arguments)
        first = _integer(arguments, "first", default=1)
        last = _integer(arguments, "last", default=first)
        empty = f"{attempt.blind_id} has {counted(len(attempt.turns), 'turn')}"
        return page(
            views.turn_lines(attempt, first, last), _start(arguments), empty=empty, column=_column(arguments)
        )

    def _view_test_output(self, arguments: Mapping[str, Any]) -> str:
        lines = views.test_output_lines(self._attempt(arguments))
        start = _integer(arguments, "start", default=max(1, len(lines) - TAIL_LINES + 1))
        return page(lines, start, empty="no test output is recorded", column=_column(arguments))

    async def _run_check(self, arguments: Mapping[str, Any]) -> str:
        if self._checks is None:
            raise _BadCallError("run_check is not available for this task")
        candidate = self._attempt(arguments).blind_id
        command = _text(arguments, "command")
        if len(command) > MAX_COMMAND_CHARS or "\0" in command:
            raise _BadCallError(
                f"command must be a text of at most {MAX_COMMAND_CHARS} characters without NUL"
            )
        seconds = arguments.get("timeout_seconds")
        if seconds is not None and (type(seconds) not in (int, float) or not 0 < seconds < float("inf")):
            raise _BadCallError(f"timeout_seconds is {_quoted(seconds)}, expected a positive number")
        if command == VERIFY_PRESET:
            verification = await self._checks.verify(candidate, seconds)
            number, head = verification.number, describe_verification(candidate, verification)
        else:
            number, result = await self._checks.run(candidate, command, seconds)
            head = [describe(candidate, number, result)]
        lines = views.execution_lines(self.workspace, candidate, number)
        more = f'view_output(candidate="{candidate}", number={number}, start=…)'
        return "\n".join([*head, *head_and_tail(lines, more)])

    def _view_output(self, arguments: Mapping[str, Any]) -> str:
        candidate = self._attempt(arguments).blind_id
        number = _integer(arguments, "number", default=1)
        if (candidate, number) not in self.workspace.executions:
            raise _BadCallError(f"{candidate} has no command number {number}")
        lines = views.execution_lines(self.workspace, candidate, number)
        return page(lines, _start(arguments), empty="no output", column=_column(arguments))

    def _attempt(self, arguments: Mapping[str, Any], key: str = "candidate") -> Attempt:
        name = _text(arguments, key)
        if name not in self.workspace.attempts:
            ids = ", ".join(self.workspace.attempts)
            raise _BadCallError(f"{key} is {_quoted(name)}, expected one of {ids}")
        return self.workspace.attempts[name]


# Not of an instance: its own methods would hold it, and with it the logs of a group that is done.
_READERS: dict[str, Callable[[Toolbox, Mapping[str, Any]], str]] = {
    "overview": Toolbox._overview,
    "list_files": Toolbox._list_files,
    "read_file": Toolbox._read_file,
    "search": Toolbox._search,
    "view_patch": Toolbox._view_patch,
    "compare_patches": Toolbox._compare_patches,
    "list_turns": Toolbox._list_turns,
    "view_turns": Toolbox._view_turns,
    "view_test_output": Toolbox._view_test_output,
    "view_output": Toolbox._view_output,
}


def _refuse_unknown(name: str, arguments: Mapping[str, Any], schemas: list[dict[str, Any]]) -> None:
    """An argument that a tool does not have would be left unheeded: say so instead."""
    for schema in schemas:
        if schema["function"]["name"] == name:
            known = schema["function"]["parameters"]["properties"]
            unknown = [_quoted(key).strip("'") for key in arguments if key not in known][:_MAX_TOLD]
            if unknown:
                raise _BadCallError(
                    f"{name} has no argument {', '.join(unknown)}, expected {', '.join(known)}"
                )


class _BadCallError(Exception):
    """A call that cannot be carried out as asked; its text is the answer."""


def _quoted(value: object) -> str:
    """What a call gave, in an answer about it: harmless and short, however long it was."""
    text = shorten(value, _TOLD_CHARS) if isinstance(value, str) else shorten(repr(value), _TOLD_CHARS)
    shown = show_inline(text)
    return f"'{shown}'" if isinstance(value, str) else shown


def _text(arguments: Mapping[str, Any], key: str, *, default: str | None = None) -> str:
    value = arguments.get(key, default)
    if value is None and default is not None:
        value = default
    if not isinstance(value, str) or (not value and default is None):
        raise _BadCallError(
            f"{key} is {_quoted(value)}, expected a text" if key in arguments else f"{key} is missing"
        )
    return value


def _integer(arguments: Mapping[str, Any], key: str, *, default: int) -> int:
    value = arguments.get(key)
    if value is None:
        return default
    if type(value) is not int or value < 1:
        raise _BadCallError(f"{key} is {_quoted(value)}, expected an integer of at least 1")
    return value


def _column(arguments: Mapping[str, Any]) -> int | None:
    return None if arguments.get("column") is None else _integer(arguments, "column", default=1)


def _start(arguments: Mapping[str, Any]) -> int:
    return _integer(arguments, "start", default=1)
