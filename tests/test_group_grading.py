"""Several graders in one process: what one of them closes is its own, and a kill leaves nothing of any."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gagar_cli.core.schema import Task
from gagar_cli.errors import SandboxError
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.group_grading import GroupGrader, GroupGraderSettings
from gagar_cli.sandbox import bubblewrap, docker
from gagar_cli.sandbox.bubblewrap_groups import group_places
from gagar_cli.sandbox.owner import current_owner, owned_name
from gagar_cli.sandbox.select import SandboxRequest

IMAGE = "gagar-test:latest"
OPENERS = {"docker": lambda: docker.open_backend(IMAGE), "bubblewrap": bubblewrap.open_backend}
QUICK = Task(instance_id="task", test_command="grep -q held a.py")
SLOW = Task(instance_id="task", test_command="sleep 2; grep -q held a.py")


@pytest.fixture(params=[pytest.param("docker", marks=pytest.mark.docker), "bubblewrap"])
def sandbox(request: pytest.FixtureRequest) -> str:
    """Every sandbox that works here."""
    try:
        backend = asyncio.run(OPENERS[request.param]())
    except SandboxError as error:
        is_required = request.param in os.environ.get("GAGAR_REQUIRE_SANDBOXES", "").split(",")
        (pytest.fail if is_required else pytest.skip)(f"{request.param} is not available: {error.message}")
    if isinstance(backend, docker.DockerBackend):
        backend.close()
    return request.param


@pytest.fixture
def repos() -> Iterator[Path]:
    """Where the sandboxes' user can read it."""
    with tempfile.TemporaryDirectory(prefix="gagar-test-") as folder:
        Path(folder).chmod(0o755)
        Path(folder, "task").mkdir()
        Path(folder, "task", "a.py").write_text("held\n")
        yield Path(folder)


def settings_for(sandbox: str, repos: Path) -> GroupGraderSettings:
    image = IMAGE if sandbox == "docker" else None
    return GroupGraderSettings(
        EndpointSettings("offline"), repos=str(repos), sandbox=SandboxRequest(sandbox, image)
    )


def left_by(mark: str) -> list[str]:
    """Directories and control groups that carry an owner's mark."""
    places = (Path(tempfile.gettempdir()), *group_places())
    return [str(found) for place in places for found in place.glob(f"{mark}*")]


def test_a_grader_that_closes_leaves_the_others_alone(sandbox, repos):
    """A command of the other one runs meanwhile, and it runs more of them afterwards."""
    settings, mark = settings_for(sandbox, repos), owned_name(current_owner(), "")
    before = left_by(mark)

    async def work() -> list[bool | None]:
        first = GroupGrader(settings)
        await first.__aenter__()
        async with GroupGrader(settings) as second:
            running = asyncio.create_task(second.passes_tests(SLOW, ""))
            await asyncio.sleep(1)
            n_before = len(left_by(mark))
            await first.__aexit__(None, None, None)
            assert len(left_by(mark)) == n_before - 1
            return [await running, await second.passes_tests(QUICK, "")]

    assert asyncio.run(work()) == [True, True]
    assert left_by(mark) == before


def test_graders_open_and_close_in_any_order(sandbox, repos):
    settings, mark = settings_for(sandbox, repos), owned_name(current_owner(), "")
    before = left_by(mark)

    async def work() -> list[bool | None]:
        graders = [GroupGrader(settings) for _ in range(3)]
        for grader in graders:
            await grader.__aenter__()
        passed = []
        for number in (1, 0, 2):
            passed += await asyncio.gather(*(each.passes_tests(QUICK, "") for each in graders if each))
            await graders[number].__aexit__(None, None, None)
            graders[number] = None
        return passed

    assert asyncio.run(work()) == [True] * 6
    assert left_by(mark) == before


def parent_of(process: Path) -> int | None:
    """None where it has ended meanwhile."""
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def test_a_grader_that_closes_leaves_no_file_and_no_process_behind(sandbox, repos):
    settings = settings_for(sandbox, repos)

    def count_held() -> tuple[int, int]:
        n_children = sum(parent_of(pid) == os.getpid() for pid in Path("/proc").glob("[0-9]*"))
        return len(list(Path("/proc/self/fd").iterdir())), n_children

    async def work() -> None:
        async with GroupGrader(settings) as grader:
            assert await grader.passes_tests(QUICK, "")

    asyncio.run(work())
    before = count_held()
    for _ in range(2):
        asyncio.run(work())
    assert count_held() == before


OWNER = """
import asyncio, json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_group_grading import *

async def work():
    settings = settings_for(sys.argv[1], Path(sys.argv[2]))
    async with GroupGrader(settings) as closed:
        first, second = GroupGrader(settings), GroupGrader(settings)
        await first.__aenter__()
        await second.__aenter__()
    running = [asyncio.create_task(each.passes_tests(SLOW, "")) for each in (first, second)]
    await asyncio.sleep(1)
    print(json.dumps(owned_name(current_owner(), "")), flush=True)
    await asyncio.sleep(60)

asyncio.run(work())
"""


def test_nothing_is_left_of_an_owner_of_several_that_is_killed(sandbox, repos):
    command = [sys.executable, "-c", OWNER, sandbox, str(repos), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        mark = json.loads(owner.stdout.readline())
        assert len(left_by(mark)) >= 2
        owner.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while left_by(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left_by(mark) == []
