"""The agentic prompt against the tools that it speaks of: what it names is there, and it is the same for every group."""

import re
from dataclasses import replace

from gagar_cli.core.ranking import FLAGS
from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.grader.prompts import opening, system_prompt
from gagar_cli.grader.tool_schemas import READING_SCHEMAS, RUN_CHECK_SCHEMA, SUBMIT
from gagar_cli.grader.workspace import Workspace

TOOLS = {schema["function"]["name"] for schema in (*READING_SCHEMAS, RUN_CHECK_SCHEMA)} | {SUBMIT}


def test_every_name_in_backticks_that_looks_like_a_tool_is_one():
    named = set(re.findall(r"`([a-z]+_[a-z_]+)`", system_prompt()))
    arguments = {"compared_with", "order_reason", "test_output"}
    assert named - arguments - set(FLAGS) - set(DIMENSIONS) <= TOOLS
    flags = {flag for flag in FLAGS if "_" in flag}
    assert named >= {"compare_patches", "list_turns", "view_turns", "run_check", SUBMIT, *flags}


def test_groups_of_any_content_open_with_the_same_prompt(group):
    other = replace(group, task=replace(group.task, problem_statement="something else", instance_id="x-2"))
    first, second = (opening(Workspace(one, seed=0, repository=None)) for one in (group, other))
    assert first == second


def test_the_prompt_is_short_enough_to_send_with_every_call():
    assert len(system_prompt()) < 8_000


def test_every_kind_of_finding_has_an_example():
    examples = re.findall(r"`((?:c\d\d|base):[^`]+)`", system_prompt())
    assert {"c03:src/a.py:17", "c03:src/a.py:-12", "c03:src/a.py:0", "base:src/a.py:340"} <= set(examples)
    assert {"c03:turn:4:2", "c03:test_output:9", "c03:exec:1:5"} <= set(examples)
