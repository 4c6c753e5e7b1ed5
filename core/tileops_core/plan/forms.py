"""Tensors that are laid out in another way than ops take."""

from __future__ import annotations

import torch

from tileops_core.errors import SignatureError
from tileops_core.spans import Span


def check_form(op: str, name: str, tensor: torch.Tensor, span: Span) -> None:
    """Check that a tensor is a dense one.

    Args:
        op: whose it is.
        name: the tensor's.
        tensor: what came.
        span: where the entry speaks of it.

    Raises:
        SignatureError: it is sparse, nested, quantized or otherwise laid out.
    """
    form = _odd_form(tensor)
    if form is not None:
        raise SignatureError(
            f"{op}: {name} is a {form} tensor, the op takes dense (strided) tensors only; convert "
            f"it first, for example with {_remedy(form)}  [{span.short}]",
            op=op,
            tensor=name,
            expected="torch.strided",
            actual=form,
            span=span,
        )


def _odd_form(tensor: torch.Tensor) -> str | None:
    if tensor.is_nested:
        return "nested"
    if tensor.is_quantized:
        return "quantized"
    if tensor.layout is torch.strided:
        return None
    return str(tensor.layout).removeprefix("torch.").lstrip("_")


def _remedy(form: str) -> str:
    if form == "nested":
        return "torch.nested.to_padded_tensor"
    return ".dequantize()" if form == "quantized" else ".to_dense()"
