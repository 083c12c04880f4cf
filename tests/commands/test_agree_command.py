import json

import pytest


@pytest.fixture
def files(tmp_path):
    lines = {
        "model": [("g", "T1", "T2"), ("h", "T1", "T3")],
        "person": [("g", "T2", "T1"), ("h", "T1", "T3")],
        "elsewhere": [("x", "T1", "T2")],
    }
    paths = {}
    for name, groups in lines.items():
        paths[name] = tmp_path / f"{name}.jsonl"
        paths[name].write_text(
            "".join(
                json.dumps(
                    {
                        "group_id": group,
                        "candidates": [
                            {"trajectory_id": "a", "tier": first, "rank": 1},
                            {"trajectory_id": "b", "tier": second, "rank": 1},
                        ],
                    }
                )
                + "\n"
                for group, first, second in groups
            )
        )
    return paths


def test_rankings_of_people_and_models_are_compared(files, gagar):
    result = gagar("agree", files["model"], f"human={files['person']}")
    assert result.returncode == 0
    assert "model – human" in result.stdout
    assert "0.00 [-1.00, 1.00]" in result.stdout
    assert result.stdout.index("most disputed groups") < result.stdout.index("a T2/1")


def test_json_has_every_figure(files, gagar):
    result = gagar("agree", files["model"], files["person"], "--json")
    record = json.loads(result.stdout)
    assert record["n_groups_by_ranking"] == {"model": 2, "person": 2}
    assert record["pairs"][0]["tau_b"]["value"] == 0.0
    assert record["pairs"][0]["same_tier"]["value"] == 0.5
    assert record["pairs"][0]["confusion"]["T1"] == {"T1": 1, "T2": 1, "T3": 0, "violation": 0}
    assert [one["group_id"] for one in record["disputes"]] == ["g"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["model"], 2, "one ranking agrees with itself"),
        (["model", "model"], 2, "two inputs are called 'model'"),
        (["model", "elsewhere"], 3, "share no graded group (model has 2, elsewhere has 1 graded)"),
        (["model", "missing"], 3, "no such file"),
    ],
    ids=["one", "same name", "nothing shared", "missing"],
)
def test_what_cannot_be_compared_is_told(files, gagar, arguments, code, message):
    named = [str(files.get(name, files["model"].parent / "missing.jsonl")) for name in arguments]
    result = gagar("agree", *named)
    assert (result.returncode, message in result.stderr) == (code, True)


def test_a_rate_that_no_group_disputes_has_no_width_that_says_how_sure_it_is(files, gagar):
    again = files["model"].with_name("again.jsonl")
    again.write_text(files["model"].read_text())
    record = json.loads(gagar("agree", files["model"], again, "--json").stdout)
    assert record["pairs"][0]["tau_b"] == {
        "value": 1.0, "ci_low": 1.0, "ci_high": 1.0, "ci_kind": "constant", "n_groups": 2,
    }  # fmt: skip
    assert "1.00 (in every group)" in gagar("agree", files["model"], again).stdout
