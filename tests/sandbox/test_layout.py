import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest

from gagar_cli.errors import InputError
from gagar_cli.sandbox import layout
from gagar_cli.sandbox.layout import is_inward_link, lay_out


def member(
    name: str, content: bytes = b"x", *, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644
):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.mode = kind, link, mode
    entry.size = len(content) if kind == tarfile.REGTYPE else 0
    return entry, io.BytesIO(content)


def symlink(name: str, link: str):
    return member(name, kind=tarfile.SYMTYPE, link=link)


def archive(path: Path, *members, mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as tar:
        for entry, content in members:
            tar.addfile(entry, content)
    return path


@pytest.fixture
def unpack(tmp_path):
    """Lays an archive of these members out; its directory and files."""

    def unpack_members(*members):
        source = archive(tmp_path / "source.tar.gz", member("README"), *members)
        return lay_out(source, tmp_path / "target")

    return unpack_members


def everything_below(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(member("../out"), id="climbs"),
        pytest.param(member("a/../../out"), id="climbs from within"),
        pytest.param(member("/tmp/gagar-out"), id="absolute"),
        pytest.param(member("README/below"), id="below a file"),
        pytest.param(member("x" * 300), id="name too long"),
        pytest.param(member("..", kind=tarfile.DIRTYPE), id="directory that climbs"),
        pytest.param(symlink("../out", "README"), id="link that is outside"),
    ],
)
def test_a_member_that_cannot_belong_to_a_repository_is_named(unpack, tmp_path, hostile):
    with pytest.raises(InputError, match=r"^source\.tar\.gz: member "):
        unpack(hostile)
    assert not (tmp_path / "out").exists()
    assert not Path("/tmp/gagar-out").exists()


@pytest.mark.parametrize(
    "left_out",
    [
        pytest.param(member(".git/config"), id="git directory"),
        pytest.param(member("vendored/.git/hooks/post-checkout"), id="git directory below"),
        pytest.param(member(".GIT/config"), id="git directory in capitals"),
        pytest.param(member("sub/.git"), id="git file"),
        pytest.param(symlink("out", "/etc/passwd"), id="absolute link"),
        pytest.param(symlink("out", ".."), id="link to the parent"),
        pytest.param(symlink("d/out", "../../x"), id="link past the root"),
        pytest.param(symlink("out", "d/../.."), id="link that climbs late"),
        pytest.param(symlink("out", ".git/config"), id="link into a git directory"),
        pytest.param(member("out", kind=tarfile.LNKTYPE, link="/etc/passwd"), id="hard link outside"),
        pytest.param(member("out", kind=tarfile.LNKTYPE, link="later"), id="hard link to nothing"),
        pytest.param(member("out", kind=tarfile.CHRTYPE), id="character device"),
        pytest.param(member("out", kind=tarfile.BLKTYPE), id="block device"),
        pytest.param(member("out", kind=tarfile.FIFOTYPE), id="fifo"),
    ],
)
def test_what_has_no_place_in_a_checkout_is_left_out(unpack, left_out):
    laid_out = unpack(left_out)
    assert laid_out.files == ("README",)
    assert everything_below(laid_out.root) - {"vendored", "sub"} == {"README"}


