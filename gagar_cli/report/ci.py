"""An audit for a pipeline: JUnit XML, where every gate is a test, and a Markdown summary for a job's page."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

from gagar_cli.audit_summary import AuditResult
from gagar_cli.core.gates import GateResult
from gagar_cli.core.text import escape_untrusted
from gagar_cli.tables_audit import answer, audit_facts, comparison_rows

_MARKDOWN_SPECIAL = "\\`*_{}[]()<>#+-.!|~&@:/"


def junit_document(result: AuditResult) -> bytes:
    """The gates as test cases of one suite, and whether tasks were judged as one more."""
    cases = [_judged_case(result), *(_gate_case(gate) for gate in result.gates)]
    n_failures = sum(case.find("failure") is not None for case in cases)
    counts = {"tests": str(len(cases)), "failures": str(n_failures), "errors": "0"}
    suites = ElementTree.Element("testsuites", {"name": "gagar audit", **counts})
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "gagar audit", **counts})
    suite.extend(cases)
    output = ElementTree.SubElement(suite, "system-out")
    output.text = "\n".join(_clean(answer(comparison)) for comparison in result.comparisons)
    ElementTree.indent(suites)
    document: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def markdown_summary(result: AuditResult) -> str:
    """The answer, the figures and the gates as GitHub-flavoured Markdown; nothing of it is active."""
    lines = [f"## Audit of {_escape(', '.join(result.policies))}", ""]
    lines += [f"**{_escape(answer(comparison))}**\n" for comparison in result.comparisons]
    if result.gates:
        lines += _table(
            ("gate", "result"),
            [(gate.describe(), "met" if gate.is_met else "not met") for gate in result.gates],
        )
    for comparison in result.comparisons:
        columns = ("", comparison.first, comparison.second, "difference, 95% interval", "p")
        lines += _table(columns, comparison_rows(comparison))
    lines += _table(("", ""), audit_facts(result))
    return "\n".join(lines)


def _judged_case(result: AuditResult) -> ElementTree.Element:
    case = ElementTree.Element("testcase", {"classname": "gagar.audit", "name": "tasks were judged"})
    tasks = result.n_tasks
    if not tasks["judged"]:
        message = f"no task was judged, {tasks['sampled']:,} sampled"
        ElementTree.SubElement(case, "failure", {"message": message, "type": "ungraded"})
    return case


def _gate_case(gate: GateResult) -> ElementTree.Element:
    case = ElementTree.Element("testcase", {"classname": "gagar.gate", "name": _clean(gate.gate.text)})
    if not gate.is_met:
        ElementTree.SubElement(case, "failure", {"message": _clean(gate.describe()), "type": "gate"})
    return case


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [columns, *rows]
    made = ["| " + " | ".join(_escape(cell) for cell in row) + " |" for row in cells]
    return [made[0], "|" + " --- |" * len(columns), *made[1:], ""]


def _escape(text: str) -> str:
    escaped = _clean(text)
    # An entity cannot begin markup, whatever stands before or behind it.
    return "".join(
        f"&#{ord(char)};" if char in _MARKDOWN_SPECIAL and char not in ".-+%()" else char for char in escaped
    )


def _clean(text: str) -> str:
    return escape_untrusted(text, keep_newlines=False)
