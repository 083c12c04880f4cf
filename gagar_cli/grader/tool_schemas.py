"""What the tools of the grader are called and take, in the form of the chat-completions protocol."""

from collections.abc import Mapping
from typing import Any

from gagar_cli.core.ranking import FLAGS
from gagar_cli.core.rubric import DIMENSIONS

SUBMIT = "submit_ranking"
SEARCH_PLACES = ("repo", "patches", "turns", "test_output", "all")

_TEXT = {"type": "string"}
_NUMBER = {"type": "integer", "minimum": 1}
_CANDIDATE = {"type": "string", "description": "blind id, for example c01"}


def _schema(
    name: str, description: str, required: Mapping[str, Any], optional: Mapping[str, Any]
) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


_FINDING_SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "enum": ["patch", "turn", "test_output", "repo", "exec"]},
        "at": {"type": "string", "description": "coordinate as shown left of │, for example c01:src/a.py:17"},
        "anchor": {"type": "string", "description": "at least 8 characters copied from that line"},
        "claim": _TEXT,
        "supports": {"type": "array", "items": {"type": "string", "enum": [*DIMENSIONS, *FLAGS]}},
        "compared_with": {"type": "string", "description": "a sibling's coordinate, optional"},
    },
    "required": ["kind", "at", "anchor", "claim", "supports"],
}

_ENTRY_SCHEMA = {
    "type": "object",
    "properties": {
        "id": _CANDIDATE,
        "scores": {
            "type": "object",
            "properties": {name: {"type": "integer", "minimum": 1, "maximum": 5} for name in DIMENSIONS},
            "required": list(DIMENSIONS),
        },
        "flags": {"type": "object", "properties": {name: {"type": "boolean"} for name in FLAGS}},
        "findings": {"type": "array", "items": _FINDING_SCHEMA},
        "rationale": _TEXT,
    },
    "required": ["id", "findings", "rationale"],
}

READING_SCHEMAS = [
    _schema("overview", "The task, every attempt's size, touched files, leads.", {}, {"start": _NUMBER}),
    _schema("list_files", "Files of the repository under a folder.", {}, {"path": _TEXT, "start": _NUMBER}),
    _schema(
        "read_file",
        "A file at the base commit, or as a candidate's patch leaves it.",
        {"path": _TEXT},
        {"candidate": _CANDIDATE, "start": _NUMBER},
    ),
    _schema(
        "search",
        "Every line that contains a text exactly as written, or with regex=true matches an expression of RE2.",
        {"text": _TEXT},
        {
            "where": {"type": "string", "enum": list(SEARCH_PLACES)},
            "regex": {"type": "boolean"},
            "candidate": _CANDIDATE,
            "start": _NUMBER,
        },
    ),
    _schema(
        "view_patch", "A candidate's patch.", {"candidate": _CANDIDATE}, {"path": _TEXT, "start": _NUMBER}
    ),
    _schema(
        "compare_patches",
        "The changed lines that only one of two patches has.",
        {"first": _CANDIDATE, "second": _CANDIDATE},
        {"start": _NUMBER},
    ),
    _schema(
        "list_turns", "One line for each turn of an attempt.", {"candidate": _CANDIDATE}, {"start": _NUMBER}
    ),
    _schema(
        "view_turns",
        "The full text of turns first to last.",
        {"candidate": _CANDIDATE, "first": _NUMBER},
        {"last": _NUMBER, "start": _NUMBER},
    ),
    _schema(
        "view_test_output",
        "The test output of an attempt; its end where no start is given.",
        {"candidate": _CANDIDATE},
        {"start": _NUMBER},
    ),
]

RUN_CHECK_SCHEMA = _schema(
    "run_check",
    "Run a shell command in a fresh checkout with the candidate's patch. `tests` runs the task's own test command, "
    "`verify` runs it again with the base's test runner and compares.",
    {"candidate": _CANDIDATE, "command": _TEXT},
    {"timeout_seconds": {"type": "number", "exclusiveMinimum": 0}},
)

VIEW_OUTPUT_SCHEMA = _schema(
    "view_output",
    "The whole output of a command that run_check ran, page by page.",
    {"candidate": _CANDIDATE, "number": _NUMBER},
    {"start": _NUMBER},
)

SUBMIT_SCHEMA = _schema(
    SUBMIT,
    "Submit scores, flags and findings for every candidate. Ends the grading when accepted.",
    {"candidates": {"type": "array", "items": _ENTRY_SCHEMA}},
    {
        "order": {
            "type": "array",
            "items": {"type": "array", "items": _CANDIDATE},
            "description": "tie groups of candidates, best first; reorders only within a tier",
        },
        "order_reason": _TEXT,
    },
)
