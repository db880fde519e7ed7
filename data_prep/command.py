"""The command line that all scripts share."""

import argparse
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from data_prep.dataset import TEST, TRAIN, Dataset
from data_prep.evaluation import FOLDER
from data_prep.preparation import Options, prepare, report
from data_prep.schema import AGENTS, BOXED, PLACEHOLDER
from data_prep.sources import SUFFIXES, Source, SourceError, locate

EXIT_CODES = """\
exit codes: 0 done; 1 a source or the disk is at fault (one line says how, nothing is written);
2 wrong usage."""


def main(
    name: str,
    description: str | None,
    *datasets: Dataset,
    arguments: Sequence[str] | None = None,
) -> None:
    """Prepare `datasets`, of which several make one set; exits like a command.

    Args:
        name: of the script.
        description: what it makes and what is known to be wrong with the source.
        arguments: instead of the command line's.
    """
    # Turned into an exception, so that a killed run leaves nothing half written.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = _parser(name, description or "", datasets)
    args = parser.parse_args(arguments)
    try:
        options = _options(args, datasets)
    except ValueError as error:
        parser.error(str(error))
    try:
        parts = _sources(args, datasets)
        splits = _splits(args, parts)
        trains = options.decontaminate and TRAIN in splits
        options = replace(options, splits=splits, decontaminate=trains)
        manifest = prepare(name, parts, options, args.out)
    except SourceError as error:
        sys.exit(f"{parser.prog}: error: {error}")
    except OSError as error:
        sys.exit(f"{parser.prog}: error: cannot write {args.out}: {error}")
    print(report(manifest, args.out))


def _sources(args: argparse.Namespace, datasets: Sequence[Dataset]) -> list[tuple[Dataset, Source]]:
    if len(datasets) == 1:
        dataset = replace(datasets[0], unnamed=args.split)
        return [(dataset, locate(args.source, args.revision, dataset.patterns(args.source)))]
    chosen = {dataset.name: getattr(args, dataset.name) for dataset in datasets}
    return [
        (dataset, locate(chosen[dataset.name], None, dataset.patterns(chosen[dataset.name])))
        for dataset in datasets
        if chosen[dataset.name] != "none"
    ]


def _splits(args: argparse.Namespace, parts: Sequence[tuple[Dataset, Source]]) -> tuple[str, ...]:
    """The split asked for, or those that the sources' files are of.

    Raises:
        SourceError: a file does not say of which it is.
    """
    found = set()
    for dataset, source in parts:
        for file in source.files:
            split = dataset.split_of(source.name(file))
            if split is None:
                raise SourceError(
                    f"{file}: its name does not say which of {', '.join(dataset.splits)} it is: "
                    "name it with --split"
                )
            found.add(split)
    return (args.split,) if args.split else tuple(s for s in parts[0][0].splits if s in found)


def _options(args: argparse.Namespace, datasets: Sequence[Dataset]) -> Options:
    """Check what the parser cannot.

    Raises:
        ValueError: a value is not allowed, or would have no effect.
    """
    splits = (args.split,) if args.split else datasets[0].splits
    trains = TRAIN in splits
    if len(datasets) > 1 and all(getattr(args, dataset.name) == "none" for dataset in datasets):
        raise ValueError("every source is none")
    if args.no_decontaminate and (args.against or args.threshold is not None):
        raise ValueError("--no-decontaminate: --against and --threshold would have no effect")
    return Options(
        template=_text(args.template),
        system_prompt=_text(args.system_prompt),
        agent_name=args.agent_name,
        splits=tuple(splits),
        limit=args.limit,
        seed=args.seed,
        row_group_size=args.row_group_size,
        decontaminate=trains and not args.no_decontaminate,
        threshold=0.5 if args.threshold is None else args.threshold,
        against=tuple(args.against or ()),
    )


def _text(given: str) -> str:
    """`given` itself, or after an @ the text of the file it names."""
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{given}: cannot be read: {error}") from error


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be at least 1")
    return number


