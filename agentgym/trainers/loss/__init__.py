"""The package's losses beside PPO's clipped one: functions of a micro-batch's tokens, one file each."""
