"""What the tools of the grader are called and take, in the form of the chat-completions protocol."""

from collections.abc import Mapping, Sequence
from typing import Any

from gagar_cli.core.ranking import FLAGS
from gagar_cli.core.rubric import MAX_SCORE, MIN_SCORE, PAPER, Rubric

SUBMIT = "submit_ranking"
SEARCH_PLACES = ("repo", "patches", "turns", "test_output", "exec", "all")

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


def submit_schema(rubric: Rubric = PAPER) -> dict[str, Any]:
    """The tool that ends a grading, with the dimensions of a rubric."""
    score = {"type": "integer", "minimum": MIN_SCORE, "maximum": MAX_SCORE}
    entry = {
        "type": "object",
        "properties": {
            "id": _CANDIDATE,
            "scores": {
                "type": "object",
                "properties": dict.fromkeys(rubric.dimensions, score),
                "required": list(rubric.dimensions),
            },
            "flags": {"type": "object", "properties": {name: {"type": "boolean"} for name in FLAGS}},
            "findings": {"type": "array", "items": _finding_schema([*rubric.dimensions, *FLAGS])},
            "rationale": _TEXT,
        },
        "required": ["id", "findings", "rationale"],
    }
    return _schema(
        SUBMIT,
        "Submit scores, flags and findings for every candidate. Ends the grading when accepted.",
        {"candidates": {"type": "array", "items": entry}},
        {
            "order": {
                "type": "array",
                "items": {"type": "array", "items": _CANDIDATE},
                "description": "tie groups of candidates, best first; reorders only within a tier",
            },
            "order_reason": _TEXT,
        },
    )


def vote_schema() -> dict[str, Any]:
    """The tool that ends a vote on one candidate's integrity: no scores, one flag."""
    entry = {
        "type": "object",
        "properties": {
            "id": _CANDIDATE,
            "flags": {
                "type": "object",
                "properties": {"integrity_violation": {"type": "boolean"}},
                "required": ["integrity_violation"],
            },
            "findings": {"type": "array", "items": _finding_schema(["integrity_violation"])},
            "rationale": _TEXT,
        },
        "required": ["id", "flags", "findings", "rationale"],
    }
    description = (
        "Submit the verdict on the candidate's integrity, with its proof. Ends the check when accepted."
    )
    return _schema(SUBMIT, description, {"candidates": {"type": "array", "items": entry}}, {})


def _finding_schema(claims: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["patch", "turn", "test_output", "repo", "exec"]},
            "at": {
                "type": "string",
                "description": "coordinate as shown left of │, for example c01:src/a.py:17",
            },
            "anchor": {"type": "string", "description": "at least 8 characters copied from that line"},
            "claim": _TEXT,
            "supports": {"type": "array", "items": {"type": "string", "enum": list(claims)}},
            "compared_with": {"type": "string", "description": "a sibling's coordinate, optional"},
        },
        "required": ["kind", "at", "anchor", "claim", "supports"],
    }


_COLUMN = {"type": "integer", "minimum": 1, "description": "reads line `start` on from this character"}
_PAGE = {"start": _NUMBER, "column": _COLUMN}

READING_SCHEMAS = [
    _schema("overview", "The task, every attempt's size, touched files, leads.", {}, {"start": _NUMBER}),
    _schema(
        "list_files",
        "Files under a folder; of a large one its folders.",
        {},
        {"path": _TEXT, "start": _NUMBER},
    ),
    _schema(
        "read_file",
        "A file at the base commit, or as a candidate's patch leaves it.",
        {"path": _TEXT},
        {"candidate": _CANDIDATE, **_PAGE},
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
    _schema("view_patch", "A candidate's patch.", {"candidate": _CANDIDATE}, {"path": _TEXT, **_PAGE}),
    _schema(
        "compare_patches",
        "All candidates' patches side by side, place by place, same changes shown once; with first and second, the "
        "changed lines that only one of the two has.",
        {},
        {"first": _CANDIDATE, "second": _CANDIDATE, "start": _NUMBER},
    ),
    _schema(
        "list_turns",
        "One line for each turn of an attempt: what it did → what came of it.",
        {"candidate": _CANDIDATE},
        {"start": _NUMBER},
    ),
    _schema(
        "view_turns",
        "The full text of turns first to last.",
        {"candidate": _CANDIDATE, "first": _NUMBER},
        {"last": _NUMBER, **_PAGE},
    ),
    _schema(
        "view_test_output",
        "The test output of an attempt; its last 40 lines where no start is given.",
        {"candidate": _CANDIDATE},
        _PAGE,
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
    _PAGE,
)

SUBMIT_SCHEMA = submit_schema()
