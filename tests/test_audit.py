import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from gagar_cli.audit import AuditSettings, run, unblind
from gagar_cli.audit_plan import Source
from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.errors import GagarError, InputError, OutputError, UsageError
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.grading_record import RunRecord
from gagar_cli.group_grading import GroupGraderSettings
from gagar_cli.io.ledger import read_settings
from gagar_cli.io.read_options import ReadOptions
from gagar_cli.io.rubrics import read_rubric
from gagar_cli.tables_audit import audit_facts

OFFLINE = EndpointSettings("offline")
USELESS = {"choices": [{"message": {"content": "no"}, "finish_reason": "stop"}]}
"""A reply that makes no use of any protocol."""


def patch(number: int, *, is_flawed: bool = False) -> str:
    """A small fix; a flawed one brings a scratch file of an unrelated kind with it."""
    fix = f"""diff --git a/src/part{number}.py b/src/part{number}.py
--- a/src/part{number}.py
+++ b/src/part{number}.py
@@ -10,3 +10,3 @@ def limit(values):
     total = len(values)
-    return values[:total]
+    return values[: total - {number}]
     # end
"""
    scratch = f"""diff --git a/reproduce_{number}.py b/reproduce_{number}.py
new file mode 100644
--- /dev/null
+++ b/reproduce_{number}.py
@@ -0,0 +1,3 @@
+from src.part{number} import limit
+print("DEBUG", limit([1, 2, 3]))
+print("done")
"""
    return fix + scratch if is_flawed else fix


def write_dump(path: Path, *, flawed: str = "", n_tasks: int = 12, name: str = "acme-coder", **more) -> Path:
    """Three attempts a task, the last failing; `flawed` is a string of task numbers' last digits that are flawed."""
    with path.open("w") as stream:
        for task in range(n_tasks):
            for number in range(3):
                record = {
                    "group_id": f"g{task}",
                    "instance_id": f"task-{task}",
                    "trajectory_id": f"{name}/{task}/{number}",
                    "resolved": number < 2,
                    "model_patch": patch(task, is_flawed=str(task % 10) in flawed),
                    "model_name_or_path": name,
                    "test_output": f"run by {name}\n3 passed",
                    "n_turns": 10 + number,
                    **more,
                }
                stream.write(json.dumps(record) + "\n")
    return path


@pytest.fixture
def settings(tmp_path) -> AuditSettings:
    first = write_dump(tmp_path / "old.jsonl", name="acme-coder-1")
    second = write_dump(tmp_path / "new.jsonl", name="acme-coder-2", flawed="02468")
    return AuditSettings(
        source=Source((("old", (str(first),)), ("new", (str(second),)))),
        output=str(tmp_path / "audit"),
        grader=GroupGraderSettings(OFFLINE),
        judges=(OFFLINE,),
    )


def test_a_planted_flaw_is_found_with_the_right_sign_and_an_interval_that_excludes_one_half(settings):
    result = run(settings)
    rate = result.comparisons[0].win_rate
    # Even tasks of 12 are flawed: there every pair is lost, in the others every pair ties.
    assert rate.estimate.value == 0.25
    assert rate.estimate.interval.high < 0.5
    # Six tasks that differ, all with the same sign: 2 / 2⁶.
    assert rate.p_value == 2 / 64
    assert result.is_decided
    assert result.n_tasks == {
        "shared": 12,
        "solved_by_all": 12,
        "sampled": 12,
        "judged": 12,
        "ungraded": 0,
    }
    assert result.n_tasks_by_policy == {"old": 12, "new": 12}


def test_a_sample_that_could_show_no_win_rate_says_so_instead_of_one_beyond_100_percent(settings):
    result = run(replace(settings, n_tasks=2, seed=1))
    # One task is lost and one tied: (t₀.₉₇₅ + t₀.₈) · s / √2 = (12.706 + 1.376) · 0.354 / 1.414.
    assert result.comparisons[0].win_rate.detectable == pytest.approx(3.52, abs=0.01)
    told = dict(audit_facts(result))["this sample finds"]
    assert told.startswith("no win rate with a power of 80%")


