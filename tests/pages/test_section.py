"""What a page says about one op, and about a shared type."""

from __future__ import annotations

from tileops_core.pages.section import op_section, shared_type_section


def nowhere(op: str) -> None:
    return None


def section(entries, op: str) -> str:
    return "\n".join(op_section(entries[op], nowhere))


def test_the_parts_are_in_order(entries) -> None:
    text = section(entries, "AcmeScaleFwdOp")
    parts = [
        "### AcmeScaleFwdOp\n\nimplemented, computes what `torch.mul` does\n",
        "\nfactor · x, and then AcmeTileFwdOp.\n",
        "\n```text\nAcmeScaleFwdOp : ∀ N: Dim; T ∈ {float16, float32}.\n",
        "\n- **Effects**: ",
        "\n**Cost**: ",
        "\n| workload | with |",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_an_op_without_a_reference_has_its_status_only(entries) -> None:
    assert "\nspec-only\n" in section(entries, "AcmeTileFwdOp")


def test_a_short_formula_stands_within_the_line(entries) -> None:
    assert "**Cost**: a product.\n`flops = N`.\n" in section(entries, "AcmeScaleFwdOp")


def test_several_formulas_are_a_block(entries) -> None:
    assert "**Cost**:\n\n```text\nflops = 0\nbytes = bytes(x) + bytes(made)\n```\n" in section(
        entries, "AcmeTileFwdOp"
    )


def test_a_cost_that_is_not_stated_is_said_so(entries) -> None:
    assert "**Cost**: not stated.\n" in section(entries, "OtherFwdOp")


def test_a_sealed_sum_has_its_forms_and_what_they_mean(manifest) -> None:
    entry = manifest.types.get("Layout")
    assert list(shared_type_section(entry, manifest.types_comments, nowhere)) == [
        "### Layout",
        "",
        "How rows lie.",
        "",
        "```text",
        "Layout",
        "  = masked(max_m: int)",
        "      requires max_m > 0",
        "```",
        "",
        "- **masked**, in Python `tileops_core.interfaces.moe.MaskedLayout`:",
        "  Some of max_m each.",
    ]


def test_an_opaque_type_has_its_class(manifest) -> None:
    entry = manifest.types.get("Epilogue")
    *_, last = shared_type_section(entry, manifest.types_comments, nowhere)
    assert last == "An object of the class `tileops_core.interfaces.moe.RoutingEpilogueSpec`."
