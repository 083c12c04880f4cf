"""Images are fetched where that was asked for, by name or digest, from a registry on this machine."""

import asyncio
import gzip
import hashlib
import http.server
import io
import json
import tarfile
import threading
from collections.abc import Iterator

import pytest

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox import docker

pytestmark = pytest.mark.docker

MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def layer() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("hello")
        member.size = 6
        archive.addfile(member, io.BytesIO(b"hello\n"))
    return buffer.getvalue()


class Registry(http.server.ThreadingHTTPServer):
    """Has one image, `tiny`, under every tag."""

    def __init__(self) -> None:
        content = layer()
        packed = gzip.compress(content, mtime=0)
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {},
                "rootfs": {"type": "layers", "diff_ids": [digest(content)]},
            }
        ).encode()
        self.manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST_TYPE,
                "config": _part("application/vnd.docker.container.image.v1+json", config),
                "layers": [_part("application/vnd.docker.image.rootfs.diff.tar.gzip", packed)],
            }
        ).encode()
        self.blobs = {digest(config): config, digest(packed): packed}
        self.n_manifests = 0
        super().__init__(("127.0.0.1", 0), _Handler)


def _part(media_type: str, content: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "size": len(content), "digest": digest(content)}


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Registry

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        content: bytes | None = b"{}"
        media_type = "application/json"
        if "/tiny/manifests/" in self.path:
            content, media_type = self.server.manifest, MANIFEST_TYPE
            self.server.n_manifests += 1
        elif "/blobs/" in self.path:
            content = self.server.blobs.get(self.path.rpartition("/")[2])
            media_type = "application/octet-stream"
        elif self.path != "/v2/":
            content = None
        self.send_response(200 if content is not None else 404)
        body = content if content is not None else b'{"errors": [{"code": "NAME_UNKNOWN"}]}'
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Content-Digest", digest(body))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@pytest.fixture
def registry(docker_backend) -> Iterator[Registry]:
    with Registry() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
    for image in docker_backend.client.images(f"127.0.0.1:{server.server_port}/tiny"):
        docker_backend.client.remove_image(image["Id"], force=True)


def open_with(image: str, *, pull: bool) -> docker.DockerBackend:
    backend = asyncio.run(docker.open_backend(image, pull=pull))
    backend.close()
    return backend


def test_nothing_is_fetched_unless_asked_for(registry):
    with pytest.raises(SandboxError, match="is not on this machine") as caught:
        open_with(f"127.0.0.1:{registry.server_port}/tiny:1", pull=False)
    assert "`--pull`" in (caught.value.hint or "")
    assert registry.n_manifests == 0


@pytest.mark.parametrize("by_digest", [False, True], ids=["tag", "digest"])
def test_an_image_is_fetched_once(registry, by_digest):
    name = f"127.0.0.1:{registry.server_port}/tiny"
    name += f"@{digest(registry.manifest)}" if by_digest else ":1"
    open_with(name, pull=True)
    n_manifests = registry.n_manifests
    assert n_manifests > 0
    open_with(name, pull=True)
    open_with(name, pull=False)
    assert registry.n_manifests == n_manifests


def test_an_image_that_the_registry_does_not_have_is_told(registry):
    with pytest.raises(SandboxError, match="cannot be pulled"):
        open_with(f"127.0.0.1:{registry.server_port}/other:1", pull=True)


def test_a_digest_that_is_not_what_came_is_refused(registry):
    wrong = digest(b"something else")
    with pytest.raises(SandboxError, match="cannot be pulled"):
        open_with(f"127.0.0.1:{registry.server_port}/tiny@{wrong}", pull=True)
