import pytest

from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.records import (
    MISSING,
    Fields,
    checked_identifier,
    look_up,
    prompt_key,
    read_group_key,
    read_scalars,
)

PLAIN = Fields({})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a", {"b": [{"c": 5}], "t": '{"d": 7}'}),
        ("a.b.0.c", 5),
        ("a.t.d", 7),
        ("x.y", 9),
        ("a.b.1", MISSING),
        ("a.t.d.e", MISSING),
        ("nothing", MISSING),
    ],
)
def test_a_dotted_path_walks_objects_lists_and_json_text(path: str, value: object) -> None:
    assert look_up({"a": {"b": [{"c": 5}], "t": '{"d": 7}'}, "x.y": 9}, path) == value


def test_a_mapped_name_must_be_canonical() -> None:
    with pytest.raises(UsageError, match='--field maps "rewrad"'):
        Fields({"rewrad": "x"})


def test_other_names_of_resolved_and_infra_failure_are_found() -> None:
    scalars = read_scalars({"group_id": "g", "passed": True, "invalid": True}, PLAIN, "group_id")
    assert (scalars.resolved, scalars.infra_failure) == (True, True)


def test_the_canonical_name_goes_before_the_other_one() -> None:
    assert PLAIN.find({"passed": True, "resolved": False}, "resolved") is False


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"reward": "high"}, 'reward is "high", expected a number'),
        ({"reward": "true"}, 'reward is "true", expected a number'),
        ({"reward": 1, "advantage": True}, "advantage is true, expected a number"),
        ({"reward": float("inf")}, "reward is inf, expected a finite number"),
        ({"reward": 10**400}, "number out of range"),
        ({"reward": -1.5e100}, r"reward is -1\.5e\+100, expected a number from -1e\+100 to 1e\+100"),
        ({"resolved": 2}, "resolved is 2, expected true, false or null"),
        ({"resolved": 0.5}, r"resolved is 0\.5, expected true, false or null"),
        ({"resolved": "true"}, 'resolved is "true", expected'),
        ({"reward": 1, "infra_failure": -1}, "infra_failure is -1, expected"),
        ({"reward": 1, "step": 1.0}, r"step is 1\.0, expected an integer"),
        ({"reward": 1, "step": True}, "step is true, expected an integer"),
        ({"reward": 1, "step": 2**63}, "step is 9223372036854775808, number out of range"),
        ({"reward": 1, "n_turns": -1}, "n_turns is -1, number out of range"),
        ({"reward": 1, "advantage": "x"}, 'advantage is "x", expected a number'),
        ({"reward": 1, "trajectory_id": ""}, 'trajectory_id is "", expected a string that is not empty'),
        ({"reward": 1, "trajectory_id": "a\0"}, "expected text without NUL"),
        ({"reward": 1, "trajectory_id": "\ud800"}, "expected text without NUL and lone surrogates"),
        ({"reward": 1, "trajectory_id": ["a"]}, "trajectory_id is"),
        ({"reward": 1, "group_id": None}, "group_id is null"),
        ({"reward": 1, "group_id": ""}, "group_id is"),
        ({"reward": 1, "group_id": 1.5}, r"group_id is 1\.5"),
        ({}, "neither reward nor resolved"),
    ],
)
def test_a_wrong_scalar_is_refused_with_its_value(record: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_scalars({"group_id": "g", **record}, PLAIN, "group_id")


@pytest.mark.parametrize(("value", "reward"), [(True, 1.0), (False, 0.0)])
def test_a_boolean_reward_is_one_or_zero(value: bool, reward: float) -> None:
    found = read_scalars({"group_id": "g", "reward": value}, PLAIN, "group_id").reward
    assert (found, type(found)) == (reward, float)


def test_a_log_that_begins_with_the_reply_has_no_prompt_to_group_by() -> None:
    log = [{"role": "assistant", "content": "done"}]
    with pytest.raises(InputError, match="no message before the first reply"):
        prompt_key({"messages": log})
    assert prompt_key({"messages": [{"role": "user", "content": "q"}, *log]}) != prompt_key(
        {"problem_statement": "x"}
    )


def test_an_invalid_attempt_needs_no_reward() -> None:
    assert read_scalars({"group_id": "g", "infra_failure": True}, PLAIN, "group_id").reward is None


def test_an_integer_id_becomes_text() -> None:
    assert checked_identifier(17, "group_id") == "17"


def test_equal_prompts_share_a_group_key_and_others_do_not() -> None:
    keys = [
        read_group_key({"prompt": prompt}, PLAIN, "prompt")
        for prompt in ([{"role": "user", "content": "a"}], [{"content": "a", "role": "user"}], "x" * 999, "x")
    ]
    assert keys[0] == keys[1]
    assert len({*keys}) == 3
    assert len(keys[2]) == 16
    assert keys[3] == "x"


def test_one_advantage_a_token_is_left_alone() -> None:
    assert (
        read_scalars({"group_id": "g", "reward": 1, "advantage": [0.1]}, PLAIN, "group_id").advantage is None
    )
