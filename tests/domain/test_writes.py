"""Who may write which rows, and when."""

import pytest
import torch

from domain.errors import CapabilityError, SimulationError
from domain.physics import StateWrite
from domain.view import EnvView
from tests.support.fake_backend import DEFAULT_QPOS, FakeBackend
from tests.support.small_env import make_view, mask


@pytest.fixture
def view() -> EnvView:
    env = make_view(2)
    env.writes.model_field("body_mass")
    env.writes.begin_step()
    return env


def test_a_write_lands_in_the_rows_of_both_masks(view: EnvView) -> None:
    robot = view.entity("robot")
    with view.writes.transaction(mask(1, 0), "test"):
        view.writes.write_root_velocity(robot, torch.full((2, 6), 3.0), mask(1, 0))
    view.writes.commit()

    assert view.state.qvel[:, :6].tolist() == [[3.0] * 6, [0.0] * 6]


def test_a_write_outside_the_transaction_is_counted_and_not_applied(view: EnvView) -> None:
    with view.writes.transaction(mask(1, 0), "test"):
        view.writes.write_root_velocity(view.entity("robot"), torch.full((2, 6), 3.0), mask(1, 1))
    view.writes.commit()

    assert view.state.qvel[1].tolist() == [0.0] * 9
    assert view.writes.outside.tolist() == [False, True]


def test_a_second_transaction_inside_another_is_refused(view: EnvView) -> None:
    with (
        view.writes.transaction(mask(1, 1), "first"),
        pytest.raises(SimulationError, match="second opens a transaction inside that of first"),
        view.writes.transaction(mask(1, 1), "second"),
    ):
        pass


def test_a_transaction_that_failed_is_closed(view: EnvView) -> None:
    with pytest.raises(ZeroDivisionError), view.writes.transaction(mask(1, 1), "first"):
        raise ZeroDivisionError

    with view.writes.transaction(mask(1, 1), "second"):
        view.writes.stage_reset()
    assert view.writes.reset.all()


def test_who_needs_a_transaction_is_told_where_none_is_open(view: EnvView) -> None:
    with pytest.raises(SimulationError, match="a wrap needs an open transaction"):
        view.writes.require_open("a wrap")

    with view.writes.transaction(mask(0, 1), "test"):
        view.writes.require_open("a wrap")
    with pytest.raises(SimulationError, match="a wrap needs an open transaction"):
        view.writes.require_open("a wrap")
    assert not view.writes.staged


def test_a_second_commit_is_refused(view: EnvView) -> None:
    view.writes.commit()

    with pytest.raises(SimulationError, match="committed already"):
        view.writes.commit()


def test_a_commit_inside_a_transaction_is_refused(view: EnvView) -> None:
    with view.writes.transaction(mask(1, 1), "push"), pytest.raises(SimulationError, match="transaction of push"):
        view.writes.commit()


def test_a_transaction_after_the_commit_is_refused(view: EnvView) -> None:
    view.writes.commit()

    with pytest.raises(SimulationError, match="after the step's commit"), view.writes.transaction(mask(1, 1), "late"):
        pass


def test_a_write_without_a_transaction_is_refused(view: EnvView) -> None:
    with pytest.raises(SimulationError, match="needs an open transaction"):
        view.writes.write_root_velocity(view.entity("robot"), torch.zeros(2, 6), mask(1, 1))
    with pytest.raises(SimulationError, match="needs an open transaction"):
        view.writes.stage_reset()


def test_randomisation_in_a_commands_transaction_is_refused(view: EnvView) -> None:
    with (
        view.writes.transaction(mask(1, 1), "wrap", command=True),
        pytest.raises(SimulationError, match="wrap writes model field 'body_mass' in a command's transaction"),
    ):
        view.writes.write_field("body_mass", torch.ones(2, 5), mask(1, 1))


