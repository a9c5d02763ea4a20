"""Saved forms: copies, and one refusal for everything that does not fit."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from domain.errors import DataError
from domain.learning.payload import pack, restore_generator, unpack

SHAPE = {"obs": 5, "atoms": 11, "hidden": [16, 8]}
COUNTERS = {"updates": 12, "policy_version": 3}


def own() -> dict[str, torch.Tensor]:
    """Return a learner's tensors."""
    return {"weight": torch.tensor([1.0, 2.0]), "step": torch.tensor(3)}


def payload(**changes: Any) -> dict[str, object]:
    """Return a good payload with some entries exchanged."""
    return {**pack("sac", SHAPE, own(), COUNTERS, torch.Generator().manual_seed(4)), **changes}


def test_a_payload_gives_back_what_went_in() -> None:
    tensors, counters, rng = unpack(payload(), "sac", SHAPE, own())

    assert tensors.keys() == own().keys()
    assert all(torch.equal(tensors[name], value) for name, value in own().items())
    assert counters == COUNTERS
    generator, twin = torch.Generator().manual_seed(9), torch.Generator().manual_seed(4)
    restore_generator(generator, rng, 1)
    assert torch.equal(torch.rand(3, generator=generator), torch.rand(3, generator=twin))


def test_a_payload_holds_copies() -> None:
    tensors = own()
    saved = pack("sac", SHAPE, tensors, COUNTERS, torch.Generator())

    tensors["weight"].zero_()

    kept = saved["tensors"]
    assert isinstance(kept, Mapping)
    assert kept["weight"].tolist() == [1.0, 2.0]


def test_a_payload_is_plain_data_beside_its_tensors() -> None:
    saved = payload()

    assert {type(value) for value in saved.values()} <= {int, str, dict}
    assert saved["format"] == 1
    rng = saved["rng"]
    assert isinstance(rng, dict)
    assert {type(value) for value in rng.values()} == {str}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "td3"}, "learnt by 'td3', not by 'sac': choose that algorithm"),
        ({"kind": None}, "learnt by 'None', not by 'sac'"),
        ({"format": 2}, "has format 2, this version reads 1"),
        ({"format": None}, "has format None, this version reads 1"),
        ({"shape": {**SHAPE, "obs": 6}}, "of another learner: obs is 6 there and 5 here$"),
        ({"shape": {**SHAPE, "hidden": [16, 9]}}, r"hidden is \[16, 9\] there and \[16, 8\] here"),
        ({"shape": {}}, "atoms is None there and 11 here; hidden is None there and .*; obs is None there and 5 here"),
        ({"shape": {**SHAPE, "blocks": 2}}, "blocks is 2 there and None here"),
        ({"shape": None}, "entry 'shape' is missing or damaged"),
        ({"tensors": None}, "entry 'tensors' is missing or damaged"),
        ({"tensors": [torch.zeros(2)]}, "entry 'tensors' is missing or damaged"),
        ({"counters": None}, "entry 'counters' is missing or damaged"),
        ({"rng": None}, "entry 'rng' is missing or damaged"),
        ({"tensors": {"step": torch.tensor(3)}}, "lacks tensor 'weight'"),
        ({"tensors": {**own(), "other": torch.zeros(1)}}, "has an unknown tensor 'other'"),
        ({"tensors": {**own(), "weight": [1.0, 2.0]}}, "lacks tensor 'weight'"),
        ({"tensors": {**own(), "weight": torch.zeros(3)}}, r"'weight' is torch.float32 of shape \(3,\), expected"),
        ({"tensors": {**own(), "weight": torch.zeros(2).double()}}, "'weight' is torch.float64 .* torch.float32"),
        ({"tensors": {**own(), "step": torch.tensor(3.0)}}, "'step' is torch.float32 .* expected torch.int64"),
        (
            {"tensors": {**own(), "weight": torch.tensor([1.0, torch.nan])}},
            "'weight' holds numbers that are not finite",
        ),
        (
            {"tensors": {**own(), "weight": torch.tensor([1.0, torch.inf])}},
            "'weight' holds numbers that are not finite",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        unpack(payload(**changes), "sac", SHAPE, own())


def test_every_field_that_differs_is_named_at_once() -> None:
    other = payload(shape={"obs": 6, "atoms": 12, "hidden": [16, 8]})

    with pytest.raises(DataError, match="atoms is 12 there and 11 here; obs is 6 there and 5 here"):
        unpack(other, "sac", SHAPE, own())


@pytest.mark.parametrize("entry", ["format", "kind", "shape", "tensors", "counters", "rng"])
def test_a_payload_without_an_entry_is_refused(entry: str) -> None:
    saved = payload()
    del saved[entry]

    with pytest.raises(DataError):
        unpack(saved, "sac", SHAPE, own())


def test_a_stream_of_another_type_of_device_starts_at_the_seed() -> None:
    generator = torch.Generator().manual_seed(9)

    restore_generator(generator, {"device": "cuda", "state": "00" * 16}, 77)

    assert torch.equal(torch.rand(3, generator=generator), torch.rand(3, generator=torch.Generator().manual_seed(77)))


@pytest.mark.parametrize(
    "rng",
    [
        {"device": "cpu", "state": "zz"},
        {"device": "cpu", "state": ""},
        {"device": "cpu", "state": "00" * 16},
        {"device": "cpu", "state": "00" * 5056},
        {"device": "cpu"},
        {"state": bytes(torch.Generator().get_state().untyped_storage()).hex()},
        {"device": 3, "state": ""},
        {},
    ],
    ids=["no numbers", "empty", "short", "zeros", "no state", "no device", "device is no name", "nothing"],
)
def test_a_damaged_stream_is_refused_and_the_own_one_goes_on(rng: dict[str, object]) -> None:
    generator = torch.Generator().manual_seed(9)
    before = generator.get_state()

    with pytest.raises(DataError, match="random state is damaged"):
        restore_generator(generator, rng, 77)

    assert torch.equal(generator.get_state(), before)
