import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from gagar_cli.audit_key import AuditKey, KeyedAttempt, KeyedTask
from gagar_cli.audit_summary import summarise
from gagar_cli.core.gates import check_gate, parse_gate
from gagar_cli.core.ranking import FLAGS, Finding, GroupRanking, RankedCandidate
from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.core.schema import GroupKey
from gagar_cli.report.audit_page import audit_page
from gagar_cli.report.ci import junit_document, markdown_summary

RAN = "document.title='RAN'"
PAYLOADS = [
    f"<script>{RAN}</script>",
    f'<img src=x onerror="{RAN}">',
    f"<svg onload={RAN}>",
    f'<iframe srcdoc="<script>parent.{RAN}</script>"></iframe>',
    f'" autofocus onfocus="{RAN}" x="',
    f"' onmouseover='{RAN}",
    f"</title><script>{RAN}</script>",
    f"</style><script>{RAN}</script>",
    f"</pre></details><script>{RAN}</script>",
    f"<!--><script>{RAN}</script>-->",
    '<meta http-equiv="refresh" content="0;url=http://payload.invalid/refresh">',
    '<img src="http://payload.invalid/image"><link rel="stylesheet" href="http://payload.invalid/style">',
    '<base href="http://payload.invalid/"><form action="http://payload.invalid/form"><input autofocus></form>',
    "<object data='http://payload.invalid/object'></object><embed src='http://payload.invalid/embed'>",
    "{{ 7 * 7 }}{% raw %}\u202egnp.exe\x1b]0;title\x07",
]


def candidate(name: str, tier: str, text: str) -> RankedCandidate:
    finding = Finding("patch", f"c01:{text}:3", text, text, ("minimality",), compared_with=text, quote=text)
    scores = dict.fromkeys(DIMENSIONS, 4)
    return RankedCandidate(
        name, tier, 1, scores, 4.0, dict.fromkeys(FLAGS, False), (finding,), ("precision",), rationale=text
    )


def audited(text: str):
    """An audit of two policies and two tasks in which every text that a policy could write is this one."""
    policies = (f"old {text}", f"new {text}")
    tasks, rankings = [], []
    for number in range(2):
        attempts = tuple(
            KeyedAttempt(f"a{number}{side}", policy, text, passed=True, is_sampled=True, n_turns=3, n_output_tokens=9,
                         patch_lines=4)
            for side, policy in enumerate(policies)
        )  # fmt: skip
        tasks.append(KeyedTask(f"task {number} {text}", True, attempts))
        ranked = tuple(
            candidate(one.attempt_id, tier, text) for one, tier in zip(attempts, ("T2", "T1"), strict=True)
        )
        shown = {"c01": attempts[0].attempt_id, "c02": attempts[1].attempt_id}
        rankings.append(
            GroupRanking(
                GroupKey(None, f"task {number} {text}"), "graded", None, ranked, {"blind_ids": shown}
            )
        )
    rankings.append(GroupRanking(GroupKey(None, "broken"), "ungraded", f"verdict: {text}"))
    key = AuditKey(
        policies,
        (f"judge {text}",),
        ("judgments.jsonl",),
        tuple(tasks),
        0,
        "patch",
        False,
        {},
        (text,),
        DIMENSIONS,
        (text,),
    )
    result = summarise(key, [rankings])
    gate = check_gate(parse_gate("win_rate.value>0.5"), result.to_record())
    return replace(result, gates=(gate,)), key, [rankings]


def test_the_page_is_one_file_that_allows_itself_nothing():
    page = audit_page(*audited("plain"))
    assert page.count("<html") == 1
    assert "script" not in re.sub(r"<meta[^>]*>", "", page)
    assert "default-src 'none'" in page.replace("&#39;", "'")
    assert not re.findall(r'(?:src|href|action)="', page)


def test_the_page_tells_the_answer_the_figures_and_the_code_that_findings_cite():
    page = audit_page(*audited("return values[0]"))
    assert "wins 100.0% [" in page
    assert "<pre>return values[0]</pre>" in page
    assert "weighted score" in page
    assert "not judged" in page.lower()


@pytest.mark.parametrize("text", PAYLOADS, ids=range(len(PAYLOADS)))
def test_what_a_policy_wrote_makes_no_tag_and_no_attribute(text):
    plain, page = audit_page(*audited("plain")), audit_page(*audited(text))
    assert re.findall(r"<[a-zA-Z!/][^>]*?(?=[ >])", page) == re.findall(r"<[a-zA-Z!/][^>]*?(?=[ >])", plain)
    assert "\u202e" not in page
    assert "\x1b" not in page


def test_all_payloads_are_inert_in_chromium(open_in_chromium):
    opened = open_in_chromium(audit_page(*audited(" ".join(PAYLOADS))))
    assert opened.paths == ["/"]
    assert opened.console == []
    title = re.search(r"<title>(.*?)</title>", opened.dom, re.DOTALL)[1]
    assert title.startswith("Audit of old &lt;script&gt;")
    assert "</html>" in opened.dom


def test_the_same_payloads_run_where_nothing_holds_them(open_in_chromium):
    opened = open_in_chromium(
        f"<html><title>x</title><body>{' '.join(PAYLOADS[:3])}{PAYLOADS[11]}</body></html>"
    )
    assert "<title>RAN</title>" in opened.dom
    assert "/image" in opened.paths


def test_junit_has_one_case_a_gate_and_failures_with_their_value():
    result, _, _ = audited(" ".join(PAYLOADS))
    unmet = check_gate(parse_gate("win_rate.value<0.5"), result.to_record())
    root = ElementTree.fromstring(junit_document(replace(result, gates=(*result.gates, unmet))))
    assert root.attrib["tests"] == "3"
    assert root.attrib["failures"] == "1"
    failures = root.findall(".//failure")
    assert [one.attrib["message"] for one in failures] == ["win_rate.value<0.5: win_rate.value is 1"]


@pytest.mark.parametrize(
    "text", [*PAYLOADS, "[x](http://payload.invalid/) ![y](z)", "@everyone #1 `a` | b\n# c"]
)
def test_markdown_holds_no_markup_of_a_policys(text):
    plain, page = markdown_summary(audited("plain")[0]), markdown_summary(audited(text)[0])
    assert "<" not in page
    for mark in ("](", "![", "`", "@", "://"):
        assert mark not in page
    assert page.count("\n") == plain.count("\n")
    assert page.count("|") == plain.count("|")
