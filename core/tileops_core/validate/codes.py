"""Every code that a finding may have: those of the language, and the validator's own."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tileops_core.signature.problems import CODES as LANGUAGE

CODES: Mapping[str, str] = MappingProxyType(
    {
        **LANGUAGE,
        "file-unreadable": "A file is not there, may not be read, is no regular file, is far too "
        "long, or is no text in UTF-8.",
        "file-suffix": "A file that looks like a spec file has another suffix than .yaml.",
        "library-fault": "The checks themselves failed on an entry; nothing is known of it.",
        "stale-data": "Data generated from the manifest is older than the manifest.",
        "no-branch": "The refinements allow no combination of the discriminants that they read.",
        "too-many-branches": "Conditions read more discriminants together than can be gone "
        "through one by one.",
        "branch-unsettled": "On some combination of discriminants an expression reads an index "
        "that no tensor settles there.",
        "effect-branch": "What a call writes, returns and leaves out contradicts itself on some "
        "branch.",
        "rule-unchecked": "No workload row gives a refinement a value, so nothing shows what it "
        "does.",
        "no-value": "A part of an expression has no value: on no call, or on none that was tried "
        "where no row evaluates it.",
        "row-inference": "The tensors of a row settle an index to something else than the row "
        "says.",
        "roofline": "The cost of a row's call cannot be computed, is none, or is rounded down to "
        "0.",
        "symbolic": "The code generated from an entry needs the number behind a length, so one "
        "traced graph cannot serve many sizes.",
        "ref-api": "The reference names something that its module does not have.",
        "code-class": "An implemented op has no class, or its module does not export it.",
        "code-init": "A class's constructor is not what the entry's parameters say.",
        "code-forward": "The body of a class does not begin with the entry's inputs.",
        "code-composition": "The sub-ops of a class are not the stages of the entry.",
        "code-operators": "A class has custom operators where none are due, or lacks them where "
        "they are.",
    }
)
"""What each code means, one sentence each."""
