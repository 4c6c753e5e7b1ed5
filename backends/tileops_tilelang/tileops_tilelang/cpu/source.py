"""The C++ text of a program: what TileLang makes of it, and the entry that a call uses.

Imports TileLang, so only a build imports this module.
"""

from __future__ import annotations

import re
from pathlib import Path

import tilelang
from tilelang import tvm

from tileops_tilelang.cpu.functions import ENTRY
from tileops_tilelang.programs.program import Program

_C_TYPES = {"int32": "int32_t", "float32": "float"}

# Its types of vectors and its float16 are half of a build's time, and no program uses them.
_HEADERS = re.compile(r"#include <tl_templates/.*>\n")

_PROTOTYPE = re.compile(r"int32_t main_kernel\(([^)]*)\)")

# TileLang guards every access whose bounds it cannot prove, column by column, and no guarded
# loop is vectorized. The bounds are checked before a call instead.
_PASSES = {"tl.disable_safe_memory_legalize": True}


class SourceError(RuntimeError):
    """What TileLang made of a program is not of the form that the entry calls."""


def include_directory() -> Path:
    """Where the header is that the text includes."""
    return Path(__file__).parent


def arguments(program: Program) -> list[str]:
    """The kinds of the entry's arguments before the number of rows and of threads, in order."""
    return ["pointer"] * len(program.tensors) + [kind for _, kind in program.scalars]


def source(program: Program) -> str:
    """A program's whole text.

    Raises:
        SourceError: When the function TileLang made has parameters that the program does not
            declare.
    """
    with tvm.transform.PassContext(config=_PASSES):
        text = tilelang.lower(program.func, target="c").kernel_source
    found = _PROTOTYPE.search(text)
    if found is None:
        raise SourceError(f"TileLang {tilelang.__version__} made no main_kernel:\n{text}")
    parameters = [parameter.split() for parameter in found[1].split(",")]
    known = _values(program)
    unknown = [words[-1] for words in parameters if words[-1] not in known]
    if unknown:
        raise SourceError(f"main_kernel takes {', '.join(unknown)}, which nothing gives a value")
    text = _HEADERS.sub("", text)
    # Outputs are fresh, so no two tensors share memory; known, this saves a test per pointer.
    text = _PROTOTYPE.sub(lambda match: match[0].replace("* ", "* __restrict__ "), text)
    call = ", ".join(f"({' '.join(words[:-1])}){known[words[-1]]}" for words in parameters)
    return f'#include "prelude.h"\n{text}\n{_entry(program, call)}'


def _values(program: Program) -> dict[str, str]:
    """A C expression for every parameter that a function may have."""
    values = {name: name for name in program.tensors}
    values.update((name, name) for name, _ in program.scalars)
    values.update((name, float(value).hex()) for name, value in program.constants.items())
    values.update({"begin": "begin", "count": "(end - begin)", program.rows: "rows"})
    return values


def _entry(program: Program, call: str) -> str:
    parameters = [f"void* {name}" for name in program.tensors]
    parameters += [f"{_C_TYPES[kind]} {name}" for name, kind in program.scalars]
    return f"""
// All rows, split evenly over the threads.
extern "C" __attribute__((visibility("default"))) void {ENTRY}(
    {", ".join(parameters)}, int64_t rows, int32_t threads) {{
  if (threads > rows) threads = rows < 1 ? 1 : (int32_t)rows;
#ifdef _OPENMP
#pragma omp parallel for schedule(static, 1) num_threads(threads) if (threads > 1)
#endif
  for (int32_t thread = 0; thread < threads; ++thread) {{
    const int64_t begin = rows * thread / threads, end = rows * (thread + 1) / threads;
    main_kernel({call});
  }}
}}
"""
