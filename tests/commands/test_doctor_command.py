import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from gagar_cli.doctor import BackendReport, Examination
from gagar_cli.sandbox.versions import runc_problem
from gagar_cli.tables import doctor_tables

IMAGE = "gagar-test:latest"


NO_ENGINE = {"DOCKER_HOST": "unix:///nonexistent.sock"}
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


@pytest.fixture
def doctor(gagar, monkeypatch):
    """Run `gagar doctor` in an environment of nothing but what is given."""

    def examine(*arguments: str, **variables: str):
        for name in list(os.environ):
            monkeypatch.delenv(name)
        for name, value in {**ENVIRONMENT, **variables}.items():
            monkeypatch.setenv(name, value)
        return gagar("doctor", *arguments)

    return examine


def test_versions_and_choices_are_told():
    command = [sys.executable, "-m", "gagar_cli", "doctor", "--json"]
    environment = {**ENVIRONMENT, **NO_ENGINE}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert {"gagar", "python", "kernel", "git"} <= set(found["versions"])
    docker, bubblewrap = found["backends"]
    assert (docker["name"], docker["state"]) == ("docker", "not available")
    assert "no docker engine answers" in docker["detail"]
    with_repos, with_images = found["auto"]
    assert with_repos["sandbox"] == ("bubblewrap" if bubblewrap["state"] == "works" else "inspect-only")
    assert with_images["sandbox"] == "inspect-only"


def test_the_tables_name_every_backend(doctor):
    done = doctor(**NO_ENGINE)
    assert done.returncode == 0
    for words in ("Versions", "docker", "bubblewrap", "Not held in full", "--sandbox auto takes"):
        assert words in done.stdout


@pytest.mark.docker
def test_an_engine_is_tried_with_the_image_that_is_named(doctor):
    found = json.loads(doctor("--json", "--sandbox-image", IMAGE).stdout)
    docker = found["backends"][0]
    if docker["state"] == "not available":
        pytest.skip(docker["detail"])
    assert docker["state"] == "works"
    assert docker["latency_seconds"] > 0
    is_sound = runc_problem(found["versions"]["runc"]) is None
    assert docker["n_held_by_design"] == (found["n_attacks"] if is_sound else None)
    assert (docker["in_doubt"] is None) == is_sound
    assert found["auto"][0]["sandbox"] == "docker"


def shown(*reports: BackendReport) -> str:
    console = Console(width=160)
    with console.capture() as capture:
        for table in doctor_tables(Examination({}, (), reports, ())):
            console.print(table)
    return capture.get()


def test_what_is_held_is_told_as_the_design_and_not_of_what_is_known_to_be_broken():
    whole = BackendReport("docker", "works", "x", 5.0, n_held_by_design=23, opens=())
    assert "23 of 23 attacks" in shown(whole)
    assert "no attack is tried here" in " ".join(shown(whole).split())
    broken = replace(whole, n_held_by_design=None, in_doubt="runc 1.1.5")
    assert "in doubt: runc 1.1.5" in shown(broken)
    assert "of 23" not in shown(broken)


def test_a_backend_that_cannot_be_had_holds_nothing(doctor):
    docker = json.loads(doctor("--json", **NO_ENGINE).stdout)["backends"][0]
    assert (docker["n_held_by_design"], docker["in_doubt"], docker["opens"]) == (None, None, [])


@pytest.mark.docker
def test_without_an_image_an_engine_only_answers(doctor):
    docker = json.loads(doctor("--json").stdout)["backends"][0]
    if docker["state"] == "not available":
        pytest.skip(docker["detail"])
    assert (docker["state"], docker["latency_seconds"]) == ("answers", None)


def test_an_endpoint_is_asked_where_a_model_is_named(doctor):
    done = doctor("--json", "--model", "offline", **NO_ENGINE)
    assert (done.returncode, done.stderr) == (0, "")
    endpoint = json.loads(done.stdout)["endpoint"]
    assert (endpoint["model"], endpoint["protocol"]) == ("offline", "tools")
    assert endpoint["checks"]["native tool calls"]["state"] == "yes"


def test_an_endpoint_that_is_not_there_is_an_error_behind_the_table(doctor):
    done = doctor("--model", "m", "--base-url", "http://127.0.0.1:9/v1", **NO_ENGINE)
    assert done.returncode == 1
    assert "protocol of grade" in done.stdout
    assert done.stderr.startswith("error: the endpoint cannot be used: ")
    assert "Traceback" not in done.stderr
