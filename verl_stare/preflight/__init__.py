"""Whether a training command can run, found out before any worker starts.

`verl-stare preflight` composes the configuration as verl does, validates it as verl does, and goes
on where verl would only find out on the workers: files and their columns, ranks and batch sizes,
lengths and the model's positions, GPUs and their memory. What is wrong is said in one line each.
"""
