"""A folder of entries."""

from __future__ import annotations

import pytest

from tileops_core.errors import ManifestError
from tileops_core.pages.manifest import read_manifest


def test_families_are_in_order_and_have_their_files_in_order(manifest) -> None:
    families = {f.name: [file.name for file in f.files] for f in manifest.families}
    assert families == {"acme": ["acme.yaml", "acme_shard.yaml"], "other": ["other.yaml"]}


def test_a_file_has_its_introduction(manifest) -> None:
    acme, shard = manifest.families[0].files
    assert acme.introduction == ("Scaling, as Acme does it.",)
    assert shard.introduction == ()


def test_an_entry_has_its_mathematics(entries) -> None:
    assert entries["AcmeScaleFwdOp"].mathematics == ("factor · x, and then AcmeTileFwdOp.",)
    assert entries["OtherFwdOp"].mathematics == ()


def test_every_op_has_a_home(manifest) -> None:
    assert manifest.homes == {
        "AcmeScaleFwdOp": "acme",
        "AcmeTileFwdOp": "acme",
        "OtherFwdOp": "other",
    }


def test_an_entry_that_is_wrong_is_refused(tmp_path) -> None:
    (tmp_path / "types.yaml").write_text("")
    (tmp_path / "acme.yaml").write_text("AcmeFwdOp:\n  family: acme\n")
    with pytest.raises(ManifestError, match="AcmeFwdOp"):
        read_manifest(tmp_path)