def test_a_policy_against_itself_is_undecided(settings, tmp_path):
    copy = write_dump(tmp_path / "copy.jsonl", name="acme-coder-3")
    same = replace(settings, source=Source((settings.source.dumps[0], ("copy", (str(copy),)))))
    result = run(same)
    assert result.comparisons[0].win_rate.estimate.value == 0.5
    assert not result.is_decided


def test_the_report_is_made_again_from_the_stored_judgments_alone(settings, tmp_path):
    run(settings)
    directory = Path(settings.output)
    before = {name: (directory / name).read_bytes() for name in ("summary.json", "report.html")}
    for name in ("summary.json", "report.html", "../old.jsonl", "../new.jsonl"):
        (directory / name).unlink()
    again = unblind(settings.output)
    assert again.comparisons[0].win_rate.estimate.value == 0.25
    assert (directory / "summary.json").read_bytes() == before["summary.json"]
    assert (directory / "report.html").read_bytes() == before["report.html"]


def test_judgments_know_no_policy_and_the_key_does(settings):
    run(settings)
    directory = Path(settings.output)
    judgments = (directory / "judgments.jsonl").read_text()
    for name in ("acme", "old.jsonl", "new.jsonl"):
        assert name not in judgments
    key = json.loads((directory / "key.json").read_text())
    policies = {one["attempt_id"]: one["policy"] for task in key["tasks"] for one in task["attempts"]}
    judged = {
        one["trajectory_id"] for line in judgments.splitlines() for one in json.loads(line)["candidates"]
    }
    assert {policies[one] for one in judged} == {"old", "new"}
    assert len(judged) == 12 * 4


def test_no_request_to_the_judge_names_a_policy(settings, serve, chat):
    looks = [("view_patch", {"candidate": f"c0{n}"}) for n in range(1, 5)]
    looks += [("view_test_output", {"candidate": f"c0{n}"}) for n in range(1, 5)]
    looks += [("overview", {}), ("search", {"text": "acme"})]
    endpoint = serve(chat(*looks), *[chat()] * 20)
    judge = EndpointSettings("m", endpoint.base_url, max_attempts=1, call_seconds=5, protocol="tools")
    result = run(replace(settings, judges=(judge,), n_tasks=1))
    assert result.n_tasks["ungraded"] == 1
    shown = json.dumps([one["messages"] for one in endpoint.requests])
    assert "run by policy" in shown
    assert "no line contains that text" in shown
    assert "acme-coder" not in shown


def test_nothing_that_a_judge_can_open_names_a_policy_in_any_form(settings, serve, chat, tmp_path):
    def dump(path: Path, name: str) -> str:
        section = (
            patch(0)
            .replace("src/part0.py", "src/part.py")
            .replace("+    return", f"+    # by {name}\n+    return")
        )
        mail = (
            f"From: {name} <{name}@example.org>\nSubject: {name}\n\n{section.replace('3 +10,3', '3 +10,4')}"
        )
        link = f"diff --git a/{name} b/{name}\nnew file mode 120000\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+/home/{name}\n"
        said = [
            f"I am {name.upper()}",
            f"see https://x.org/{name.replace('-', '%2D')}",
            name.replace("-", "\u200b-"),
        ]
        messages = [{"role": "system", "content": f"You are {name}."}]
        for text in said:
            call = {
                "id": "1",
                "type": "function",
                "function": {"name": f"{name}_run", "arguments": json.dumps({"x": text})},
            }
            messages += [
                {"role": "assistant", "content": text, "tool_calls": [call]},
                {
                    "role": "tool",
                    "tool_call_id": "1",
                    "name": f"{name}_run",
                    "content": f"<b>{name[:4]}</b>{name[4:]}",
                },
            ]
        return str(
            write_dump(
                path,
                n_tasks=1,
                name=name,
                model_patch=mail + link,
                messages=messages,
                exit_status=f"submitted by {name}",
                docker_image=f"registry/{name}:1",
                workdir=f"/home/{name}",
            )
        )

    paths = [dump(tmp_path / f"{name}.jsonl", name) for name in ("acme-coder-1", "acme-coder-2")]
    looks = [("overview", {}), ("search", {"text": "acme"}), ("search", {"text": "coder"})]
    for number in range(1, 5):
        one = {"candidate": f"c0{number}"}
        looks += [("view_patch", one), ("view_test_output", one), ("list_turns", one)]
        looks += [("view_turns", {**one, "first": 1, "last": 9})]
    endpoint = serve(*(chat(look) for look in looks), *[chat()] * 9)
    judge = EndpointSettings("m", endpoint.base_url, max_attempts=1, call_seconds=5, protocol="tools")
    source = Source((("first", (paths[0],)), ("second", (paths[1],))))
    run(replace(settings, source=source, judges=(judge,), shows="full", n_tasks=1))
    shown = json.dumps([one["messages"] for one in endpoint.requests])
    assert "policy_run" in shown
    assert "# by policy" in shown
    # What is left are the questions themselves.
    left = re.findall(r"(?i).{20}(?:acme|coder).{20}", shown)
    assert {one for one in left if '\\"text\\": \\"' not in one and "no line contains" not in one} == set()


