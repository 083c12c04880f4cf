"""A ledger holds rankings of one wording: what the model reads is part of the settings."""

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from gagar_cli.errors import UsageError
from gagar_cli.grade import GradeSettings, run
from gagar_cli.grader import wording
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.grader.prompts import prompt_version

DEMO = Path(str(files("gagar_cli").joinpath("demo_data/demo-rollouts.jsonl")))


@pytest.fixture
def reworded(monkeypatch):
    """Say something else from now on."""

    def change() -> None:
        monkeypatch.setattr(wording, "PROVE", "prove each of them")
        prompt_version.cache_clear()

    yield change
    prompt_version.cache_clear()


def test_a_run_does_not_go_on_under_another_wording(tmp_path, reworded):
    settings = GradeSettings(
        (str(DEMO),), str(tmp_path / "rankings.jsonl"), EndpointSettings("offline"), sandbox="inspect-only"
    )
    settings = replace(settings, max_groups=1)
    assert run(settings).n_graded == 1
    before = prompt_version()
    reworded()
    told = f'written with other settings: prompt_version was "{before}", is "{prompt_version()}"'
    with pytest.raises(UsageError, match=told):
        run(settings)
    assert run(replace(settings, overwrite=True)).n_graded == 1
    graders = [json.loads(line)["grader"] for line in Path(settings.output).read_text().splitlines()[1:]]
    assert {one["prompt_version"] for one in graders if one} == {prompt_version()}