def _parser(name: str, description: str, datasets: Sequence[Dataset]) -> argparse.ArgumentParser:
    head = datasets[0]
    default_out = FOLDER / name if head.splits == (TEST,) else Path("data") / name
    parser = argparse.ArgumentParser(
        prog=f"{name}.py",
        description=f"{description.strip()}\n\n{_columns(datasets)}",
        epilog=f"{_examples(name, datasets)}\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    files = (
        f"a local file or folder ({', '.join(SUFFIXES)}), or an id of the Hugging Face hub "
        "(owner/name or owner/name@revision)"
    )
    if len(datasets) == 1:
        parser.add_argument(
            "--source",
            default=head.hub,
            help=f"{files}, fetched into its cache (default {head.hub})",
        )
        parser.add_argument(
            "--revision", help="branch, tag or commit of the hub's set (default its newest)"
        )
    else:
        for dataset in datasets:
            parser.add_argument(
                f"--{dataset.name.replace('_', '-')}",
                dest=dataset.name,
                metavar="SOURCE",
                default=dataset.hub,
                help=f"{files}; none leaves it out (default {dataset.hub})",
            )
    parser.add_argument(
        "--out",
        type=Path,
        default=default_out,
        help=f"folder to write into (default {default_out})",
    )
    parser.add_argument(
        "--split",
        choices=head.splits,
        help="write this one alone, and take files whose name has none to be of it (default: all "
        f"that there are of {', '.join(head.splits)})",
    )
    parser.add_argument("--limit", type=_positive, metavar="N", help="keep N rows of a split")
    parser.add_argument("--seed", type=int, default=1, help="draws them (default 1)")
    parser.add_argument(
        "--template",
        default=BOXED,
        help=f"text with {PLACEHOLDER} in it, or @FILE with that (default: the problem, a newline, "
        "Please reason step by step, and put your final answer within \\boxed{}.)",
    )
    parser.add_argument(
        "--system-prompt", default="", help="text, or @FILE (default: the chat template's own)"
    )
    parser.add_argument(
        "--agent-name",
        choices=AGENTS,
        default=head.agent_name,
        help=f"verl's agent loop for the rows (default {head.agent_name})",
    )
    parser.add_argument(
        "--row-group-size",
        type=_positive,
        default=512,
        metavar="N",
        help="rows a parquet row group (default 512)",
    )
    _add_decontamination(parser, TRAIN in head.splits)
    return parser


def _add_decontamination(parser: argparse.ArgumentParser, trains: bool) -> None:
    if not trains:
        parser.set_defaults(against=None, threshold=None, no_decontaminate=True)
        return
    group = parser.add_argument_group("decontamination of train.parquet")
    group.add_argument(
        "--against",
        nargs="+",
        metavar="PATH",
        help=f"prepared evaluation files, or folders of them (default: all six in {FOLDER})",
    )
    group.add_argument(
        "--threshold",
        type=float,
        help="reject a row with more than this share of an item's 13-grams (default 0.5)",
    )
    group.add_argument(
        "--no-decontaminate", action="store_true", help="keep rows that are in an evaluation set"
    )


def _columns(datasets: Sequence[Dataset]) -> str:
    lines = []
    for dataset in datasets:
        forms = "; or ".join(" + ".join(form) for form in dataset.forms)
        lines.append(f"columns read{f' of {dataset.name}' * (len(datasets) > 1)}: {forms}")
    return "\n".join(lines)


def _examples(name: str, datasets: Sequence[Dataset]) -> str:
    head = datasets[0]
    source = "--source" if len(datasets) == 1 else f"--{head.name.replace('_', '-')}"
    lines = [
        "examples:",
        f"  python data_prep/{name}.py",
        f"  python -m data_prep.{name} {source} downloads/{head.name} --out /tmp/{name}",
    ]
    if TRAIN in head.splits:
        lines.append(f"  python data_prep/{name}.py --limit 512 --no-decontaminate --out /tmp/few")
    return "\n".join(lines)
