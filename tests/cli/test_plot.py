"""``tileops bench --plot``: calls under the roof of their device, as a picture."""

from __future__ import annotations

import sys
from xml.etree import ElementTree

import click
import pytest

from tileops_core.cli.plot import check_plot, plot_roofline, points_of
from tileops_core.record.profiles import DeviceProfile

ROWS = [
    {"case": "prefill", "unit": "cuda_core.fp32", "flops": 400, "bytes": 100, "seconds": 0.5},
    {"case": "decode", "unit": "cuda_core.fp32", "flops": 10, "bytes": 100, "seconds": 0.25},
    {"case": "broken", "error": "ValueError: no"},
    {"case": "free", "unit": "cuda_core.fp32", "flops": 0, "bytes": 100, "seconds": 0.25},
]
PROFILE = DeviceProfile("a card", 1e3, {"cuda_core.fp32": 2e3}, "made up")


def test_a_point_is_operations_per_byte_and_per_second():
    assert points_of(ROWS) == [
        ("prefill", "cuda_core.fp32", 4.0, 800.0),
        ("decode", "cuda_core.fp32", 0.1, 40.0),
    ]


def test_the_picture_names_the_calls_the_unit_and_the_device(tmp_path):
    pytest.importorskip("matplotlib").rcParams["svg.fonttype"] = "none"
    path = tmp_path / "roof.svg"
    assert plot_roofline(path, "GEMMFwdOp", ROWS, PROFILE) == 2
    told = "".join(ElementTree.parse(path).getroot().itertext())
    for text in ("prefill", "decode", "cuda_core.fp32", "GEMMFwdOp on a card"):
        assert text in told
    assert "broken" not in told


def test_a_picture_without_calls_shows_the_memory(tmp_path):
    pytest.importorskip("matplotlib")
    assert plot_roofline(tmp_path / "roof.png", "GEMMFwdOp", [], PROFILE) == 0
    assert (tmp_path / "roof.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "message"), [("roof.txt", "ends in .png"), ("away/roof.png", "no folder")]
)
def test_a_file_that_cannot_be_written_is_refused_first(tmp_path, name, message):
    with pytest.raises(click.UsageError, match=message):
        check_plot(tmp_path / name)


def test_without_matplotlib_the_command_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(click.UsageError, match=r"pip install 'tileops-core\[plot\]'"):
        check_plot(tmp_path / "roof.png")
