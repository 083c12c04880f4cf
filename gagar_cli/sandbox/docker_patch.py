"""How a candidate's patch gets into its container: applied by the image's git, or as files where the image has none.

Which of the two an image needs is found out by its first command, and remembered for all candidates of the run.
"""

import io
import tarfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from gagar_cli.errors import CheckoutError
from gagar_cli.sandbox.base import Checkout, Command
from gagar_cli.sandbox.docker_engine import Image, is_gone, mapped_errors, remove_container
from gagar_cli.sandbox.docker_options import launch_from_stdin
from gagar_cli.sandbox.edits import WRITE_FILES, Edits, plan_edits
from gagar_cli.sandbox.files import read_regular_file
from gagar_cli.sandbox.launcher import BASE, encode_patch
from gagar_cli.sandbox.owner import current_owner

MAX_PATCHED_BYTES = 16 * 1024 * 1024
"""Of one file: a text that is patched."""
_MAX_ARCHIVE_BYTES = MAX_PATCHED_BYTES + 64 * 1024


class PatchDelivery:
    """One candidate's patch on its way. Safe to use from several threads."""

    def __init__(
        self, client: Any, image: Image, checkout: Checkout, patch: str, *, place: str, without_git: set[str]
    ) -> None:
        """`place` is the checkout's; `without_git` the images of the run that are known to have none."""
        self._client = client
        self._image = image
        self._checkout = checkout
        self._patch = patch
        self._place = place
        self._without_git = without_git
        self._edits: Edits | None = None
        self._lock = threading.Lock()

    def prepare(self, command: Command, cwd: str) -> tuple[list[str], bytes]:
        """The argument list that makes the checkout and becomes the command, and what it reads from stdin.

        Raises:
            CheckoutError: `cwd` leaves the checkout; without git, the patch is refused or does not fit.
            SandboxError: the engine cannot look into the image.
        """
        patch = encode_patch(self._patch)
        if not patch or self._image.id not in self._without_git:
            source = BASE if self._checkout.is_copied else ""
            return launch_from_stdin(command, patch, self._place, cwd, source=source), patch
        with self._lock:
            if self._edits is None:
                self._edits = plan_edits(self._patch, self._read)
        edits = self._edits
        words = f"n_words={edits.n_words}\n{WRITE_FILES}"
        return launch_from_stdin(command, edits.content, self._place, cwd, words=words), edits.content

    def learn(self, error: CheckoutError) -> None:
        """Heed a complaint about the image's git.

        Raises:
            CheckoutError: it was something else.
        """
        if not error.is_for_git or self._image.id in self._without_git:
            raise error
        self._without_git.add(self._image.id)

    def _read(self, paths: Sequence[str]) -> Mapping[str, bytes | None]:
        if self._checkout.tree is None:
            found = _read_image(self._client, self._image, self._place, paths)
        else:
            tree = self._checkout.tree
            found = {path: read_regular_file(tree, path, MAX_PATCHED_BYTES + 1) for path in paths}
        for content in found.values():
            if content is not None and len(content) > MAX_PATCHED_BYTES:
                raise CheckoutError("a patched file is too large for a sandbox without git")
        return found


def _read_image(client: Any, image: Image, place: str, paths: Sequence[str]) -> dict[str, bytes | None]:
    """Files of an image; a container's files can be asked for before it has ever run."""
    with mapped_errors("the docker engine cannot look into the image"):
        config = {"Image": image.id, "Entrypoint": ["cat"], "Labels": current_owner().labels()}
        container = client.create_container_from_config(config)["Id"]
        try:
            return {path: _read_file(client, container, str(PurePosixPath(place, path))) for path in paths}
        finally:
            remove_container(client, container)


def _read_file(client: Any, container: str, path: str) -> bytes | None:
    """A regular file; the archive that the engine makes of it is the image's work, and read in memory."""
    try:
        stream, _ = client.get_archive(container, path)
    except OSError as error:
        if is_gone(error):
            return None
        raise
    packed = bytearray()
    for chunk in stream:
        packed += chunk
        if len(packed) > _MAX_ARCHIVE_BYTES:
            stream.close()
            raise CheckoutError("a patched file is too large for a sandbox without git")
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as archive:
            member = archive.next()
            content = archive.extractfile(member) if member is not None and member.isreg() else None
            return None if content is None else content.read()
    except tarfile.TarError:
        return None
