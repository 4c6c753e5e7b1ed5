"""A spec file's text, or why there is none."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tileops_core.spec import text_files
from tileops_core.spec.text_files import UnreadableFileError, read_text


def why(path: Path | str) -> str:
    with pytest.raises(UnreadableFileError) as caught:
        read_text(path)
    return str(caught.value)


def test_text_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes("A: é\r\n".encode())
    assert read_text(path) == "A: é\r\n"


def test_a_link_to_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("A: 1\n")
    link = tmp_path / "b.yaml"
    link.symlink_to("a.yaml")
    assert read_text(link) == "A: 1\n"


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert why(tmp_path / "a.yaml") == "no such file or directory"


def test_a_link_that_leads_nowhere_is_told_with_where_it_leads(tmp_path: Path) -> None:
    link = tmp_path / "a.yaml"
    link.symlink_to("gone.yaml")
    assert why(link) == "it is a link to gone.yaml, which is not there"


def test_links_that_lead_to_each_other_are_told(tmp_path: Path) -> None:
    link = tmp_path / "a.yaml"
    link.symlink_to("a.yaml")
    assert "too many levels" in why(link)


def test_what_never_ends_or_never_answers_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert why(tmp_path / "pipe.yaml").startswith("it is a named pipe")
    assert why("/dev/zero").startswith("it is a device")
    assert why(tmp_path).startswith("it is a folder")


def test_a_socket_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as held:
        held.bind("s.yaml")
        assert why("s.yaml").startswith("it is a socket")


def test_a_file_that_may_not_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("A: 1\n")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("builtins.open", refuse)  # root may read everything
    assert why(path) == "permission denied"


def test_a_huge_file_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "MAX_BYTES", 2**20)
    path = tmp_path / "a.yaml"
    path.write_bytes(b"#" * 2**20)
    assert len(read_text(path)) == 2**20
    path.write_bytes(b"#" * (2**20 + 1))
    assert why(path) == "it has more than 1 MiB"


def test_what_is_no_utf_8_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"A: 1\n# caf\xe9\n")
    assert why(path) == "it is no text in UTF-8: byte 0xe9 on line 2 is none"
    path.write_bytes("A: 1\n".encode("utf-16"))
    assert "UTF-16" in why(path)


def test_a_path_that_no_file_can_have_is_told() -> None:
    assert "null" in why("a\0b")