def test_a_command_may_not_change_its_row_set(view: EnvView) -> None:
    robot, rows = view.entity("robot"), mask(1, 0)
    with view.writes.transaction(mask(1, 1), "wrap", command=True):
        view.writes.write_root_velocity(robot, torch.zeros(2, 6), rows)
        view.writes.write_root_pose(robot, view.writes.root_pose(robot).clone(), rows)
        with pytest.raises(SimulationError, match="wrap changes its row set"):
            view.writes.write_root_velocity(robot, torch.zeros(2, 6), mask(0, 1))


def test_an_event_may_write_several_row_sets(view: EnvView) -> None:
    robot = view.entity("robot")
    with view.writes.transaction(mask(1, 1), "events"):
        view.writes.write_root_velocity(robot, torch.ones(2, 6), mask(1, 0))
        view.writes.write_root_velocity(robot, torch.ones(2, 6), mask(0, 1))

    assert view.writes.written.all()


def test_a_state_of_another_shape_is_refused(view: EnvView) -> None:
    with (
        view.writes.transaction(mask(1, 1), "push"),
        pytest.raises(SimulationError, match=r"push writes a state of shape \(2, 1\), expected \(2, 6\)"),
    ):
        view.writes.write_root_velocity(view.entity("robot"), torch.zeros(2, 1), mask(1, 1))


def test_a_staged_reset_is_the_default_state_at_rest(view: EnvView) -> None:
    view.state.qpos.fill_(9.0)
    view.state.qvel.fill_(9.0)
    view.writes.begin_step()
    with view.writes.transaction(mask(0, 1), "reset"):
        view.writes.stage_reset()
    view.writes.commit()

    torch.testing.assert_close(view.state.qpos[1], torch.tensor(DEFAULT_QPOS))
    assert view.state.qvel[1].tolist() == [0.0] * 9
    assert view.writes.reset.tolist() == view.writes.written.tolist() == [False, True]


def test_a_new_step_stages_the_current_state(view: EnvView) -> None:
    robot = view.entity("robot")
    with view.writes.transaction(mask(1, 1), "push"):
        view.writes.write_root_velocity(robot, torch.ones(2, 6), mask(1, 1))
    view.state.qvel.fill_(5.0)

    view.writes.begin_step()

    assert view.writes.root_velocity(robot)[0].tolist() == [5.0] * 6
    assert not view.writes.written.any()


def test_a_field_reaches_the_physics_with_the_commit_for_the_masked_rows() -> None:
    backend = FakeBackend(2)
    view = make_view(backend=backend)
    nominal = view.writes.model_field("body_mass")
    view.writes.begin_step()
    with view.writes.transaction(mask(1, 1), "event"):
        view.writes.write_field("body_mass", 2.0 * nominal, mask(1, 0))
    assert backend.effective_field("body_mass")[0, 1] == 5.0

    view.writes.commit()

    assert backend.effective_field("body_mass")[:, 1].tolist() == [10.0, 5.0]


def test_a_field_that_the_backend_lacks_is_refused(view: EnvView) -> None:
    with pytest.raises(CapabilityError, match="'wind'"):
        view.writes.model_field("wind")


def test_the_saved_state_holds_field_tables_and_stray_rows(view: EnvView) -> None:
    assert set(view.writes.state_dict()) == {"outside", "fields/body_mass"}


class LastWrite(FakeBackend):
    """Remembers the fields of the last commit."""

    fields: tuple[str, ...] = ()

    def commit(self, write: StateWrite) -> None:
        self.fields = tuple(write.fields)
        super().commit(write)


def test_a_commit_names_only_the_fields_that_a_term_wrote_in_its_step() -> None:
    backend = LastWrite(2)
    writes = make_view(backend=backend).writes
    nominal = writes.model_field("body_mass")
    seen = []

    for randomises in (True, False):
        writes.begin_step()
        with writes.transaction(mask(0, 0), "test"):  # no row: what counts is that a term wrote at all
            writes.stage_reset()
            if randomises:
                writes.write_field("body_mass", nominal, mask(0, 0))
        writes.commit()
        seen.append(backend.fields)

    assert seen == [("body_mass",), ()]
