"""Questions to a docker engine and small services of it. Blocking, for threads.

The SDK's errors of an answer are OSErrors with a `status_code`; that is all that is used of them here.
"""

import contextlib
import shlex
import socket
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import SandboxError
from gagar_cli.sandbox.owner import LABEL_PREFIX, current_owner, is_orphaned
from gagar_cli.sandbox.versions import EngineFacts, read_engine_facts

ENGINE_SECONDS = 60
"""For one answer of the engine."""
MAX_COMMANDS = 64
"""That run side by side; each holds a thread and a connection."""
_EXIT_SECONDS = 3.0
"""For the engine to tell the exit code of a command that has closed its output."""
_GO_DIRECTORY = 1 << 31
"""The bit of Go's file modes, in which the engine speaks of files."""
_NOT_FOUND, _CONFLICT = 404, 409
_REMOVAL_SECONDS = 10
_EVENT_SECONDS = 0.05
"""For an event of the kernel to reach the engine."""


class Image(NamedTuple):
    """An image of this machine."""

    id: str
    volumes: tuple[str, ...]
    """Places that it declares as volumes."""
    has_search_path: bool = True
    """It says where its programs are."""


@contextlib.contextmanager
def mapped_errors(what: str, hint: str | None = None) -> Iterator[None]:
    """Errors of the engine, and of the way to it, as ours."""
    try:
        yield
    except OSError as error:
        why = shorten(escape_untrusted(" ".join(str(error).split()), keep_newlines=False), 300)
        raise SandboxError(f"{what}: {why}", hint) from error


@contextlib.contextmanager
def held_connection(wrapper: Any) -> Iterator[socket.socket]:
    """The socket in what the SDK hands out for a stream, closed at the end."""
    # It wraps the sockets of local engines in a file, and hangs the response on it, to be closed in this order.
    connection: socket.socket = getattr(wrapper, "_sock", wrapper)
    try:
        yield connection
    finally:
        connection.close()
        response = getattr(wrapper, "_response", None)
        if response is not None:
            response.close()


def engine_address() -> str:
    """Of the engine that the environment names, or of the local one."""
    import docker.constants

    named: str | None = docker.utils.kwargs_from_env().get("base_url")
    return named or str(docker.constants.DEFAULT_UNIX_SOCKET)


def connect() -> tuple[Any, EngineFacts]:
    """A client of the engine that the environment names, or of the local one, and what the engine says of itself.

    Raises:
        SandboxError: none answers.
    """
    import docker
    from docker.errors import DockerException

    hint = "start it, or point DOCKER_HOST at one; `--sandbox bubblewrap` needs none"
    try:
        with mapped_errors("no docker engine answers", hint):
            _try_socket(engine_address())
            client = docker.from_env(timeout=ENGINE_SECONDS, max_pool_size=MAX_COMMANDS).api
            return client, read_engine_facts(client.version(), client.info())
    except DockerException as error:
        raise SandboxError(f"no docker engine answers: {error}", hint) from error


def find_image(client: Any, name: str) -> Image:
    """The image of that name.

    Raises:
        SandboxError: it is not on this machine.
    """
    shown = shorten(escape_untrusted(name, keep_newlines=False), 200)
    with mapped_errors(f"the docker engine cannot look up image {shown}"):
        try:
            found = client.inspect_image(name)
        except OSError as error:
            if not is_gone(error):
                raise
            message = f"image {shown} is not on this machine"
            hint = f"fetch it first: `docker pull {shlex.quote(shown)}`, or let `--pull` do it"
            raise SandboxError(message, hint) from error
    config = found.get("Config") or {}
    has_search_path = any(entry.startswith("PATH=") for entry in config.get("Env") or ())
    return Image(found["Id"], tuple(config.get("Volumes") or {}), has_search_path)


def pull_image(client: Any, name: str) -> Image:
    """Fetch an image by its name, tag or digest, as the engine is set up to; what is there already is not fetched.

    Raises:
        SandboxError: the registry does not have it, or cannot be reached.
    """
    try:
        return find_image(client, name)
    except SandboxError:
        shown = shorten(escape_untrusted(name, keep_newlines=False), 200)
    with mapped_errors(f"image {shown} cannot be pulled"):
        # As a stream: the time limit is then for each word of the engine, not for the whole.
        for event in client.pull(name, stream=True, decode=True):
            if "error" in event:
                raise OSError(event["error"])
    return find_image(client, name)


