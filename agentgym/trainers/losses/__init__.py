"""The built-in losses except PPO's clipped loss: functions of a micro-batch's tokens, one file each."""
