"""Files that are no dump: each is named for what it is, once, with what helps; through every command that reads a dump."""

import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path

import polars as pl
import pytest
import zstandard

from gagar_cli.errors import InputError
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.foreign import open_dump_file

ROW = '{"group_id":"g","trajectory_id":"t","reward":1.0}\n'
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
PAGE = b"\n<!DOCTYPE html>\n<html><head><title>Sign in</title></head>\n</html>\n"


def zipped(name: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, ROW)
    return stream.getvalue()


def tarred() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        entry = tarfile.TarInfo("dump.jsonl")
        entry.size = len(ROW)
        archive.addfile(entry, io.BytesIO(ROW.encode()))
    return stream.getvalue()


def parquet() -> bytes:
    stream = io.BytesIO()
    pl.DataFrame({"group_id": ["g"], "trajectory_id": ["t"], "reward": [1.0]}).write_parquet(stream)
    return stream.getvalue()


LONG = "".join(ROW.replace('"t"', f'"t{number * 7919}"') for number in range(3000)).encode()
CUT = len(gzip.compress(LONG)) // 2, len(zstandard.compress(LONG)) // 2


@pytest.mark.parametrize(
    ("name", "content", "what", "hint"),
    [
        ("d.jsonl", LFS, "d.jsonl: a pointer of Git LFS in the place of the file", "git lfs pull"),
        ("d.parquet", LFS, "d.parquet: a pointer of Git LFS", "git lfs pull"),
        ("d.jsonl.gz", LFS, "d.jsonl.gz: damaged gzip stream", "a pointer of Git LFS in the place of the file: `git lfs"),
        ("d.jsonl", PAGE, r"d.jsonl: a web page \(HTML\), expected JSON lines or Parquet", "download the file again"),
        ("d.parquet", PAGE, r"d.parquet: a web page \(HTML\)", "download the file again"),
        ("d.jsonl", gzip.compress(PAGE), r"d.jsonl: a web page \(HTML\)", "download the file again"),
        ("d.jsonl", b'<?xml version="1.0"?><Error/>', "d.jsonl: an XML document", "download the file again"),
        ("d.zip", zipped("d.jsonl"), "d.zip: a zip archive", "unpack it"),
        ("d.jsonl", zipped("d.jsonl"), "d.jsonl: a zip archive", "unpack it"),
        ("d.tar", tarred(), "d.tar: a tar archive", "unpack it"),
        ("d.tar.gz", gzip.compress(tarred()), "d.tar.gz: a tar archive", "unpack it"),
        ("d.jsonl.xz", b"\xfd7zXZ\x00\x00\x04", "compressed with xz", "those of gzip and zstd are read"),
        ("d.jsonl.bz2", b"BZh91AY&SY", "compressed with bzip2", "those of gzip and zstd are read"),
        ("d.arrow", b"ARROW1\x00\x00" + bytes(40), "an Arrow file", "write it as Parquet"),
        ("d.db", b"SQLite format 3\x00" + bytes(90), "a database of SQLite", "export its rows"),
        ("d.jsonl", ROW.encode("utf-16"), r"d.jsonl:1: not UTF-8 \(looks like UTF-16\)$", "iconv -f UTF-16 -t UTF-8"),
        ("d.jsonl", ROW.encode("utf-16-le"), r"looks like UTF-16LE", "iconv -f UTF-16LE"),
        ("d.jsonl", ROW.encode("utf-16-be"), r"looks like UTF-16BE", "iconv -f UTF-16BE"),
        ("d.jsonl", ROW.encode("utf-32"), r"looks like UTF-32\)", "iconv -f UTF-32"),
        ("d.jsonl.gz", gzip.compress(LONG)[: CUT[0]], "truncated gzip stream", r"zcat FILE \| gagar"),
        ("d.jsonl.zst", zstandard.compress(LONG)[: CUT[1]], "truncated zstd stream", r"zstdcat FILE \| gagar"),
        ("d.jsonl.gz", ROW.encode(), "damaged gzip stream", "not compressed: name it without .gz"),
        ("d.jsonl.gz", b"\x1f\x8b" + bytes(40), "damaged gzip stream", "copy it again"),
        ("d.parquet", ROW.encode(), "cannot be read as Parquet: it does not begin", "such as .jsonl"),
        ("d.parquet", b"", "cannot be read as Parquet: it is empty", None),
        ("d.parquet", parquet()[:-9], "cannot be read as Parquet: it is cut", "copy the file again"),
        ("d.jsonl", b"", "d.jsonl: no records", "nothing is written there yet"),
        ("d.jsonl", b"\n \n", "d.jsonl: no records", "nothing is written there yet"),
    ],
)  # fmt: skip
def test_what_is_no_dump_is_named_once_with_what_helps(
    tmp_path: Path, name: str, content: bytes, what: str, hint: str | None
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=what) as caught:
        open_dump([str(path)], ReadOptions())
    assert "\n" not in caught.value.message
    if hint is None:
        assert caught.value.hint is None
    else:
        with pytest.raises(AssertionError, match=hint):
            raise AssertionError(caught.value.hint)


def test_parquet_with_columns_and_no_rows_has_no_records(tmp_path: Path) -> None:
    pl.DataFrame(schema={"group_id": pl.String, "reward": pl.Float64}).write_parquet(tmp_path / "d.parquet")
    with pytest.raises(InputError, match=r"d\.parquet: no records"):
        open_dump([str(tmp_path / "d.parquet")], ReadOptions())