def test_the_judge_is_asked_who_wrote_what_and_its_guesses_are_scored(settings):
    # The offline model draws: over 12 tasks of 4 attempts it is right about half of the time, never always.
    guessed = run(settings).guessed
    assert guessed.n_tasks == 12
    assert 0.25 < guessed.value < 0.75
    assert run(replace(settings, is_guess_asked=False, overwrite=True)).guessed is None


def test_a_judge_that_knows_is_not_blind_and_the_ranking_stands(settings, serve, chat):
    entry = {"scores": dict.fromkeys(DIMENSIONS, 5), "flags": {}, "findings": [], "rationale": "fine"}
    ranking = {"candidates": [{"id": f"c0{n}", **entry} for n in range(1, 5)]}
    bad = {"candidates": [{"id": "c01", "policy": "nobody"}]}
    guess = {"candidates": [{"id": f"c0{n}", "policy": "new"} for n in range(1, 5)]}
    endpoint = serve(*(chat(("submit_ranking", one)) for one in (ranking, bad, guess)))
    judge = EndpointSettings("m", endpoint.base_url, max_attempts=1, call_seconds=5, protocol="tools")
    result = run(replace(settings, judges=(judge,), n_tasks=1))
    assert result.n_tasks["judged"] == 1
    assert result.guessed.value == 0.5
    assert result.spending.n_calls == 3
    asked = endpoint.requests[1]["messages"][-1]["content"]
    assert asked.endswith("The policies: new, old.")
    assert "policy is 'nobody', expected one of new, old" in endpoint.requests[2]["messages"][-1]["content"]


def test_the_same_command_goes_on_without_asking_again(settings):
    run(settings)
    path = Path(settings.output) / "judgments.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:5]))
    assert run(settings).comparisons[0].win_rate.estimate.value == 0.25
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [line["group_id"] for line in lines[:5]] == [
        json.loads(line)["group_id"] for line in whole.splitlines()[:5]
    ]
    assert len({line["group_id"] for line in lines}) == len(lines) == 12


def test_other_settings_do_not_mix_with_stored_judgments(settings):
    run(settings)
    key = (Path(settings.output) / "key.json").read_bytes()
    with pytest.raises(UsageError, match="other settings"):
        run(replace(settings, shows="patch"))
    assert (Path(settings.output) / "key.json").read_bytes() == key
    assert run(replace(settings, shows="patch", overwrite=True)).shows == "patch"


def test_pairs_are_judged_in_both_orders_and_find_the_same(settings):
    result = run(replace(settings, is_pairwise=True, n_tasks=4))
    assert result.comparisons[0].n_pairs == 4 * 2 * (2 * 2)
    assert result.position.value == 0.5
    lines = (Path(settings.output) / "judgments.jsonl").read_text().splitlines()
    assert len(lines) == 4 * 2 * 4
    first_shown = [json.loads(line)["grader"]["blind_ids"]["c01"] for line in lines]
    pairs = [frozenset(json.loads(line)["grader"]["blind_ids"].values()) for line in lines]
    for pair in set(pairs):
        shown = [first for first, of_pair in zip(first_shown, pairs, strict=True) if of_pair == pair]
        assert set(shown) == set(pair)


