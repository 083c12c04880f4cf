"""A run over an endpoint that is not there, or refuses all that it is asked, says where to look."""

import json

from gagar_cli.io.rankings import latest_rankings, read_rankings

ATTEMPTS = {
    "good": "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-1\n+2\n",
    "other": "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-1\n+3\n",
    "failed": "",
}
LOOK = "is the server up? check `--base-url`; `gagar doctor --base-url …` tells more"


def grade(gagar, tmp_path, base_url, *flags, n_groups=1):
    records = [
        {
            "group_id": f"g{n}",
            "trajectory_id": f"{n}-{name}",
            "reward": float(name != "failed"),
            "model_patch": patch,
        }
        for n in range(n_groups)
        for name, patch in ATTEMPTS.items()
    ]
    dump = tmp_path / "dump.jsonl"
    dump.write_text("".join(json.dumps(record) + "\n" for record in records))
    output = str(tmp_path / "rankings.jsonl")
    asked = ("--model", "m", "--base-url", base_url, "--call-attempts", "1")
    return gagar("grade", str(dump), "-o", output, *asked, *flags)


def refuse(text):
    return 400, {"error": {"message": text}}


def statuses(tmp_path):
    rankings = latest_rankings(read_rankings(str(tmp_path / "rankings.jsonl"))).values()
    return [ranking.status for ranking in rankings]


def test_the_hint_is_to_look_at_the_server(gagar, tmp_path):
    done = grade(gagar, tmp_path, "http://127.0.0.1:9/v1")
    assert done.returncode == 1
    assert "connection failed" in done.stderr
    assert LOOK in " ".join(done.stderr.split())


def test_a_server_that_refuses_is_up(gagar, tmp_path, serve):
    done = grade(gagar, tmp_path, serve(*[(400, {"error": {"message": "no"}})] * 9).base_url)
    assert done.returncode == 1
    assert "is the server up" not in done.stderr


def test_a_run_that_every_group_is_refused_stops_and_owes_them(gagar, tmp_path, serve, serve_faults):
    endpoint = serve(*[refuse(f"top_k is not known (request {n}a7)") for n in range(12)])
    done = grade(gagar, tmp_path, endpoint.base_url, "--concurrency", "1", n_groups=12)
    told = " ".join(done.stderr.split())
    assert done.returncode == 1
    assert "refused 5 groups in a row in the same way and none was graded (status 400: " in told
    assert "top_k is not known (request 4a7)" in told
    assert "check `--model`, `--extra-body`" in told
    assert (len(endpoint.requests), statuses(tmp_path)) == (5, ["ungraded"] * 5)
    sound = serve_faults(n_each=0, seed=0)
    assert grade(gagar, tmp_path, sound.base_url, n_groups=12).returncode == 0
    assert statuses(tmp_path) == ["graded"] * 12


def test_groups_that_are_refused_for_different_reasons_are_all_asked(gagar, tmp_path, serve):
    words = ("apple", "pear", "plum")
    endpoint = serve(*[refuse(f"no {words[n % 3]}") for n in range(12)])
    done = grade(gagar, tmp_path, endpoint.base_url, "--concurrency", "1", n_groups=12)
    assert "no group was graded, 12 ungraded, most often: endpoint: " in " ".join(done.stderr.split())
    assert len(endpoint.requests) == 12


def test_groups_that_are_left_of_a_run_that_graded_some_are_all_asked(gagar, tmp_path, serve, serve_faults):
    """Resumed, they come first: those that an endpoint never takes must not keep it from the ones behind them."""
    assert grade(gagar, tmp_path, serve_faults(n_each=0, seed=0).base_url, n_groups=1).returncode == 0
    refusing = serve(*[refuse("no") for _ in range(9)])
    grade(gagar, tmp_path, refusing.base_url, "--concurrency", "1", n_groups=9)
    assert (len(refusing.requests), statuses(tmp_path)) == (8, ["graded", *["ungraded"] * 8])
