"""The native formats, in the order in which they are tried: the first one that takes a file has it."""

from gagar_cli.io.formats import (
    harbor,
    mini_swe_agent,
    nemo_gym,
    openhands,
    predictions,
    refused,
    rllm,
    skyrl,
    slime,
    swe_agent,
    tables,
    terminal_bench,
    trainers,
    verdicts,
    verifiers,
    verifiers_traces,
)
from gagar_cli.io.formats.base import Format
from gagar_cli.io.formats.files import Sample

FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        harbor.FORMAT,
        harbor.JOB,
        harbor.ATIF,
        terminal_bench.FORMAT,
        mini_swe_agent.FORMAT,
        swe_agent.FORMAT,
        predictions.FORMAT,
        rllm.FORMAT,
        verifiers.FORMAT,
        verifiers_traces.FORMAT,
        nemo_gym.FORMAT,
        nemo_gym.INPUTS,
        openhands.FORMAT,
        openhands.EVENTS,
        slime.FORMAT,
        skyrl.FORMAT,
        *trainers.FORMATS,
        *tables.FORMATS,
        *refused.FORMATS,
        verdicts.FORMAT,
    )
}


def recognise(sample: Sample, *, are_attempts: bool = False) -> tuple[Format, str] | None:
    """The format of a file and why; None for one that is canonical, or nothing that is known.

    `are_attempts`: it holds attempts, so that none is taken that says or holds something else.
    """
    for each in FORMATS.values():
        if are_attempts and each.role in ("verdicts", "refused"):
            continue
        if (why := each.detect(sample)) is not None:
            return each, why
    return None