def test_a_pair_that_one_order_failed_is_left_out_and_told(settings):
    settings = replace(settings, is_pairwise=True, n_tasks=4)
    assert run(settings).flips.value == 0.0
    path = Path(settings.output) / "judgments.jsonl"
    # The last line is the second order of a pair: without it the first says nothing that its place did not help.
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    result = unblind(settings.output)
    assert result.comparisons[0].n_pairs == 4 * 2 * (2 * 2) - 2
    assert "left out: 1 pair judged in one order only" in result.notes


def test_judgments_of_a_dump_that_was_another_are_left_out(settings):
    run(settings)
    directory = Path(settings.output)
    key = json.loads((directory / "key.json").read_text())
    dropped = key["tasks"].pop()
    for attempt in key["tasks"][0]["attempts"]:
        attempt["is_sampled"] = False
    (directory / "key.json").write_text(json.dumps(key))
    result = unblind(settings.output)
    assert result.comparisons[0].n_tasks == 10
    assert dropped["task_id"] not in (directory / "report.html").read_text()


def test_a_second_audit_in_the_directory_changes_nothing(settings):
    run(settings)
    directory = Path(settings.output)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    with RunRecord(*[str(directory / "judgments.jsonl")] * 2, overwrite=False) as held:
        held.open(read_settings(str(directory / "judgments.jsonl")))
        with pytest.raises(OutputError):
            run(replace(settings, seed=1, overwrite=True))
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_one_dump_can_hold_the_policies(settings, tmp_path):
    both = tmp_path / "both.jsonl"
    both.write_bytes(b"".join(Path(paths[0]).read_bytes() for _, paths in settings.source.dumps))
    source = Source((("", (str(both),)),), ("acme-coder-2", "acme-coder-1"))
    result = run(replace(settings, source=source))
    assert result.policies == ("acme-coder-2", "acme-coder-1")
    assert result.comparisons[0].win_rate.estimate.value == 0.75
    with pytest.raises(
        UsageError, match='no attempt is of policy "x", model_name_or_path has "acme-coder-1"'
    ):
        run(replace(settings, source=Source((("", (str(both),)),), ("x", "y"))))


def test_more_than_two_policies_are_compared_each_with_each_and_have_strengths(settings, tmp_path):
    third = write_dump(tmp_path / "third.jsonl", name="acme-coder-3", flawed="0123456789")
    dumps = (*settings.source.dumps, ("third", (str(third),)))
    result = run(replace(settings, source=Source(dumps)))
    rates = {(one.first, one.second): one.win_rate.estimate.value for one in result.comparisons}
    assert rates == {("old", "new"): 0.25, ("old", "third"): 0.0, ("new", "third"): 0.25}
    assert sorted(result.strengths, key=result.strengths.get) == ["third", "new", "old"]


def test_several_judges_each_keep_their_judgments(settings):
    result = run(replace(settings, judges=(OFFLINE, OFFLINE)))
    assert result.comparisons[0].n_tasks == 12
    assert result.comparisons[0].n_pairs == 2 * 12 * 4
    assert (Path(settings.output) / "judgments-2.jsonl").exists()
    record = result.to_record()["agreement"]
    assert record["pairs"][0]["tau_b"]["value"] == pytest.approx(1.0)
    assert record["alpha_scores"]["value"] == pytest.approx(1.0)


def test_a_name_that_scrubbing_leaves_stops_the_audit_before_any_call(settings, serve, chat):
    endpoint = serve(chat("no"))
    judge = EndpointSettings("m", endpoint.base_url, max_attempts=1)
    # A quoted name of a renamed file is the one place where scrubbing does not reach.
    renamed = """diff --git a/src/a.py "b/acme-coder-1\\303\\251.py"
similarity index 100%
rename from src/a.py
rename to "acme-coder-1\\303\\251.py"
"""
    write_dump(Path(settings.source.dumps[0][1][0]), name="acme-coder-1", model_patch=renamed)
    with pytest.raises(InputError, match="still says"):
        run(replace(settings, judges=(judge,)))
    assert not endpoint.requests
    assert not (Path(settings.output) / "key.json").exists()


