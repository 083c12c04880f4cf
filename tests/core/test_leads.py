import json
import time

import pytest

from gagar_cli.core.leads import MAX_COMMANDS, find_leads
from gagar_cli.core.schema import ToolCall
from gagar_cli.core.turns import Turn


def turn(number: int, command: str = "", result: str = "", reply: str = "", **more: str) -> Turn:
    arguments = {"command": command, **more} if more else {"command": command}
    return Turn(number, reply, (ToolCall("bash", json.dumps(arguments)),), (result,))


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("git log --all -p", "git-history"),
        ("cd repo && git log -S default_for", "git-history"),
        ("git log origin/main", "git-history"),
        ("git show 1a2b3c4d", "git-history"),
        ("git -C repo show HEAD~1:src/a.py", "git-history"),
        ("git cherry-pick abc", "git-history"),
        ("git checkout origin/main -- a.py", "git-history"),
        ("git diff HEAD origin/main", "git-history"),
        ("git restore --source=v2.1 a.py", "git-history"),
        ("git checkout 1a2b3c4d5e -- a.py", "git-history"),
        ("git diff HEAD..1a2b3c4", "git-history"),
        ("git ls-remote", "git-history"),
        ('python -c \'subprocess.run(["git", "show", "abc1234"])\'', "git-history"),
        ("bash -lc 'git log --all -p'", "git-history"),
        ("curl -s https://example.com/fix.patch", "upstream"),
        ("git clone https://example.com/tool", "upstream"),
        ("gh pr diff 12", "upstream"),
        ("python -c 'import httpx; httpx.get(\"https://x\")'", "upstream"),
        ("pip download tool", "installed-version"),
        ("pip install -U tool", "installed-version"),
        ("pip install tool==2.1", "installed-version"),
        ("cat /usr/lib/python3/site-packages/tool/a.py", "installed-version"),
        ("sed -n 1,9p /usr/lib/python3/dist-packages/tool/a.py", "installed-version"),
        ("cat /eval.sh", "hidden-tests"),
        ("cat ../gold_patch.diff", "hidden-tests"),
        ("echo x > conftest.py", "runner"),
        ("sed -i s/a/b/ pkg/conftest.py", "runner"),
        ("rm tests/conftest.py", "runner"),
    ],
)
def test_calls_that_can_bring_the_answer_in_are_leads(command, kind):
    assert [lead.kind for lead in find_leads([turn(7, command)])] == [kind]


@pytest.mark.parametrize(
    "command",
    [
        "git status", "git diff", "git log --oneline -5", "git show --stat", "git stash pop", "git checkout -- a.py",
        "git checkout main", "git checkout -b fix", "git show HEAD", "git show HEAD:src/a.py > /tmp/a.py", "git diff ../a.py",
        "git commit -am 'pip install -U x'",
        "pip install -e .", "vim tests/test_patch.py", "cat conftest.py", "pytest > out.txt", "echo see https://x",
    ],
)  # fmt: skip
def test_everyday_calls_are_no_leads(command):
    assert find_leads([turn(1, command)]) == ()


def test_prose_is_no_lead_where_the_policy_makes_calls():
    assert find_leads([turn(1, "ls", reply="I must not use git log -p or curl https://x")]) == ()
    assert find_leads([Turn(1, "```\ngit log -p\n```", (), ("…",))]) != ()


@pytest.mark.parametrize(
    "word", ["git log ", "git ", ">", ">a", "curl ", "pip install ", "git -C ", "\n", ";", "a" * 50]
)
def test_a_megabyte_made_to_stall_a_scan_does_not(word):
    command = word * (1_000_000 // len(word))
    started = time.process_time()
    find_leads([turn(1, command)])
    assert time.process_time() - started < 5


def test_nothing_hides_behind_padding():
    assert find_leads([turn(1, "true;" * 100_000 + "git show abc1234")])[0].kind == "git-history"
    (lead,) = find_leads([turn(1, "git status;" * (MAX_COMMANDS + 1))])
    assert (lead.kind, lead.text) == ("unread", "more than 5000 commands")
    decoys = [turn(number, "curl https://x " + "z" * 3000) for number in range(200)]
    leads = find_leads([*decoys, turn(200, "git log -p")])
    assert (leads[200].turn, leads[200].kind) == (200, "git-history")
    assert max(len(lead.text) for lead in leads) <= 160


@pytest.mark.parametrize(
    "writes",
    ["git show abc1234 > /tmp/x.py", "git show abc1234 >/tmp/x.py", "curl https://x/y -o /tmp/x.py"],
)
def test_what_a_lead_writes_to_a_file_is_followed(writes):
    first, second = find_leads([turn(1, writes), turn(2, "ls"), turn(3, "sed -n 1,20p /tmp/x.py")])
    assert (second.turn, second.kind) == (3, first.kind)


def test_a_file_that_the_policy_writes_is_followed_no_more():
    turns = [turn(1, "git show abc1234:a.py > a.py"), turn(2, "sed -i s/x/y/ a.py"), turn(3, "cat a.py")]
    assert [lead.turn for lead in find_leads(turns)] == [1]
