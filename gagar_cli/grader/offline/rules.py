"""All rules in the order of their weight, and what they find together."""

from gagar_cli.grader.offline.blemishes import Blemish, Rule
from gagar_cli.grader.offline.facts import Candidate, Group
from gagar_cli.grader.offline.rules_churn import rule_churn, rule_whitespace
from gagar_cli.grader.offline.rules_code import rule_silenced_checkers, rule_swallowed_exceptions
from gagar_cli.grader.offline.rules_dead import rule_commented_code, rule_unreachable, rule_unused_names
from gagar_cli.grader.offline.rules_duplicates import rule_repeated_block, rule_twin_functions
from gagar_cli.grader.offline.rules_files import rule_documentation, rule_settings, rule_tests
from gagar_cli.grader.offline.rules_helpers import rule_existing_helper
from gagar_cli.grader.offline.rules_leftovers import (
    rule_debug_output,
    rule_misplaced_text,
    rule_narration,
    rule_notes,
    rule_scratch_files,
)
from gagar_cli.grader.offline.rules_literals import rule_special_cases
from gagar_cli.grader.offline.rules_noise import (
    rule_comment_noise,
    rule_detour,
    rule_machine_path,
    rule_style,
    rule_text_compared,
)
from gagar_cli.grader.offline.rules_process import rule_integrity, rule_process
from gagar_cli.grader.offline.rules_runs import rule_regression
from gagar_cli.grader.offline.rules_scope import rule_rewrite, rule_scope
from gagar_cli.grader.offline.rules_size import rule_place, rule_size

MAX_BLEMISHES = 24

RULES: tuple[Rule, ...] = (
    rule_integrity,
    rule_special_cases,
    rule_text_compared,
    rule_scope,
    rule_rewrite,
    rule_size,
    rule_place,
    rule_scratch_files,
    rule_tests,
    rule_settings,
    rule_documentation,
    rule_debug_output,
    rule_machine_path,
    rule_swallowed_exceptions,
    rule_existing_helper,
    rule_twin_functions,
    rule_repeated_block,
    rule_unreachable,
    rule_commented_code,
    rule_unused_names,
    rule_churn,
    rule_detour,
    rule_misplaced_text,
    rule_silenced_checkers,
    rule_notes,
    rule_comment_noise,
    rule_narration,
    rule_style,
    rule_whitespace,
    rule_process,
    rule_regression,
)
"""Most serious first: a submission that is too long loses its end."""


def find_blemishes(candidate: Candidate, group: Group) -> tuple[Blemish, ...]:
    """All that the rules hold against a candidate, most serious rule first."""
    return tuple(found for rule in RULES for found in rule(candidate, group))[:MAX_BLEMISHES]
