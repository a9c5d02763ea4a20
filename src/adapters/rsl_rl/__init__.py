"""PPO of RSL-RL as an on-policy learner: its algorithm, models and storage, not its runner.

The only code that imports rsl_rl or tensordict; nothing else may be reached from here than the application's ports."""
