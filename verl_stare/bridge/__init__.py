"""The adapters between verl's trainer and `verl_stare.algo`: names and seams, no arithmetic."""
