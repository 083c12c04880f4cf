from gagar_cli.core.ranking import GroupRanking
from gagar_cli.core.schema import GroupKey


def ranking(**grader: object) -> GroupRanking:
    return GroupRanking(GroupKey(None, "g"), "graded", grader=grader)


def test_blind_ids_lead_to_trajectories_and_back():
    told = ranking(blind_ids={"c01": "task-2", "f01": 7})
    assert told.blind_ids == {"c01": "task-2", "f01": "7"}
    assert told.shown_as == {"task-2": "c01", "7": "f01"}


def test_a_ranking_of_another_tool_may_tell_none():
    assert ranking().blind_ids == {}
    assert ranking(blind_ids=["c01"]).shown_as == {}