def check_directory(client: Any, image: Image, path: str) -> None:
    """Look for a directory in an image; a container's files can be asked for before it has ever run.

    Raises:
        SandboxError: there is none.
    """
    with mapped_errors("the docker engine cannot look into the image"):
        config = {"Image": image.id, "Entrypoint": ["cat"], "Labels": current_owner().labels()}
        container = client.create_container_from_config(config)["Id"]
        try:
            content, status = client.get_archive(container, path)
            content.close()
        except OSError as error:
            if not is_gone(error):
                raise
            status = {"mode": 0}
        finally:
            remove_container(client, container)
    if not status["mode"] & _GO_DIRECTORY:
        raise SandboxError(f"there is no directory {path} in the image")


def is_running(client: Any, execution: str) -> bool:
    """Whether an exec has not ended; one whose container is gone has."""
    try:
        found = client.exec_inspect(execution)
        # A busy engine answers to the start of one that does not run yet: no exit code tells the two apart.
        return bool(found["Running"]) or found["ExitCode"] is None
    except OSError as error:
        if is_gone(error):
            return False
        raise


def read_exit_code(client: Any, execution: str) -> int | None:
    """The exit code of an exec that has closed its output; None where the container went with it."""
    deadline = time.monotonic() + _EXIT_SECONDS
    while is_running(client, execution) and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        code = client.exec_inspect(execution)["ExitCode"]
    except OSError as error:
        if is_gone(error):
            return None
        raise
    return None if code is None else int(code)


def was_out_of_memory(client: Any, container: str, *, is_likely: bool) -> bool:
    """Whether the kernel has ended a process of the container for memory, which may have ended the container too.

    Its state tells that of the first process only. The engine's clock is taken to agree with ours. Where it is likely,
    an event may still come.
    """
    until = f"{time.time() + (_EVENT_SECONDS if is_likely else 0):.3f}"
    events = client.events(since="1", until=until, filters={"container": container, "event": "oom"})
    return any(True for _ in events)


def remove_container(client: Any, container: str) -> None:
    """Kill and remove a container with its anonymous volumes; it may be gone already."""
    try:
        client.remove_container(container, force=True, v=True)
    except OSError as error:
        if not is_gone(error):
            raise
        # Its death sets off the engine's own removal, which until its end keeps what the container uses.
        with contextlib.suppress(OSError):
            client.wait(container, timeout=_REMOVAL_SECONDS, condition="removed")


@contextlib.contextmanager
def held_container(client: Any, config: dict[str, Any]) -> Iterator[str]:
    """A container whose first process waits on a stdin that we hold; it is removed behind, whatever happens."""
    container: str = client.create_container_from_config(config)["Id"]
    try:
        stdin = client.attach_socket(container, params={"stdin": 1, "stream": 1})
        with held_connection(stdin):
            client.start(container)
            yield container
    finally:
        remove_container(client, container)


@contextlib.contextmanager
def started_exec(
    client: Any, container: str, arguments: list[str], stdin: bytes
) -> Iterator[tuple[str, socket.socket]]:
    """A command in a container, with what it reads handed in: its exec, and the connection to it."""
    execution: str = client.exec_create(container, arguments, stdin=True)["Id"]
    with held_connection(client.exec_start(execution, socket=True)) as connection:
        # What does not want its input has said why, or says it yet.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(stdin)
        yield execution, connection


def reap_orphans(client: Any) -> list[str]:
    """Remove the containers and volumes of owners that are gone; what they were.

    What cannot be removed stays for the next time: another run may be reaping too.
    """
    filters = {"label": f"{LABEL_PREFIX}pid"}
    removed = []
    for container in client.containers(all=True, filters=filters):
        if is_orphaned(container["Labels"]):
            with contextlib.suppress(OSError):
                remove_container(client, container["Id"])
                removed.append(f"container {container['Id'][:12]}")
    for volume in client.volumes(filters=filters)["Volumes"] or []:
        if is_orphaned(volume["Labels"]):
            with contextlib.suppress(OSError):
                client.remove_volume(volume["Name"])
                removed.append(f"volume {volume['Name']}")
    return removed


def is_gone(error: OSError) -> bool:
    """Whether the engine has not what it was asked for, or no longer."""
    return getattr(error, "status_code", None) in (_NOT_FOUND, _CONFLICT)


def _try_socket(address: str) -> None:
    """Connect to a local engine once; the SDK leaves a socket behind that cannot connect."""
    path = address.partition("unix://")[2]
    if path:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(path)
