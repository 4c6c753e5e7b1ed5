"""Importing an op, or a family, that has a contract and no class yet."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from tileops_core import ops
from tileops_core.ops import _missing, norm
from tileops_core.spec.generate_index import index_text

ENTRY = """
{op}:
  family: {family}
  status: spec-only
  signature:
    forall: {{N: Dim, T: "DType[float32]"}}
    inputs:
      x: {{dtype: T, shape: "[N]"}}
    outputs:
      y: {{dtype: T, shape: "[N]"}}
  workloads:
    - {{label: small, N: 8, dtype_cases: [{{T: float32}}]}}
"""


@pytest.fixture(scope="session")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the manifest in which three ops have no class."""
    folder = tmp_path_factory.mktemp("contracts")
    package = folder / "tileops_manifest"
    shutil.copytree(str(files("tileops_manifest")), package)
    two = ENTRY.format(op="AcmeScaleFwdOp", family="acme") + ENTRY.format(
        op="AcmeShiftFwdOp", family="acme"
    )
    (package / "spec" / "acme.yaml").write_text(two, encoding="utf-8")
    one = ENTRY.format(op="ClampedNormFwdOp", family="norm")
    (package / "spec" / "norm_clamped.yaml").write_text(one, encoding="utf-8")
    (package / "index.json").write_text(index_text(package), encoding="utf-8")
    return folder


def answer(folder: Path, code: str) -> list[str]:
    """What a new process that finds the manifest there prints."""
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def errors(folder: Path, *statements: str) -> list[str]:
    """The type and the text of the error that each statement raises."""
    code = (
        f"for statement in {statements!r}:\n"
        "    try: exec(statement, {})\n"
        "    except Exception as error: print(type(error).__name__, error)\n"
        "    else: print('no error')\n"
    )
    return answer(folder, code)


def test_the_words_say_what_there_is_what_is_not_and_what_to_do(manifest: Path) -> None:
    (said,) = errors(manifest, "from tileops_core.ops import ClampedNormFwdOp")
    assert said.startswith("ImportError tileops_core.ops.norm has no ClampedNormFwdOp yet: ")
    for part in (
        "the manifest has its contract (status: spec-only)",
        "nobody has written its class",
        "`tileops show ClampedNormFwdOp`",
        "`tileops ops --status implemented`",
        "a class of this name, derived from tileops_core.Op",
    ):
        assert part in said


def test_every_way_to_ask_for_an_op_gets_the_same_words(manifest: Path) -> None:
    told = errors(
        manifest,
        "from tileops_core.ops import ClampedNormFwdOp",
        "from tileops_core.ops.norm import ClampedNormFwdOp",
        "import tileops_core.ops as ops; ops.ClampedNormFwdOp",
        "import tileops_core.ops.norm as norm; norm.ClampedNormFwdOp",
    )
    assert [said.split()[0] for said in told] == ["ImportError"] * 2 + ["AttributeError"] * 2
    assert len({said.partition(" ")[2] for said in told}) == 1


def test_a_family_in_which_no_op_has_a_class_is_told(manifest: Path) -> None:
    told = errors(
        manifest,
        "import tileops_core.ops.acme",
        "from tileops_core.ops import acme",
        "from tileops_core.ops.acme import AcmeScaleFwdOp",
        "import tileops_core.ops as ops; ops.acme",
    )
    assert [said.split()[0] for said in told] == ["ModuleNotFoundError"] * 3 + ["AttributeError"]
    (said,) = {said.partition(" ")[2] for said in told}
    assert said.startswith("tileops_core.ops.acme has no op yet: ")
    assert "AcmeScaleFwdOp and 1 more" in said
    assert "`tileops ops --family acme` lists them" in said


def test_who_asks_whether_there_is_such_an_op_gets_an_answer(manifest: Path) -> None:
    code = (
        "import tileops_core.ops as ops, tileops_core.ops.norm as norm\n"
        "print(hasattr(ops, 'ClampedNormFwdOp'), hasattr(norm, 'ClampedNormFwdOp'))\n"
        "print('ClampedNormFwdOp' in dir(ops), hasattr(ops, 'acme'))"
    )
    assert answer(manifest, code) == ["False False", "False False"]


def test_a_class_elsewhere_may_take_the_contract(manifest: Path) -> None:
    code = (
        "from tileops_core import Op\nclass ClampedNormFwdOp(Op): pass\nprint(ClampedNormFwdOp())"
    )
    assert answer(manifest, code) == ["ClampedNormFwdOp()"]


def test_an_op_of_another_family_is_told_where_it_is() -> None:
    with pytest.raises(ImportError, match=r"has no op SumFwdOp: it is in tileops_core\.ops\.red"):
        from tileops_core.ops.norm import SumFwdOp  # noqa: F401
    with pytest.raises(AttributeError, match=r"it is in tileops_core\.ops\.reduction"):
        norm.SumFwdOp  # noqa: B018


def test_a_misspelled_op_gets_a_guess() -> None:
    with pytest.raises(ImportError, match="did you mean 'RMSNormFwdOp'"):
        from tileops_core.ops.norm import RmsNormFwdOp  # noqa: F401


@pytest.mark.parametrize(
    "statement",
    [
        "from tileops_core.ops import nothing",
        "from tileops_core.ops.norm import nothing",
        "import tileops_core.ops.nothing",
        "import tileops_core.ops.norm.nothing",
        "from tileops_core.ops import _nothing",
    ],
)
def test_what_is_no_op_and_no_family_is_python_s_to_tell(statement: str) -> None:
    with pytest.raises(ImportError, match=r"cannot import name|No module named"):
        exec(statement)


def test_names_that_python_asks_for_are_not_there() -> None:
    for module in (ops, norm):
        with pytest.raises(AttributeError, match="__wrapped__"):
            module.__wrapped__  # noqa: B018


def test_one_finder_is_enough() -> None:
    _missing.install(ops)
    assert len([f for f in sys.meta_path if isinstance(f, _missing.Finder)]) == 1