def hint_of(path: Path) -> str | None:
    with pytest.raises(InputError) as caught:
        open_dump([str(path)], ReadOptions())
    assert caught.value.message.startswith(str(path))
    return caught.value.hint


def test_a_path_that_is_not_there_is_told_with_what_is(tmp_path: Path) -> None:
    assert hint_of(tmp_path / "a" / "d.jsonl") == f"there is no folder {tmp_path / 'a'}"
    assert hint_of(tmp_path / "d.jsonl") is None
    (tmp_path / "e.jsonl").write_text(ROW)
    (tmp_path / "f.txt").write_text(ROW)
    assert hint_of(tmp_path / "d.jsonl") == "in that folder are e.jsonl"


def test_links_to_nowhere_and_in_a_circle_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").symlink_to("nowhere.jsonl")
    (tmp_path / "b.jsonl").symlink_to("c.jsonl")
    (tmp_path / "c.jsonl").symlink_to("b.jsonl")
    assert hint_of(tmp_path / "a.jsonl") == "it is a symbolic link to nowhere.jsonl, which is not there"
    assert hint_of(tmp_path / "b.jsonl") == "its symbolic links lead in a circle"


def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "d.jsonl")
    assert hint_of(tmp_path / "d.jsonl") == "pipe it in and name it `-`"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_file_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text(ROW)
    (tmp_path / "d.jsonl").chmod(0)
    assert "another user owns it" in (hint_of(tmp_path / "d.jsonl") or "")


def test_a_folder_without_a_dump_is_told_with_what_it_holds(tmp_path: Path) -> None:
    assert hint_of(tmp_path) == "the folder is empty"
    for name in ("a.zip", "b.txt", "c.csv", "d.md"):
        (tmp_path / name).touch()
    assert (hint_of(tmp_path) or "").startswith("in it are a.zip, b.txt, c.csv, …; files of a native format")


def test_an_empty_path_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.jsonl").write_text(ROW)
    with pytest.raises(InputError, match="an empty text"):
        open_dump([""], ReadOptions())


@pytest.mark.parametrize("content", [LFS, PAGE, zipped("a.json")], ids=["pointer", "page", "zip"])
def test_what_is_joined_may_be_foreign_too(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "d.jsonl").write_text(ROW)
    (tmp_path / "report.json").write_bytes(content)
    with pytest.raises(InputError, match=r"report\.json: a .*, expected JSON lines or Parquet"):
        open_dump([str(tmp_path / "d.jsonl")], ReadOptions(joins=(str(tmp_path / "report.json"),)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (LFS, "a pointer of Git LFS"),
        (PAGE, "a web page"),
        (b"a,b\n1,2\n", "neither JSON nor Parquet"),
        (b"", "neither JSON nor"),
    ],
    ids=["pointer", "page", "csv", "empty"],
)
def test_a_format_that_is_named_does_not_hide_what_a_file_is(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "1.jsonl").write_bytes(content)
    with pytest.raises(InputError, match=rf"1\.jsonl:.* {message}"):
        open_dump([str(tmp_path / "1.jsonl")], ReadOptions(format="verl"))


def test_a_folder_in_the_place_of_a_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a folder, expected a file") as caught:
        open_dump_file(str(tmp_path))
    assert caught.value.hint == "name the file in it"


def test_a_joined_file_that_is_not_there_is_told_with_what_is(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text(ROW)
    with pytest.raises(InputError, match=r"report\.json: no such file") as caught:
        open_dump([str(tmp_path / "d.jsonl")], ReadOptions(joins=(str(tmp_path / "report.json"),)))
    assert caught.value.hint == "in that folder are d.jsonl"


@pytest.mark.parametrize(
    "command",
    [
        ("validate",),
        ("head",),
        ("grade", "--model", "offline", "--dry-run", "-o", "out.jsonl"),
        ("redistribute", "--rankings", "r.jsonl", "-o", "out.jsonl"),
        ("convert", "-o", "out.jsonl"),
    ],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize(
    "content", [LFS, PAGE, ROW.encode("utf-16"), b""], ids=["pointer", "page", "utf-16", "empty"]
)
def test_every_command_says_the_same(
    gagar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], content: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.jsonl").write_bytes(content)
    (tmp_path / "r.jsonl").write_text('{"group_id": "g", "candidates": []}\n')
    with pytest.raises(InputError) as caught:
        open_dump(["d.jsonl"], ReadOptions())
    done = gagar(command[0], "d.jsonl", *command[1:])
    assert done.returncode == 3
    assert f"error: {caught.value.message}\nhint: {caught.value.hint}\n" in done.stderr
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    "line",
    [
        '{"problem_statement": "' + "x" * 234 + 'ustar", ' + ROW[1:],
        '{"<html>": "<!doctype html>", ' + ROW[1:],
        "\ufeff  \n\n \t" + ROW,
        "\r\n" + ROW.replace("\n", "\r\n"),
        '{"PK": "BZh %PDF- ARROW1", ' + ROW[1:],
    ],
    ids=["the mark of tar", "a page", "a mark and blanks", "other line ends", "other marks"],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_dump_in_whose_text_such_marks_stand_is_read(tmp_path: Path, line: str, suffix: str) -> None:
    path = tmp_path / f"d.jsonl{suffix}"
    path.write_bytes(gzip.compress(line.encode()) if suffix else line.encode())
    with open_dump([str(path)], ReadOptions()) as dump:
        assert dump.n_rows == 1
