"""The built-in losses other than PPO's clipped loss: functions of a micro-batch's tokens, one file each."""
