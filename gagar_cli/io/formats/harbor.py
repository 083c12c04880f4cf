"""Harbor trials with their ATIF trajectories: `<job>/<trial>/{result.json, agent/trajectory.json, verifier/*}`.

A trial whose agent ran out of time or context keeps its reward and counts; one that the environment, the model's API
or the verifier broke has none, whatever `reward` stands there. Unknown exceptions keep a reward that exists.
A trajectory without a trial is an attempt without a verdict.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gagar_cli.core.messages_agents import atif_messages
from gagar_cli.errors import InputError
from gagar_cli.io.formats.base import Context, Format, Lift, Record, Row, known
from gagar_cli.io.formats.files import NativeFile, Sample
from gagar_cli.io.formats.parts import attempt_id, finished, row_of
from gagar_cli.io.formats.values import named_rewards, reward_of
from gagar_cli.io.streams import show_path

MAX_LOG_BYTES = 16 * 1024**2
_MAX_NAMED = 20
_TRUNCATED = {
    "AgentTimeoutError": "truncated_time",
    "ContextWindowExceededError": "truncated_context",
    "ContextLengthExceededError": "truncated_context",
    "OutputTokenExceededError": "truncated_context",
    "OutputLengthExceededError": "truncated_context",
}
_INVALID_WORDS = (
    "Verifier", "RewardFile", "Environment", "Api", "RateLimit", "ServiceUnavailable", "InternalServer", "Connection",
    "Authentication", "Docker", "Sandbox", "Cancelled", "AgentSetup", "Download", "Healthcheck", "HealthCheck", "API",
    "SSHAccess", "GKE", "RuntimeRequest", "AddTestsDir", "MemoryLimit", "Unsupported", "BadRequest", "Unprocessable",
    "BudgetExceeded", "NotFound", "PermissionDenied", "VercelScope", "DspyImport", "MissingExtra", "Regrade",
)  # fmt: skip
"""In names of exceptions that leave no valid reward, for trials which do not say it themselves."""


def detect(sample: Sample) -> str | None:
    """A document of one trial."""
    if sample.container in ("document", "lines") and {"trial_name", "task_checksum"} <= sample.keys:
        return "trial_name and task_checksum: a trial of Harbor"
    return None


def detect_job(sample: Sample) -> str | None:
    """A document of a whole job, which only counts."""
    if sample.container in ("document", "lines") and {"n_total_trials", "stats"} <= sample.keys:
        return "n_total_trials and stats: a job of Harbor"
    return None


def detect_atif(sample: Sample) -> str | None:
    """A document in the trajectory interchange format."""
    if sample.container not in ("document", "lines") or not isinstance(sample.first, Mapping):
        return None
    version = sample.first.get("schema_version")
    return (
        f'schema_version is "{version}"' if isinstance(version, str) and version.startswith("ATIF-") else None
    )


def read(file: NativeFile, context: Context) -> Iterator[Row]:
    """The one trial of a file, with what lies beside it."""
    document = file.document()
    if not isinstance(document, Mapping) or not isinstance(document.get("task_name"), str):
        yield Row(1, InputError(f"{file.name}:1: task_name is missing, expected a trial of Harbor"))
        return
    folder = Path(file.path).parent
    trajectory: Any = None
    try:
        trajectory = _json_beside(folder / "agent" / "trajectory.json", folder)
    except InputError as error:
        context.notes.append(f"{error.message}: read without its messages")
    yield row_of(1, file, lambda: _trial(document, trajectory, folder, context))


def read_atif(file: NativeFile, context: Context) -> Iterator[Row]:
    """The trajectory of a file, or one a line where several were collected."""
    for number, document in file.values():
        if isinstance(document, InputError):
            yield Row(number, document)
        elif isinstance(document, Mapping):
            yield Row(number, _alone(document, file, context))
        else:
            yield Row(number, InputError(f"{file.name}:{number}: no object, expected an ATIF trajectory"))


def _alone(document: Mapping[str, Any], file: NativeFile, context: Context) -> Record:
    """A trajectory without a trial."""
    lift = Lift(document)
    name = file.own_name.removesuffix(".json").removesuffix(".trajectory")
    session = lift.text("session_id")
    instance_id = session or name
    record: Record = {
        "group_id": instance_id,
        "group_id_source": "field:session_id" if session else "file_name",
        "instance_id": instance_id,
        "trajectory_id": lift.text("trajectory_id") or attempt_id(context, name),
        "resolved": None,
        **_logged(lift),
        "source_format": str(lift.peek("schema_version")),
    }
    return finished(record, lift, context)


def _logged(lift: Lift) -> Record:
    """What an ATIF trajectory says."""
    steps = lift.take("steps")
    steps = steps if isinstance(steps, list) else []
    replies = sum(isinstance(step, Mapping) and step.get("source") == "agent" for step in steps)
    return {
        "messages": atif_messages(steps),
        **known(
            agent_name=lift.text("agent.name"),
            agent_version=lift.text("agent.version"),
            model_name_or_path=lift.text("agent.model_name"),
            n_turns=replies,
            n_input_tokens=lift.integer("final_metrics.total_prompt_tokens"),
            n_output_tokens=lift.integer("final_metrics.total_completion_tokens"),
            cost_usd=lift.number("final_metrics.total_cost_usd"),
        ),
    }


def _trial(document: Mapping[str, Any], trajectory: Any, folder: Path, context: Context) -> Record:
    lift = Lift(document)
    task = str(lift.take("task_name"))
    checksum = lift.text("task_checksum")
    logged = _logged(Lift(trajectory)) if isinstance(trajectory, Mapping) else {}
    rewards = lift.peek("verifier_result.rewards")
    parts = _parts(rewards, lift.peek("verifier_result.reward"))
    exceptions = list(_exceptions(document))
    broken = next((name for name, is_invalid in exceptions if is_invalid), None)
    exception = broken or (exceptions[0][0] if exceptions else None)
    reward = next(iter(parts.values())) if len(parts) == 1 else parts.get("reward")
    if parts and reward is None:
        context.notes.append(
            f"{show_path(folder)}: not evaluated: rewards {', '.join(map(show_path, list(parts)[:_MAX_NAMED]))}, and none is `reward`"
        )
    is_valid = reward is not None and lift.peek("reward_valid") is not False and broken is None
    record: Record = {
        "group_id": task if checksum is None else f"{task}@{checksum[:12]}",
        "group_id_source": "field:task_name+task_checksum",
        "instance_id": task,
        "trajectory_id": lift.text("trial_name") or attempt_id(context, task),
        "reward": reward,
        "resolved": reward >= 1.0 if is_valid and reward is not None else None,
        **logged,
        **known(
            rewards=parts or None,
            agent_name=lift.text("agent_info.name"),
            agent_version=lift.text("agent_info.version"),
            model_name_or_path=lift.text("agent_info.model_info.name"),
            n_input_tokens=lift.integer("agent_result.n_input_tokens"),
            n_output_tokens=lift.integer("agent_result.n_output_tokens"),
            cost_usd=lift.number("agent_result.cost_usd"),
            exit_status=exception,
            test_output=text_beside(folder / "verifier" / "test-stdout.txt", folder),
            tests_status=text_beside(folder / "verifier" / "ctrf.json", folder),
        ),
        **_ending(exception, is_valid=is_valid, is_broken=broken is not None),
        "source_format": "harbor",
    }
    return finished(record, lift, context)


def _exceptions(document: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """The exceptions of a trial and of its steps, each with whether it leaves no valid reward."""
    steps = document.get("step_results")
    for holder in (document, *(steps if isinstance(steps, list) else ())):
        found = holder.get("exception_info") if isinstance(holder, Mapping) else None
        name = found.get("exception_type") if isinstance(found, Mapping) else None
        if isinstance(found, Mapping) and isinstance(name, str):
            keeps = Lift(found).peek("policy.has_valid_reward")
            yield name, not keeps if isinstance(keeps, bool) else _is_invalid(name)


def _ending(exception: str | None, *, is_valid: bool, is_broken: bool) -> Record:
    ending: Record = {"termination": "completed", "is_truncated": False}
    if exception in _TRUNCATED:
        ending = {"termination": _TRUNCATED[exception], "is_truncated": True}
    elif exception:
        ending = {"termination": "agent_error", "is_truncated": False}
    if is_valid:
        return {**ending, "infra_failure": False}
    if is_broken:
        return {**ending, "termination": "aborted", "infra_failure": True, "infra_failure_reason": exception}
    return ending


def _is_invalid(exception: str) -> bool:
    is_named = exception == "Timeout" or any(word in exception for word in _INVALID_WORDS)
    return exception not in _TRUNCATED and is_named


def _parts(rewards: Any, alone: Any) -> dict[str, float]:
    """The rewards by name; `alone` is the only one, as the first versions have it.

    Raises:
        InputError: there are some, and none is a number.
    """
    if not isinstance(rewards, Mapping):
        number = reward_of(alone if rewards is None else rewards, "verifier_result.reward")
        return {} if number is None else {"reward": number}
    numbers = named_rewards(rewards)
    if not numbers and any(value is not None for value in rewards.values()):
        reward_of(rewards, "verifier_result.rewards")
    return numbers


def text_beside(path: Path, folder: Path | None = None) -> str | None:
    """The text of a log beside a record, its middle left out where it is huge; None where there is none.

    With a `folder`, a log that a link brings from outside of its run is none: what a dump points at may be any file of
    this machine, and goes to the judge.
    """
    try:
        if not path.is_file() or not _is_inside(path, folder):
            return None
        with path.open("rb") as stream:
            text = stream.read(MAX_LOG_BYTES + 1)
    except OSError:
        return None
    if len(text) > MAX_LOG_BYTES:
        text = text[: MAX_LOG_BYTES // 2] + b"\n[cut here]\n"
    return text.decode("utf-8", "replace")


def _is_inside(path: Path, folder: Path | None) -> bool:
    """Whether a path ends in the folder above that of an attempt; runs may share logs."""
    return folder is None or path.resolve().is_relative_to(folder.resolve().parent)


def _json_beside(path: Path, folder: Path) -> Any:
    if not path.is_file() or not _is_inside(path, folder):
        return None
    file = NativeFile(str(path))
    try:
        return file.document()
    finally:
        file.close()


FORMAT = Format(
    name="harbor",
    title="Harbor jobs and trials",
    container="<job>/<trial>/result.json, agent/trajectory.json (ATIF), verifier/test-stdout.txt",
    detect=detect,
    read=read,
    is_one_attempt=True,
    is_connected=True,
    needs_join="patches (predictions), unless the log is enough",
    mapping={
        "group_id": "task_name and task_checksum",
        "trajectory_id": "trial_name",
        "reward, rewards": "verifier_result.rewards: `reward`, or the only one",
        "resolved": "that reward at least 1, where it is valid",
        "infra_failure": "exception_info.policy, else exceptions of the environment, the API or the verifier; "
        "never AgentTimeoutError",
        "is_truncated": "AgentTimeoutError, exceptions of the context's or output's length",
        "messages": "agent/trajectory.json",
        "test_output": "verifier/test-stdout.txt",
    },
)
JOB = Format(
    name="harbor-job",
    title="Harbor job",
    container="<job>/result.json",
    detect=detect_job,
    read=None,
    role="refused",
    needs_join="nothing: it only counts, the trials are in the folders beside it",
    mapping={},
)
ATIF = Format(
    name="atif",
    title="ATIF trajectories without a trial",
    container="*.trajectory.json, one attempt a file",
    detect=detect_atif,
    read=read_atif,
    is_one_attempt=True,
    needs_join="verdicts and patches",
    mapping={
        "group_id, instance_id": "session_id, else the file's name",
        "messages": "steps; copied context is left out",
        "n_turns": "steps of the agent",
        "n_output_tokens, cost_usd": "final_metrics",
    },
)
