"""Peak rates of well-known cards, as their makers state them.

Rates are dense ones: where a source gives the rate with structured sparsity, it is halved. They are
those at the boost clock, which the source of each row names where its maker does, and which a card
that draws too much power does not hold. An operation is one of the two of a multiply-add, memory's
bandwidth is in units of 10^9 bytes, and sums of 16-bit products are in float32.
"""

from __future__ import annotations

from tileops_core.record.profiles import DeviceProfile

_T = 1e12
_G = 1e9


def _rates(**rates: float) -> dict[str, float]:
    """Rates by key, given in tera-operations: ``core_`` of vector, ``tensor_`` of matrix units."""
    names = {"core": "cuda_core", "tensor": "tensor_core"}
    found = {}
    for short, rate in rates.items():
        unit, _, numbers = short.partition("_")
        found[f"{names[unit]}.{numbers}"] = rate * _T
    return found


# 132 multiprocessors; vectors at another clock than matrices.
_HOPPER_SXM = _rates(
    core_fp32=66.9,
    core_fp64=33.5,
    tensor_fp64=66.9,
    tensor_tf32=494.7,
    tensor_fp16=989.4,
    tensor_bf16=989.4,
    tensor_fp8=1978.9,
    tensor_int8=1978.9,
)

_AMPERE_A100 = _rates(
    core_fp32=19.5,
    core_fp64=9.7,
    tensor_fp64=19.5,
    tensor_tf32=156,
    tensor_fp16=312,
    tensor_bf16=312,
    tensor_int8=624,
)

CARDS: tuple[DeviceProfile, ...] = (
    DeviceProfile(
        "h100-sxm",
        3350 * _G,
        _HOPPER_SXM,
        "NVIDIA H100 Tensor Core GPU Architecture (whitepaper), H100 SXM5; dense, boost clock: "
        "vectors 1980 MHz, matrices 1830 MHz",
        ("h100 80gb hbm3",),
    ),
    DeviceProfile(
        "h100-pcie",
        2000 * _G,
        _rates(
            core_fp32=51,
            core_fp64=26,
            tensor_fp64=51,
            tensor_tf32=378,
            tensor_fp16=756.5,
            tensor_bf16=756.5,
            tensor_fp8=1513,
            tensor_int8=1513,
        ),
        "NVIDIA H100 Tensor Core GPU Datasheet, H100 PCIe; dense (half of the sparse rates that it "
        "states), boost clock: vectors 1755 MHz, matrices 1620 MHz",
        ("h100 pcie",),
    ),
    DeviceProfile(
        "h200-sxm",
        4800 * _G,
        _HOPPER_SXM,
        "NVIDIA H200 Tensor Core GPU Datasheet, H200 SXM (memory; its rates are H100 "
        "SXM5's, here those of that whitepaper); dense, boost clock: vectors 1980 MHz, matrices "
        "1830 MHz",
        ("h200",),
    ),
    DeviceProfile(
        "a100-sxm-80gb",
        2039 * _G,
        _AMPERE_A100,
        "NVIDIA A100 Tensor Core GPU Datasheet, A100 80GB SXM; dense, boost clock 1410 MHz",
        ("a100-sxm4-80gb", "a100-sxm-80gb"),
    ),
    DeviceProfile(
        "a100-pcie-80gb",
        1935 * _G,
        _AMPERE_A100,
        "NVIDIA A100 Tensor Core GPU Datasheet, A100 80GB PCIe; dense, boost clock 1410 MHz",
        ("a100 80gb pcie",),
    ),
    DeviceProfile(
        "a100-40gb",
        1555 * _G,
        _AMPERE_A100,
        "NVIDIA A100 Tensor Core GPU Architecture (whitepaper), A100 40GB; dense, boost clock "
        "1410 MHz",
        ("a100-sxm4-40gb", "a100-pcie-40gb"),
    ),
    DeviceProfile(
        "b200",
        8000 * _G,
        _rates(
            core_fp32=75,
            core_fp64=37,
            tensor_fp64=37,
            tensor_tf32=1125,
            tensor_fp16=2250,
            tensor_bf16=2250,
            tensor_fp8=4500,
            tensor_fp4=9000,
        ),
        "NVIDIA DGX B200 Datasheet (memory) and the specifications of NVIDIA HGX B200 (rates), "
        "an eighth of each; dense (half of the sparse rates that they state), boost clock not "
        "stated",
        ("b200",),
    ),
    DeviceProfile(
        "l40s",
        864 * _G,
        _rates(
            core_fp32=91.6,
            tensor_tf32=183,
            # It prints 362.05 in their place, which is not half of 733, its rate with sparsity.
            tensor_fp16=366.5,
            tensor_bf16=366.5,
            tensor_fp8=733,
            tensor_int8=733,
        ),
        "NVIDIA L40S Datasheet; dense (half of the sparse rates beside), boost clock 2520 MHz",
        ("l40s",),
    ),
    DeviceProfile(
        "l4",
        300 * _G,
        _rates(
            core_fp32=30.3,
            tensor_tf32=60,
            tensor_fp16=121,
            tensor_bf16=121,
            tensor_fp8=242.5,
            tensor_int8=242.5,
        ),
        "NVIDIA L4 Tensor Core GPU Datasheet; dense (half of the sparse rates that it states), "
        "boost clock 2040 MHz",
        ("nvidia l4",),
    ),
    DeviceProfile(
        "rtx-4090",
        1008 * _G,
        _rates(
            core_fp32=82.6,
            tensor_tf32=82.6,
            # With float32 sums, which GeForce cards make at half the rate of float16 sums.
            tensor_fp16=165.2,
            tensor_bf16=165.2,
            tensor_fp8=330.3,
            tensor_int8=660.6,
        ),
        "NVIDIA Ada GPU Architecture (whitepaper), appendix A, GeForce RTX 4090; dense, boost "
        "clock 2520 MHz",
        ("rtx 4090",),
    ),
    DeviceProfile(
        "v100-sxm2",
        900 * _G,
        _rates(core_fp32=15.7, core_fp64=7.8, tensor_fp16=125),
        "NVIDIA V100 Tensor Core GPU Datasheet, V100 SXM2; dense, boost clock 1530 MHz",
        ("v100-sxm2-16gb", "v100-sxm2-32gb"),
    ),
    DeviceProfile(
        "mi300x",
        5300 * _G,
        _rates(
            core_fp32=163.4,
            core_fp64=81.7,
            tensor_fp64=163.4,
            tensor_tf32=653.7,
            tensor_fp16=1307.4,
            tensor_bf16=1307.4,
            tensor_fp8=2614.9,
            tensor_int8=2614.9,
        ),
        "AMD Instinct MI300X Accelerator Data Sheet; dense, peak engine clock 2100 MHz",
        ("mi300x", "mi300x oam"),
    ),
)
"""Every card, the most likely first."""


def card_named(name: str) -> DeviceProfile | None:
    """The card with the name of a profile."""
    return next((card for card in CARDS if card.name == name), None)


def card_of(device_name: str) -> DeviceProfile | None:
    """The card that a driver calls so, None for one that is not here.

    The name has to end with the card's: an L40 is no L40S, and a laptop's chip is another one.
    """
    folded = f" {device_name.casefold()}"
    for card in CARDS:
        if any(folded.endswith(f" {name}") for name in card.device_names):
            return card
    return None
