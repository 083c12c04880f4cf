"""Whatever members an archive has, in whatever order: nothing is written or linked outside of its directory."""

import io
import os
import tarfile
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.errors import InputError
from gagar_cli.sandbox.layout import lay_out

NAMES = st.lists(
    st.sampled_from(["a", "b", "d", "..", ".", "", ".git", ".GIT", "link", "outside", "a\\..", "x" * 260]),
    min_size=1,
    max_size=4,
).map("/".join)
KINDS = st.sampled_from(
    [
        tarfile.REGTYPE,
        tarfile.DIRTYPE,
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.FIFOTYPE,
        tarfile.CHRTYPE,
        tarfile.CONTTYPE,
    ]
)
MEMBERS = st.lists(
    st.tuples(NAMES, KINDS, NAMES | st.just("ABSOLUTE"), st.sampled_from([0o644, 0o4755, 0])), max_size=10
)


def snapshot(root: Path) -> dict[str, tuple[int, bytes | None]]:
    return {
        str(path): (
            path.lstat().st_mode,
            path.read_bytes() if not path.is_symlink() and path.is_file() else None,
        )
        for path in root.rglob("*")
    }


@given(members=MEMBERS, has_absolute_names=st.booleans())
def test_nothing_leaves_the_directory(members, has_absolute_names):
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        outside, private = root / "outside", root / "private"
        for place in (outside, private):
            place.mkdir()
        (outside / "kept").write_text("kept")
        source = private / "source.tar"
        with tarfile.open(source, "w") as archive:
            for name, kind, link, mode in members:
                entry = tarfile.TarInfo(f"{outside}/{name}" if has_absolute_names else name)
                entry.type, entry.mode = kind, mode
                entry.linkname = str(outside) if link == "ABSOLUTE" else link
                entry.size = 4 if kind == tarfile.REGTYPE else 0
                archive.addfile(entry, io.BytesIO(b"evil"))
        before = snapshot(outside)
        try:
            laid_out = lay_out(source, private / "target")
        except InputError:
            laid_out = None
        assert snapshot(outside) == before
        assert {path.name for path in root.iterdir()} == {"outside", "private"}
        assert {path.name for path in private.iterdir()} <= {"source.tar", "target"}
        for path in (private / "target").rglob("*"):
            assert ".git" not in path.name.lower()
            assert not path.lstat().st_mode & 0o7000
            # A link of an archive that was refused half-way is not made: links come last.
            assert path.is_symlink() or path.is_file() or path.is_dir()
            if path.is_symlink():
                assert laid_out is not None
                assert os.path.realpath(path).startswith(str(private / "target"))
