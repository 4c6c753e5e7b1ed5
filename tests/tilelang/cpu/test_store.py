"""Libraries on disk: whatever happens to a file, what is loaded is what was built."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from tileops_tilelang.cpu import store as module
from tileops_tilelang.cpu.store import Store, pack, unpack

KEY, OTHER = "0" * 32, "1" * 32
LIBRARY, FACTS = b"\x7fELF and so on", {"program": "norm:rms_norm", "arguments": ["pointer"]}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cache" / "tilelang" / "some-processor")


def test_nothing_is_there_and_no_directory_is_made_before_something_is_put(store):
    assert store.get(KEY) is None
    assert not store.directory.exists()


def test_what_is_put_is_got_with_its_facts(store):
    path = store.put(KEY, LIBRARY, FACTS)
    found, facts = store.get(KEY)
    assert found == path == store.directory / f"{KEY}.so"
    assert facts == {**FACTS, "key": KEY}
    assert path.read_bytes().startswith(LIBRARY)
    assert store.get(OTHER) is None


def test_another_process_gets_it(store):
    store.put(KEY, LIBRARY, FACTS)
    assert Store(store.directory).get(KEY) is not None


def test_only_its_owner_can_write_and_nothing_else_is_left(store):
    path = store.put(KEY, LIBRARY, FACTS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o500
    assert stat.S_IMODE(store.directory.stat().st_mode) == 0o700
    assert os.listdir(store.directory) == [path.name]


def test_every_byte_counts():
    packed = pack(LIBRARY, KEY, FACTS)
    assert unpack(packed, KEY) == {**FACTS, "key": KEY}
    for at in range(len(packed)):
        for bit in (1, 128):
            damaged = bytearray(packed)
            damaged[at] ^= bit
            assert unpack(bytes(damaged), KEY) is None, at


def test_a_file_cut_short_anywhere_is_none():
    packed = pack(LIBRARY, KEY, FACTS)
    for length in range(len(packed)):
        assert unpack(packed[:length], KEY) is None
    assert unpack(packed + b"\n", KEY) is None
    assert unpack(packed[1:], KEY) is None


def test_a_library_of_another_key_is_none():
    assert unpack(pack(LIBRARY, OTHER, FACTS), KEY) is None


def damage_by_cutting(path):
    path.chmod(0o700)
    path.write_bytes(path.read_bytes()[:-5])


def damage_by_a_bit(path):
    path.chmod(0o700)
    data = bytearray(path.read_bytes())
    data[3] ^= 4
    path.write_bytes(data)


def damage_by_emptying(path):
    path.chmod(0o700)
    path.write_bytes(b"")


def damage_by_swapping(path):
    Store(path.parent).put(OTHER, b"another", FACTS)
    os.replace(path.with_name(f"{OTHER}.so"), path)


DAMAGES = [damage_by_cutting, damage_by_a_bit, damage_by_emptying, damage_by_swapping]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_told_and_replaced(store, damage, caplog):
    path = store.put(KEY, LIBRARY, FACTS)
    damage(path)
    assert store.get(KEY) is None
    assert f"{path} is damaged and is built again" in caplog.text
    assert store.put(KEY, LIBRARY, FACTS) == path
    assert store.get(KEY)[0] == path


def is_private(path, store):
    return store.directory not in path.parents


def test_a_directory_in_the_place_of_a_file_is_left_alone(store):
    (store.directory / f"{KEY}.so").mkdir(parents=True, mode=0o700)
    store.directory.chmod(0o700)
    assert store.get(KEY) is None
    path = store.put(KEY, LIBRARY, FACTS)
    assert is_private(path, store)
    assert store.get(KEY)[0] == path
    assert [entry.name for entry in store.directory.iterdir()] == [f"{KEY}.so"]


def test_a_file_in_the_place_of_a_directory_is_left_alone(tmp_path):
    (tmp_path / "cache").write_text("mine")
    store = Store(tmp_path / "cache" / "tilelang")
    assert store.get(KEY) is None
    assert store.get(KEY) is None
    path = store.put(KEY, LIBRARY, FACTS)
    assert store.get(KEY)[0] == path
    assert (tmp_path / "cache").read_text() == "mine"


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_where_the_directory_cannot_be_written_a_private_one_serves(store):
    store.directory.mkdir(parents=True, mode=0o500)
    path = store.put(KEY, LIBRARY, FACTS)
    assert is_private(path, store)
    assert store.get(KEY)[0] == path


def test_where_writing_fails_a_private_directory_serves(store, monkeypatch, caplog):
    """Also as root, who may write everywhere."""
    real = module.tempfile.mkstemp

    def full(dir, prefix):
        if Path(dir) == store.directory:
            raise OSError(28, "No space left on device")
        return real(dir=dir, prefix=prefix)

    caplog.set_level("INFO", "tileops")
    monkeypatch.setattr(module.tempfile, "mkstemp", full)
    path = store.put(KEY, LIBRARY, FACTS)
    assert is_private(path, store)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert "No space left on device" in caplog.text
    assert store.put(OTHER, LIBRARY, FACTS).parent == path.parent


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_directory_that_others_write_to_is_neither_read_nor_written(store, mode):
    path = store.put(KEY, LIBRARY, FACTS)
    store.directory.chmod(mode)
    assert store.get(KEY) is None
    assert is_private(store.put(KEY, b"another", FACTS), store)
    assert path.read_bytes().startswith(LIBRARY)


@pytest.mark.parametrize("mode", [0o702, 0o720])
def test_a_file_that_others_write_to_is_not_loaded(store, mode):
    store.put(KEY, LIBRARY, FACTS).chmod(mode)
    assert store.get(KEY) is None


@pytest.mark.parametrize("whose", ["directory", "file"])
def test_what_belongs_to_somebody_else_is_not_loaded(store, whose, monkeypatch):
    path = store.put(KEY, LIBRARY, FACTS)
    foreign = path if whose == "file" else store.directory
    real = Path.stat

    def of_another(self, **kwargs):
        facts = real(self, **kwargs)
        if self != foreign:
            return facts
        values = list(facts)
        values[stat.ST_UID] = os.getuid() + 1000
        return os.stat_result(values)

    monkeypatch.setattr(Path, "stat", of_another)
    assert store.get(KEY) is None
    if whose == "directory":
        assert is_private(store.put(KEY, LIBRARY, FACTS), store)


def test_without_a_directory_libraries_last_for_the_process():
    store = Store(None)
    assert store.get(KEY) is None
    path = store.put(KEY, LIBRARY, FACTS)
    assert store.get(KEY)[0] == path


def test_threads_that_put_at_once_leave_one_sound_file(store):
    gate = threading.Barrier(8)

    def put(i):
        gate.wait(30)
        store.put(KEY, LIBRARY * (i + 1), FACTS)

    threads = [threading.Thread(target=put, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert store.get(KEY) is not None
    assert len(os.listdir(store.directory)) == 1


PRIVATE = """
    import os, sys
    from tileops_tilelang.cpu.store import Store
    store = Store(None)
    path = store.put("0" * 32, b"library", {})
    child = os.fork()
    if not child:
        assert store.get("0" * 32)[0] == path
        own = store.put("1" * 32, b"library", {})
        assert own.parent != path.parent, own
        sys.exit(0)  # not os._exit: what is registered for the end of a process runs
    assert os.waitpid(child, 0)[1] == 0
    assert path.exists()
    print(path.parent)
"""


def test_a_private_directory_goes_with_the_process_that_made_it(python, tmp_path):
    """A forked child reads the parent's, removes only its own."""
    done = python(PRIVATE, TMPDIR=str(tmp_path))
    assert Path(done.stdout.strip()).parent == tmp_path
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("level", [0, 1])
def test_nobody_else_may_write_above_it_either(tmp_path, level):
    """They could put another directory in its place after it was looked at."""
    root = tmp_path / "cache"
    store = Store(root / "tilelang" / "some-processor", within=root)
    assert store.put(KEY, LIBRARY, FACTS).parent == store.directory
    open_one = (root, root / "tilelang")[level]
    open_one.chmod(0o777)
    assert store.get(KEY) is None
    assert is_private(store.put(KEY, LIBRARY, FACTS), store)
    open_one.chmod(0o1777)  # a sticky one lets nobody rename what is another's, but is no place
    assert store.get(KEY) is not None  # from the private one
