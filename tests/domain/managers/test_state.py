"""State that lives from step to step."""

from collections.abc import Mapping

import pytest
import torch

from domain.errors import ConfigurationError, DataError
from domain.managers.state import Stateful, select, set_rows
from tests.support.small_env import mask

CPU = torch.device("cpu")


class Parent(Stateful):
    def __init__(self) -> None:
        super().__init__()
        self.own = self.keep("own", torch.zeros(2))
        self.child = Stateful()
        self.inner = self.child.keep("inner", torch.zeros(3, dtype=torch.int64))

    def children(self) -> list[tuple[str, object]]:
        return [("child", self.child), ("stateless", object())]


def test_children_are_saved_under_their_name() -> None:
    assert set(Parent().state_dict()) == {"own", "child/inner"}


def test_a_saved_state_is_a_copy_and_loads_in_place() -> None:
    saved, loaded = Parent(), Parent()
    saved.own.fill_(1.0)
    saved.inner.fill_(2)
    state = saved.state_dict()
    saved.own.fill_(9.0)
    storage = loaded.own.data_ptr()

    loaded.load_state_dict(state)

    assert loaded.own.tolist() == [1.0, 1.0]
    assert loaded.inner.tolist() == [2, 2, 2]
    assert loaded.own.data_ptr() == storage


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"own": None}, "lacks 'own'"),
        ({"child/inner": None}, "lacks 'child/inner'"),
        ({"extra": torch.zeros(1)}, "has an unknown 'extra'"),
        ({"own": torch.zeros(3)}, r"'own' is torch.float32 of shape \(3,\)"),
        ({"child/inner": torch.zeros(3)}, "'child/inner' is torch.float32"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_before_anything_changes(
    change: dict[str, torch.Tensor | None], match: str
) -> None:
    saved, loaded = Parent(), Parent()
    saved.own.fill_(1.0)
    changed = {**saved.state_dict(), **change}
    state = {name: tensor for name, tensor in changed.items() if tensor is not None}

    with pytest.raises(DataError, match=match):
        loaded.load_state_dict(state)
    assert loaded.own.tolist() == [0.0, 0.0]


def test_a_part_may_refuse_a_state_before_anything_changes_and_before_its_shapes_are_looked_at() -> None:
    class Even(Stateful):
        def __init__(self) -> None:
            super().__init__()
            self.number = self.keep("number", torch.zeros(1))

        def check_state(self, state: Mapping[str, torch.Tensor]) -> None:
            if state["number"][0] % 2 != 0:
                raise DataError("odd")

    loaded = Parent()
    loaded.child = Even()
    state = {"own": torch.ones(2), "child/number": torch.tensor([2.0])}

    loaded.load_state_dict(state)
    with pytest.raises(DataError, match="odd"):
        loaded.load_state_dict({"own": torch.full((3,), 5.0), "child/number": torch.tensor([3.0])})
    with pytest.raises(DataError, match="lacks 'child/number'"):
        loaded.load_state_dict({"own": torch.ones(2)})

    assert loaded.own.tolist() == [1.0, 1.0]
    assert loaded.state_dict()["child/number"].tolist() == [2.0]


def test_two_tensors_of_one_name_are_refused() -> None:
    part = Parent()

    with pytest.raises(ConfigurationError, match="Parent keeps two tensors called 'own'"):
        part.keep("own", torch.zeros(1))


def test_select_takes_whole_prefixes() -> None:
    one = torch.zeros(1)

    assert set(select({"a/b": one, "ab/c": one, "a/c/d": one}, "a")) == {"b", "c/d"}


def test_set_rows_writes_tensors_and_numbers_in_place() -> None:
    table = torch.zeros(2, 2)
    view = table[:, 1]

    set_rows(view, mask(0, 1), torch.tensor([5.0, 6.0]))
    set_rows(table[:, 0], mask(1, 0), 7.0)

    assert table.tolist() == [[7.0, 0.0], [0.0, 6.0]]
