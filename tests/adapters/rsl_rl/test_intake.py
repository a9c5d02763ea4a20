import pytest
import torch

from adapters.rsl_rl.intake import ObservationIntake

CPU = torch.device("cpu")
WIDTHS = {"actor": 2, "critic": 3}


def observations(device: torch.device) -> dict[str, torch.Tensor]:
    values = torch.arange(24.0, device=device).view(4, 6)
    return {"critic": values[:, :3], "actor": values[:, 3:5], "camera": values[:, 5:]}


def test_on_one_device_the_groups_that_are_needed_are_handed_on_as_they_are() -> None:
    given = observations(CPU)

    taken = ObservationIntake(WIDTHS, 4, CPU, CPU)(given)

    assert set(taken.keys()) == {"actor", "critic"}
    assert taken["actor"].data_ptr() == given["actor"].data_ptr()


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_between_devices_all_groups_come_in_one_copy() -> None:
    cuda = torch.device("cuda", 0)
    intake = ObservationIntake(WIDTHS, 4, CPU, cuda)
    given = observations(CPU)
    intake(given)
    torch.cuda.synchronize()

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        taken = intake(given)
        torch.cuda.synchronize()

    copies = [event for event in profile.events() or () if "Memcpy HtoD" in event.name]
    assert len(copies) == 1
    for name in WIDTHS:
        assert taken[name].device == cuda
        assert torch.equal(taken[name].cpu(), given[name])
