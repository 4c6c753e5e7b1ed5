"""What tuning has chosen, kept on disk."""

from __future__ import annotations

import json
import os
import stat
import threading

import pytest

from tileops_core.kernels import tune_store

KEY = {"op": "ProbeFwdOp", "call": [["torch.float32", [3, 4], [4, 1]]]}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A cache directory of the test's own, of which the process knows nothing yet."""
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    tune_store.forget()
    yield tmp_path / "tuning"
    tune_store.forget()


def only(place):
    (path,) = place.iterdir()
    return path


def test_nothing_is_known_of_a_new_key(place):
    assert tune_store.chosen(KEY, 3) is None
    assert not place.exists()


def test_a_choice_is_kept_for_other_processes(place):
    tune_store.keep(KEY, 2, {"{'block': 64}": 1e-6})
    tune_store.forget()
    assert tune_store.chosen(KEY, 3) == 2
    kept = json.loads(only(place).read_text())
    assert kept == {"key": KEY, "chosen": 2, "seconds": {"{'block': 64}": 1e-6}}


def test_another_key_has_a_choice_of_its_own(place):
    tune_store.keep(KEY, 2, {})
    assert tune_store.chosen({**KEY, "op": "Other"}, 3) is None


def test_a_choice_that_there_is_no_more_is_none(place):
    tune_store.keep(KEY, 2, {})
    assert tune_store.chosen(KEY, 2) is None


DAMAGED = [b"", b"{", b"\xff\xfe", b"[]", b"null", b'{"key": 3}', b'{"chosen": 1}']


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_file_is_none(place, content):
    tune_store.keep(KEY, 1, {})
    only(place).write_bytes(content)
    tune_store.forget()
    assert tune_store.chosen(KEY, 3) is None
    tune_store.keep(KEY, 2, {})
    tune_store.forget()
    assert tune_store.chosen(KEY, 3) == 2


@pytest.mark.parametrize("number", [True, -1, 3, "1", None, 1.0])
def test_a_file_that_chooses_what_is_no_number_of_a_configuration_is_none(place, number):
    tune_store.keep(KEY, 1, {})
    only(place).write_text(json.dumps({"key": KEY, "chosen": number}))
    tune_store.forget()
    assert tune_store.chosen(KEY, 3) is None


def test_a_file_of_another_key_is_none(place):
    tune_store.keep(KEY, 1, {})
    kept = json.loads(only(place).read_text())
    only(place).write_text(json.dumps({**kept, "key": {"op": "Other"}}))
    tune_store.forget()
    assert tune_store.chosen(KEY, 3) is None


def test_writers_at_once_leave_a_whole_file(place):
    threads = [
        threading.Thread(target=tune_store.keep, args=(KEY, n % 3, {"x" * 5000: 1.0}))
        for n in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    tune_store.forget()
    assert tune_store.chosen(KEY, 3) in (0, 1, 2)
    assert len(list(place.iterdir())) == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_where_nothing_can_be_written_a_choice_lasts_for_the_process(place):
    place.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    tune_store.keep(KEY, 1, {})
    assert tune_store.chosen(KEY, 3) == 1


def test_where_a_file_stands_in_the_directorys_place_a_choice_lasts_for_the_process(place):
    place.parent.mkdir(exist_ok=True)
    place.write_text("no directory")
    tune_store.keep(KEY, 1, {})
    assert tune_store.chosen(KEY, 3) == 1