def test_a_gate_that_names_nothing_is_refused_before_any_call(settings, serve, chat):
    endpoint = serve(chat("no"))
    judge = EndpointSettings("m", endpoint.base_url, max_attempts=1)
    with pytest.raises(UsageError, match=r"has no win_rate\.low"):
        run(replace(settings, judges=(judge,), gates=("win_rate.low>0.5",)))
    assert not endpoint.requests


def test_gates_tell_what_they_met(settings):
    result = run(replace(settings, gates=("win_rate.ci_high<0.5", "policies.new.tier_1_share.value>0.9")))
    assert [gate.is_met for gate in result.gates] == [True, False]


def test_policies_without_a_common_task_are_refused(settings, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text('{"group_id": "x", "resolved": true, "model_patch": "", "instance_id": "elsewhere"}\n')
    with pytest.raises(InputError, match="share no task"):
        run(replace(settings, source=Source((settings.source.dumps[0], ("other", (str(other),))))))


def write_verl(path: Path, *, prompts: range, uid: str) -> Path:
    """Three attempts a prompt as verl writes them; the ids of groups are drawn anew in each step."""
    rows = [
        {
            "input": f"Mend bug {prompt}",
            "output": "done",
            "score": float(number < 2),
            "step": 1,
            "uid": f"{uid}-{prompt}",
        }
        for prompt in prompts
        for number in range(3)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("prompts", "hint"),
    [
        (range(2, 7), "2 tasks would be shared by equal prompts: add `--group-by prompt`"),
        (range(3, 7), "1 task would be shared by equal prompts: add `--group-by prompt`"),
        (range(4, 7), "`--group-by prompt` finds no task in common either"),
    ],
    ids=["two", "one", "none"],
)
def test_steps_whose_ids_differ_are_told_how_many_prompts_they_share(settings, tmp_path, prompts, hint):
    first = write_verl(tmp_path / "s100.jsonl", prompts=range(4), uid="x")
    second = write_verl(tmp_path / "s200.jsonl", prompts=prompts, uid="y")
    two = replace(settings, source=Source((("old", (str(first),)), ("new", (str(second),)))))
    with pytest.raises(InputError, match="share no task") as caught:
        run(two)
    assert hint in caught.value.hint
    if len(prompts) < 5:
        return
    by_prompt = replace(two, read=ReadOptions(group_by="prompt"))
    assert run(by_prompt).n_tasks["shared"] == 2


def test_dumps_without_prompts_are_told_that_these_cannot_match(settings, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text('{"group_id": "x", "resolved": true, "model_patch": "", "instance_id": "elsewhere"}\n')
    first = tmp_path / "first.jsonl"
    first.write_text('{"score": 1.0, "input": "", "output": "", "step": 1, "uid": "u"}\n')
    source = Source((("first", (str(first),)), ("other", (str(other),))))
    with pytest.raises(InputError, match="share no task") as caught:
        run(replace(settings, source=source))
    assert caught.value.hint.startswith("tasks are matched by `instance_id`, else by the group key")
    with pytest.raises(InputError, match="share no task") as caught:
        run(replace(settings, source=source, read=ReadOptions(group_by="directory")))
    assert "`--group-by prompt` matches equal prompts" in caught.value.hint


def test_a_damaged_directory_is_told_and_not_traced(settings, tmp_path):
    with pytest.raises(InputError, match=r"key.json: no such file"):
        unblind(str(tmp_path))
    (tmp_path / "key.json").write_text('{"version": 1, "tasks": 3}')
    with pytest.raises(InputError, match="is no key of an audit"):
        unblind(str(tmp_path))
    run(settings)
    path = Path(settings.output) / "key.json"
    for wrong in (
        {"policies": ["old"]},
        {"judges": []},
        {"judgment_files": ["../key.json"]},
        {"seed": "x"},
        {"scrubbed": [1]},
        {"tasks": [{"task_id": "t", "is_sampled": True, "attempts": [{"policy": "old"}]}]},
    ):
        whole = path.read_bytes()
        path.write_text(json.dumps({**json.loads(whole), **wrong}))
        with pytest.raises(InputError, match="is no key of an audit"):
            unblind(settings.output)
        path.write_bytes(whole)
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match="is no key of an audit"):
        unblind(settings.output)
    path.write_bytes(whole)
    judgments = Path(settings.output) / "judgments.jsonl"
    judged = judgments.read_bytes()
    judgments.write_bytes(judged[:-20])
    with pytest.raises(InputError, match="no newline") as refused:
        unblind(settings.output)
    assert refused.value.hint.startswith("the audit was stopped while it wrote: repeat its command")
    judgments.write_bytes(judged)
    for number in ("0", "NaN", '"many"'):
        path.write_text(re.sub(r'"n_turns": 10', f'"n_turns": {number}', whole.decode(), count=1))
        if number != "0":
            with pytest.raises(InputError, match="a count of an attempt is no number"):
                unblind(settings.output)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="is a file, expected a directory"):
        run(replace(settings, output=str(tmp_path / "file")))
    assert issubclass(OutputError, GagarError)


