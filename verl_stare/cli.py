"""The command `verl-stare`. Loads what a subcommand needs only when that is run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from verl_stare import __version__
from verl_stare.preflight import command

DOCTOR = """\
Checks that STARE can act in the verl that is installed here, and says so line by line:

  versions        python, verl_stare, verl and the range that is supported, torch, ray, ...
  seams           each symbol of verl that STARE rests on: there, with the expected parameters?
  plugin          has verl loaded it in this process, and are its names, trainers and functions
                  in place?
  configuration   which of STARE's toggles a training command would switch on, and whether its
                  settings can be used; left out unless one of the options for it is given
  Ray's workers   the same inside a worker on every node, in the environment that verl gives them
"""

EXAMPLES = """\
examples:
  verl-stare doctor
  verl-stare doctor --no-ray
  verl-stare doctor --address auto                      # every node of the running cluster
  verl-stare doctor --override algorithm.adv_estimator=stare
  verl-stare doctor --expect-on --config-path /my/configs --config-name my_run \\
      algorithm.adv_estimator=stare +algorithm.stare.target_entropy=0.2

exit codes:
  0   all well
  1   a check failed: its line begins with FAIL
  2   wrong usage
"""


SANDBOX = """\
The sandbox runs the Python that a model writes. `check` prints what this machine has of each layer,
lets a canary try to get out of each tier, and names the tier that training would use:

  bwrap      namespaces of its own (bubblewrap), system call filter, limits
  landlock   for containers without namespaces: file access by Landlock, filter, limits
  none       filter and limits alone; only if asked for by name
"""

SANDBOX_EXAMPLES = """\
examples:
  verl-stare sandbox check
  verl-stare sandbox check --tier bwrap

exit codes:
  0   the wanted tier holds here
  1   it does not: each line says why
  2   wrong usage
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand, and return its exit code.

    Raises:
        SystemExit: after `--help` (0) and wrong usage (2).
    """
    arguments = _parser().parse_args(argv)
    return arguments.run(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="verl-stare",
        description="STARE for verl (arXiv 2606.19236). Training itself is verl's own command: "
        "python -m verl.trainer.main_ppo algorithm.adv_estimator=stare ...",
        epilog="`verl-stare COMMAND --help` explains a command.",
    )
    parser.add_argument("--version", action="version", version=f"verl_stare {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    doctor = commands.add_parser(
        "doctor",
        help="check that STARE can act here, in Ray's workers and with a configuration",
        description=DOCTOR,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_doctor_options(doctor)
    doctor.set_defaults(run=_doctor)
    sandbox = commands.add_parser(
        "sandbox",
        help="the sandbox for Python that a model writes",
        description=SANDBOX,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = sandbox.add_subparsers(metavar="ACTION", required=True)
    check = actions.add_parser(
        "check",
        help="which tier holds on this machine, and why",
        description=SANDBOX,
        epilog=SANDBOX_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    check.add_argument(
        "--tier",
        choices=("auto", "bwrap", "landlock", "none"),
        default="auto",
        help="the one that must hold (default: auto, bwrap or else landlock)",
    )
    check.set_defaults(run=_check_sandbox)
    preflight = commands.add_parser(
        "preflight",
        help="check a training command before any worker starts",
        description=command.DESCRIPTION,
        epilog=command.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_options(preflight)
    preflight.set_defaults(run=command.run)
    return parser


def _check_sandbox(arguments: argparse.Namespace) -> int:
    from verl_stare.sandbox import check

    return check.run(arguments.tier)


def _add_doctor_options(parser: argparse.ArgumentParser) -> None:
    config = parser.add_argument_group(
        "configuration", "Composed by Hydra as for python -m verl.trainer.main_ppo."
    )
    config.add_argument("--config-name", metavar="NAME", help="default: ppo_trainer, verl's own")
    config.add_argument(
        "--config-path",
        metavar="DIR",
        help="absolute, or relative to verl/trainer (default: config)",
    )
    config.add_argument(
        "--override",
        metavar="KEY=VALUE",
        type=_override,
        action="append",
        default=[],
        help="Hydra override; may be repeated",
    )
    config.add_argument(
        "overrides",
        metavar="KEY=VALUE",
        type=_override,
        nargs="*",
        help="more overrides, after the options, as in a training command",
    )
    config.add_argument(
        "--expect-on", action="store_true", help="fail if STARE would be off in this configuration"
    )
    ray = parser.add_argument_group("Ray").add_mutually_exclusive_group()
    ray.add_argument(
        "--address",
        metavar="ADDRESS",
        help="of a running cluster, or auto; default: start a small one here for the check",
    )
    ray.add_argument("--no-ray", action="store_true", help="do not look into Ray's workers")


def _override(text: str) -> str:
    # Hydra's `~key` removes a key.
    if "=" not in text and not text.startswith("~"):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return text


def _doctor(arguments: argparse.Namespace) -> int:
    from verl_stare import doctor
    from verl_stare.doctor.configuration import Configuration

    given = {
        "name": arguments.config_name,
        "path": arguments.config_path,
        "overrides": (*arguments.override, *arguments.overrides),
        "expect_on": arguments.expect_on,
    }
    given = {key: value for key, value in given.items() if value}
    return doctor.run(
        doctor.Options(
            with_ray=not arguments.no_ray,
            address=arguments.address,
            config=Configuration(**given) if given else None,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
