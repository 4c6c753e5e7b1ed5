"""A name for what libraries are compiled for."""

from __future__ import annotations

import re

import pytest

from tileops_tilelang.cpu import processor as module

X86 = """processor\t: 0
model name\t: Acme(R) Xeon(R) @ 2.0GHz
flags\t\t: fpu avx2 f16c
processor\t: 1
model name\t: Another
flags\t\t: fpu
"""
ARM = """processor\t: 0
Features\t: fp asimd sve
CPU implementer\t: 0x41
CPU part\t: 0xd40
"""


@pytest.fixture
def named(monkeypatch, tmp_path):
    """The name of a machine whose ``cpuinfo`` holds a text."""
    path = tmp_path / "cpuinfo"
    monkeypatch.setattr(module, "_INFO", path)

    def name(text):
        path.write_text(text)
        return module.processor.__wrapped__()

    return name


def test_it_is_fit_for_a_directory_and_the_same_every_time(named):
    assert re.fullmatch(r"acme-r-xeon-r-2-0ghz-[0-9a-f]{12}", named(X86))
    assert named(X86) == named(X86)
    assert re.fullmatch(r"0xd40-[0-9a-f]{12}", named(ARM))


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        (X86, "Acme(R)", "Acme(TM)"),
        (X86, "2.0GHz", "2-0GHz"),
        (X86, "avx2 ", ""),
        (X86, "f16c", "f16c avx512f"),
        (ARM, "sve", "sve2"),
        (ARM, "0xd40", "0xd41"),
    ],
)
def test_another_model_or_feature_is_another_name(named, text, one, other):
    assert named(text) != named(text.replace(one, other, 1))


def test_the_order_of_features_is_no_matter(named):
    assert named(X86) == named(X86.replace("fpu avx2 f16c", "f16c avx2 fpu"))


def test_another_architecture_is_another_name(named, monkeypatch):
    before = named(X86)
    monkeypatch.setattr(module.platform, "machine", lambda: "riscv64")
    assert named(X86) != before


def test_a_machine_that_tells_nothing_has_a_name(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_INFO", tmp_path / "missing")
    monkeypatch.setattr(module.platform, "processor", lambda: "")
    monkeypatch.setattr(module.platform, "machine", lambda: "vax")
    assert re.fullmatch(r"vax-[0-9a-f]{12}", module.processor.__wrapped__())
