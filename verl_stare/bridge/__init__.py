"""The adapters between verl's trainer and `verl_stare.algo`: names and seams, no arithmetic."""

# Our plugin, which `import verl` loads, imports modules of this package. Loading verl first lets it
# do so whichever of them a program imports first.
import verl as verl
