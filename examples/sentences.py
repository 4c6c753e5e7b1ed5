"""Encode sentences with all-MiniLM-L6-v2, every computation of it served by an op.

Prints how alike the sentences are, who served each op and what its calls took, and how far the
result is from the same model run by `transformers`. Exits with status 1 when that is too far.

    python examples/sentences.py                 # ten sentences on four subjects
    python examples/sentences.py "A cat." "A dog."
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

os.environ["HF_HUB_OFFLINE"] = "1"  # the model's files are in an installed package

import torch
from minilm import LONGEST, MODEL, MiniLM, Step
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

SENTENCES = (
    "The cat sleeps on the warm windowsill.",
    "A kitten is napping in the sun.",
    "Our dog chased a squirrel up the old oak tree.",
    "The central bank raised interest rates again.",
    "Borrowing money has become more expensive this year.",
    "Stock markets fell after the inflation report.",
    "A new telescope photographed a distant galaxy.",
    "Astronomers measured the light of a faraway star.",
    "Knead the dough and let it rise for an hour.",
    "Fresh bread needs flour, water, salt and yeast.",
)
TARGETS = (None, "reference")
TOLERANCE = 1e-5
PASSES = 5


@dataclass(frozen=True)
class Run:
    """What one target gave.

    Args:
        target: Its name; None for no target.
        embeddings: [sentences, width].
        similarities: [sentences, sentences].
        steps: The ops with what their calls took.
    """

    target: str | None
    embeddings: torch.Tensor
    similarities: torch.Tensor
    steps: list[Step]


def run(sentences: Sequence[str], target: str | None) -> Run:
    """Encode a few times and keep the fastest: the first time also builds what the calls need,
    and any may share the machine with something else.
    """
    model = MiniLM(target)
    passes = []
    with torch.inference_mode():
        for _ in range(PASSES):
            for step in model.steps.all():
                step.forget()
            embeddings = model.encode(sentences)
            similarities = model.similarities(embeddings)
            passes.append([copy(step) for step in model.steps.all()])
    fastest = min(passes, key=lambda steps: sum(step.nanoseconds for step in steps))
    return Run(target, embeddings, similarities, fastest)


def expected(sentences: Sequence[str]) -> torch.Tensor:
    """The embeddings by `transformers`, in one padded batch: [sentences, width]."""
    from transformers import AutoTokenizer, BertModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    model = BertModel.from_pretrained(MODEL).eval()
    batch = tokenizer(
        list(sentences), padding=True, truncation=True, max_length=LONGEST, return_tensors="pt"
    )
    with torch.inference_mode():
        vectors = model(**batch).last_hidden_state
        mask = batch["attention_mask"].unsqueeze(-1)
        mean = (vectors * mask).sum(1) / mask.sum(1)
        return torch.nn.functional.normalize(mean)


def plain_table() -> Table:
    """A table narrow enough for a terminal of 80 columns."""
    return Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)


def show_similarities(sentences: Sequence[str], similarities: torch.Tensor, out: Console) -> None:
    """Print the cosines of all pairs; the brighter, the more alike."""
    table = plain_table()
    table.add_column("")
    table.add_column("sentence", max_width=32, no_wrap=True)
    for number in range(1, len(sentences) + 1):
        table.add_column(str(number), justify="right", no_wrap=True)
    for number, (sentence, row) in enumerate(zip(sentences, similarities.tolist(), strict=True)):
        cells = [
            "[dim]·[/]" if other == number else f"[{shade(value)}]{100 * value:.0f}[/]"
            for other, value in enumerate(row)
        ]
        table.add_row(str(number + 1), escape(sentence), *cells)
    out.print("How alike the sentences are (100 times the cosine)", style="bold")
    out.print(table)


def shade(cosine: float) -> str:
    """A style by how alike two sentences are."""
    return "bold green" if cosine > 0.5 else "yellow" if cosine > 0.2 else "dim"


def show_steps(run: Run, out: Console) -> None:
    """Print what each op did under one target."""
    target = "no target named" if run.target is None else f"target={run.target!r}"
    table = plain_table()
    table.add_column("op", no_wrap=True)
    table.add_column("served by", no_wrap=True)
    for heading in ("calls", "µs", "µs/call", "FLOP", "bytes"):
        table.add_column(heading, justify="right", no_wrap=True)
    for step in run.steps:
        table.add_row(
            type(step.op).__name__,
            ", ".join(sorted(step.served_by)),
            f"{step.calls:,}",
            f"{step.nanoseconds / 1e3:,.0f}",
            f"{step.nanoseconds / 1e3 / max(step.calls, 1):,.1f}",
            short(step.flops),
            short(step.bytes),
        )
    table.add_section()
    table.add_row(
        "all",
        "",
        f"{sum(step.calls for step in run.steps):,}",
        f"{sum(step.nanoseconds for step in run.steps) / 1e3:,.0f}",
        "",
        short(sum(step.flops for step in run.steps)),
        short(sum(step.bytes for step in run.steps)),
    )
    title = f"The ops of one encoding, the fastest of {PASSES}, {target}"
    out.print(title, style="bold", highlight=False)
    out.print(table)


def short(count: int) -> str:
    """A large count in millions."""
    return f"{count / 1e6:,.1f} M" if count >= 1e5 else f"{count:,}"


def main(sentences: Sequence[str]) -> int:
    """Run the whole; return the exit status."""
    # A log has no window to fit; there no column should be cut.
    out = Console(width=None if sys.stdout.isatty() else 100)
    runs = [run(sentences, target) for target in TARGETS]
    show_similarities(sentences, runs[0].similarities, out)
    for each in runs:
        show_steps(each, out)
    reference = expected(sentences)
    far = False
    for each in runs:
        difference = (each.embeddings - reference).abs().max().item()
        close = difference < TOLERANCE
        far = far or not close
        name = "no target" if each.target is None else each.target
        out.print(
            f"{name}: largest difference from transformers {difference:.1e}, "
            f"{'within' if close else 'NOT within'} {TOLERANCE:.0e}",
            style="green" if close else "bold red",
            highlight=False,
        )
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or SENTENCES))
