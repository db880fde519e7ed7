"""Running verl's real trainer on a machine without an accelerator: for demos, tests and debugging.

verl gets a platform named `cpu` and a rollout named `hf` (generation by transformers), where no
accelerator is present or where they are asked for. They take effect only when asked for, by
`VERL_PLATFORM=cpu` and `actor_rollout_ref.rollout.name=hf`: a driver on the CPU-only head node of a
GPU cluster looks like a machine without a GPU, and must not be taken for one.
"""

# Our plugin, which `import verl` loads, imports modules of this package. Loading verl first lets it
# do so whichever of them a program imports first.
import verl as verl
