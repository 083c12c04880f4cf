"""A run over an endpoint that is not there says where to look."""

import json

RECORDS = [
    {"group_id": "g", "trajectory_id": name, "reward": float(name != "failed"), "model_patch": patch}
    for name, patch in (
        ("good", "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-1\n+2\n"),
        ("other", "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-1\n+3\n"),
        ("failed", ""),
    )
]
LOOK = "is the server up? check `--base-url`; `gagar doctor --base-url …` tells more"


def grade(gagar, tmp_path, base_url):
    dump = tmp_path / "dump.jsonl"
    dump.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    output = str(tmp_path / "rankings.jsonl")
    return gagar(
        "grade", str(dump), "-o", output, "--model", "m", "--base-url", base_url, "--call-attempts", "1"
    )


def test_the_hint_is_to_look_at_the_server(gagar, tmp_path):
    done = grade(gagar, tmp_path, "http://127.0.0.1:9/v1")
    assert done.returncode == 1
    assert "connection failed" in done.stderr
    assert LOOK in " ".join(done.stderr.split())


def test_a_server_that_refuses_is_up(gagar, tmp_path, serve):
    done = grade(gagar, tmp_path, serve(*[(400, {"error": {"message": "no"}})] * 9).base_url)
    assert done.returncode == 1
    assert "is the server up" not in done.stderr