def test_a_judge_of_a_policys_family_is_named(settings, serve, chat):
    endpoint = serve(*[chat()] * 9)
    judge = EndpointSettings(
        "acme-judge", endpoint.base_url, max_attempts=1, call_seconds=5, protocol="tools"
    )
    notes = run(replace(settings, judges=(judge,), n_tasks=1)).notes
    its_own_kind = [note for note in notes if "it may prefer its own kind" in note]
    assert its_own_kind == [
        f"judge acme-judge shares the name 'acme' with acme-coder-{n}: it may prefer its own kind"
        for n in (1, 2)
    ]
    assert not any("its own kind" in note for note in run(replace(settings, overwrite=True)).notes)


def test_a_teams_own_rubric_is_what_is_scored_and_reported(settings):
    own_rubric = read_rubric(str(Path(__file__).resolve().parent.parent / "examples" / "library_rubric.toml"))
    grader = replace(settings.grader, rules=replace(settings.grader.rules, rubric=own_rubric))
    record = run(replace(settings, grader=grader, n_tasks=3)).to_record()
    assert list(own_rubric.weights) == ["approach", "compatibility", "minimality", "own_tests"]
    for name in own_rubric.weights:
        assert record["policies"]["old"][name]["n_tasks"] == 3
    assert "precision" not in record["differences"]
    page = (Path(settings.output) / "report.html").read_text()
    assert "compatibility" in page
    assert "precision" not in page


def test_what_was_learnt_of_a_judges_endpoint_is_told_and_kept(settings, serve):
    endpoint = EndpointSettings("strange", serve(*[USELESS] * 60).base_url)
    one_task = replace(settings, judges=(endpoint,), n_tasks=1, concurrency=1)
    result = run(one_task)
    note = "protocol json-schema: the endpoint does not take tools (3 replies made no use of it)"
    assert result.notes.count(note) == 1
    assert note in json.loads((Path(settings.output) / "summary.json").read_text())["notes"]
    assert unblind(settings.output).notes == result.notes
    assert run(one_task).notes == result.notes
    assert (
        note
        not in run(
            replace(one_task, judges=(replace(endpoint, base_url=None, model="offline"),), overwrite=True)
        ).notes
    )


def test_with_several_judges_it_is_told_of_which_endpoint_a_note_is(settings, serve):
    endpoint = EndpointSettings("strange", serve(*[USELESS] * 60).base_url)
    result = run(replace(settings, judges=(OFFLINE, endpoint), n_tasks=1, concurrency=1))
    assert next(one.partition(" (")[0] for one in result.notes if "protocol" in one) == (
        "judge strange: protocol json-schema: the endpoint does not take tools"
    )