def test_a_link_is_never_written_through(unpack, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    laid_out = unpack(symlink("d", str(outside)), member("d/file"))
    assert laid_out.files == ("README", "d/file")
    assert list(outside.iterdir()) == []


def test_a_link_below_a_link_is_left_out(unpack):
    """Where the first leads to a shallower place, the climbs of the second would start there."""
    laid_out = unpack(member("b/file"), symlink("x/y/a", "../../b"), symlink("x/y/a/c", "../../../README"))
    assert (laid_out.root / "x/y/a").is_symlink()
    assert everything_below(laid_out.root / "b") == {"file"}


def test_inward_links_stay_links(unpack):
    laid_out = unpack(member("docs/a.md", b"a"), symlink("docs/b.md", "a.md"), symlink("docs/r", "../README"))
    assert (laid_out.root / "docs/b.md").readlink() == Path("a.md")
    assert (laid_out.root / "docs/r").read_bytes() == b"x"
    assert laid_out.files == ("README", "docs/a.md")


def test_hard_links_become_files_of_their_own(unpack):
    laid_out = unpack(member("a", b"content"), member("b", kind=tarfile.LNKTYPE, link="a"))
    assert (laid_out.root / "b").read_bytes() == b"content"
    assert (laid_out.root / "b").stat().st_nlink == 1


def test_modes_are_masked(unpack):
    laid_out = unpack(member("run", mode=0o4777), member("data", mode=0o666))
    assert oct((laid_out.root / "run").stat().st_mode) == oct(0o100755)
    assert oct((laid_out.root / "data").stat().st_mode) == oct(0o100644)


def test_the_directory_that_wraps_an_archive_is_taken_off(tmp_path):
    source = archive(tmp_path / "s.tar", member("name-1.0/a"), member("name-1.0/d/b"), mode="w")
    laid_out = lay_out(source, tmp_path / "target")
    assert laid_out.files == ("a", "d/b")
    assert (laid_out.root / "d/b").is_file()


def test_a_link_out_of_the_wrapping_directory_is_left_out(tmp_path):
    source = archive(tmp_path / "s.tar", member("wrap/a"), symlink("wrap/out", "../x"), mode="w")
    assert everything_below(lay_out(source, tmp_path / "target").root) == {"a"}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_plain_and_compressed_archives_are_read(tmp_path, mode):
    source = archive(tmp_path / "s", member("a"), member("b"), mode=mode)
    assert lay_out(source, tmp_path / "target").files == ("a", "b")


@pytest.mark.parametrize(
    "content",
    [
        b"no archive at all" * 100,
        gzip.compress(b"no archive" * 100),
        gzip.compress(b"x" * 9000)[:40],
        b"\x1f\x8b\x08",
    ],
    ids=["no archive", "no archive inside", "cut short", "header only"],
)
def test_a_broken_archive_is_bad_input(tmp_path, content):
    source = tmp_path / "s.tar.gz"
    source.write_bytes(content)
    with pytest.raises(InputError, match=r"^s\.tar\.gz: "):
        lay_out(source, tmp_path / "target")


def test_an_archive_cut_short_is_bad_input(tmp_path):
    source = archive(tmp_path / "s.tar.gz", member("a", os.urandom(50_000)), member("b", os.urandom(50_000)))
    source.write_bytes(source.read_bytes()[:60_000])
    with pytest.raises(InputError):
        lay_out(source, tmp_path / "target")


def test_a_member_larger_than_allowed_is_refused_before_it_is_read(unpack, monkeypatch):
    monkeypatch.setattr(layout, "MAX_TOTAL_BYTES", 1000)
    with pytest.raises(InputError, match="takes the repository over"):
        unpack(member("zeros", bytes(2000)))


def test_too_many_members_are_refused(unpack, monkeypatch):
    monkeypatch.setattr(layout, "MAX_ENTRIES", 5)
    with pytest.raises(InputError, match="more than 5 entries"):
        unpack(*(member(str(n)) for n in range(6)))


def test_a_header_made_to_fill_the_memory_is_refused(unpack):
    bomb = member("x")
    bomb[0].pax_headers = {"comment": "x" * 4_000_000}
    with pytest.raises(InputError, match="longer than"):
        unpack(bomb)


def test_a_directory_is_laid_out_under_the_same_rules(tmp_path):
    source = tmp_path / "source"
    (source / ".git").mkdir(parents=True)
    (source / ".git/config").write_text("[core]")
    (source / "sub/.git").mkdir(parents=True)
    (source / "sub/a.py").write_text("a")
    (source / "out").symlink_to("/etc/passwd")
    (source / "in").symlink_to("sub/a.py")
    os.mkfifo(source / "fifo")
    laid_out = lay_out(source, tmp_path / "target")
    assert laid_out.files == ("sub/a.py",)
    assert everything_below(laid_out.root) == {"sub", "sub/a.py", "in"}


@pytest.mark.parametrize(
    ("name", "target", "is_inward"),
    [
        ("a", "b", True),
        ("a/b", "../c", True),
        ("a/b/c", "../../d/e", True),
        ("a", "", False),
        ("a", "../b", False),
        ("a/b", "../../c", False),
        ("a", "b/../c", False),
        ("a", "/b", False),
        ("a", "x/.git/config", False),
    ],
)
def test_inward_links(name, target, is_inward):
    assert is_inward_link(name, target) is is_inward
