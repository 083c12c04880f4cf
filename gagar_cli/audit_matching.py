"""What to do where policies share no task: whether their prompts would match, found by reading the dumps once more."""

from contextlib import ExitStack
from dataclasses import replace

from gagar_cli.audit_plan import Source, match_tasks, open_dumps
from gagar_cli.core.text import counted
from gagar_cli.errors import GagarError
from gagar_cli.io.read_options import ReadOptions

_RULE = "tasks are matched by `instance_id`, else by the group key"


def matching_hint(source: Source, read: ReadOptions) -> str:
    """How the dumps could share tasks: with equal prompts, how many of them, by the flag that matches those."""
    is_read_once = any(path == "-" for _, paths in source.dumps for path in paths)
    if read.group_by == "prompt":
        return f"{_RULE}, here by equal prompts"
    if read.group_by is not None or is_read_once:
        return f"{_RULE}; `--group-by prompt` matches equal prompts"
    try:
        with ExitStack() as stack:
            by_prompt = replace(read, group_by="prompt")
            n_shared = len(match_tasks(source, open_dumps(source, by_prompt, stack)).shared)
    except GagarError:
        return f"{_RULE}; these dumps cannot be matched by prompt"  # one has no prompts
    if not n_shared:
        return f"{_RULE}; `--group-by prompt` finds no task in common either"
    return f"{counted(n_shared, 'task')} would be shared by equal prompts: add `--group-by prompt`"
