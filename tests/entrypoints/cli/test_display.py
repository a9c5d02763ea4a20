"""Text for people."""

from entrypoints.cli.display import short_config, table


def test_a_table_is_aligned() -> None:
    assert table([("a", "1"), ("long", "22")], headers=("x", "y")) == "x     y\n-     -\na     1\nlong  22"
    assert table([]) == ""


def test_a_configuration_is_one_line_a_term_without_usual_values() -> None:
    values = {
        "task": "walk",
        "algo": "sac",
        "train": {"num_envs": 8, "cpu_ids": None},
        "sac": {"gamma": 0.97},
        "runtime": {"trace": True},
        "commands": {},
        "observations": {
            "critic": {
                "enable_corruption": False,
                "terms": {
                    "joint_pos": {
                        "noise": {"kind": "uniform", "low": -0.1},
                        "clip": None,
                        "history_length": 1,
                        "params": {"asset": {"entity": "robot", "joints": ["a", "b"], "preserve_order": False}},
                    }
                },
            }
        },
        "rewards": {"alive": {"weight": 1e-3, "params": {}}},
    }

    assert short_config(values).splitlines() == [
        "train: num_envs 8",
        "sac: gamma 0.97",
        "runtime: trace true",
        "observations:",
        "  critic (no noise):",
        "    joint_pos: noise {kind uniform, low -0.1}, asset {joints [a, b]}",
        "rewards:",
        "  alive: weight 0.001",
    ]
