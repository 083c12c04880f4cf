"""The error vocabulary: one class for each boundary that can break.

    GagarError            an expected failure, told in one line and a hint
    ├── UsageError        flags or configuration are wrong                       exit 2
    ├── InputError        a dump or a ranking holds bad data                     exit 3
    ├── OutputError       a result cannot be written, or is locked by a run      exit 1
    ├── EndpointError     the model's endpoint failed for good                   exit 1
    │   └── ContextOverflowError  the conversation is longer than the model's window  exit 1
    ├── SandboxError      a sandbox cannot be made or broke                      exit 1
    │   └── CheckoutError one candidate's patch cannot be laid out in it         exit 1
    ├── LimitError        a budget of turns, tokens or seconds is used up        exit 1
    │   └── WindowError   the model's window is too small for what must be in it  exit 1
    ├── VerdictError      a submission breaks the rules of the ranking           exit 1
    └── GateError         a condition given on the command line was not met      exit 4

Messages are lower case, without a full stop: what, where, the value, what was expected.
`VerdictError` and `LimitError` stay inside one group's grading: they make it ungraded and never end a run.
"""


class GagarError(Exception):
    """An expected failure: `message` says what broke and where, `hint` what mends it."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(GagarError):
    """Flags or configuration that cannot be carried out."""

    exit_code = 2


class InputError(GagarError):
    """Bad data in a dump or a ranking; the message starts with `file:line:`."""

    exit_code = 3


class OutputError(GagarError):
    """A result that cannot be written: it exists, the disk is full, another run holds it."""


class EndpointError(GagarError):
    """The endpoint failed in a way that asking again does not mend.

    `is_fatal` tells a refusal that every group would meet (key, model name) from one group's bad luck.
    """

    def __init__(self, message: str, hint: str | None = None, *, is_fatal: bool = False) -> None:
        super().__init__(message, hint)
        self.is_fatal = is_fatal


class ContextOverflowError(EndpointError):
    """A request that is longer than the model's window: a shorter one may pass."""


class SandboxError(GagarError):
    """A sandbox that cannot be opened, or broke beneath a command."""


class CheckoutError(SandboxError):
    """A patch that is refused or does not apply: that candidate's trouble, and no reason to doubt the sandbox.

    `is_for_git`: nothing is wrong with the patch, but there is no git to apply it.
    """

    def __init__(self, message: str, hint: str | None = None, *, is_for_git: bool = False) -> None:
        super().__init__(message, hint)
        self.is_for_git = is_for_git


class LimitError(GagarError):
    """A budget of one group's grading is used up."""


class WindowError(LimitError):
    """What may not be left out of a conversation is longer than the model's window."""


class VerdictError(GagarError):
    """A submitted ranking that is contradictory, incomplete or out of range."""


class GateError(GagarError):
    """A condition of the command line (`--max-ungraded`, `--check`) that the result does not meet."""

    exit_code = 4
