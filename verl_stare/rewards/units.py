r"""Units, currency, percent and degrees after (or before) a value: `5 \text{ cm}`, `\$18`, `90°`.

A unit that only one side writes is taken as left off by the other; two that are written must be the
same. Nothing is converted: a question names the unit it wants.
"""

from __future__ import annotations

import re

from verl_stare.rewards.numbers import read_number

PERCENT = "percent"
# Nothing longer is a value with its unit.
_LONGEST = 400

_NAMES = {
    "cm": "centimeter centimetre cms", "mm": "millimeter millimetre", "m": "meter metre",
    "km": "kilometer kilometre kms", "in": "inch inche", "ft": "foot feet", "yd": "yard",
    "mi": "mile", "nm": "nanometer", "g": "gram gm", "kg": "kilogram kilo kgs", "mg": "milligram",
    "lb": "pound lbs", "oz": "ounce", "t": "ton tonne", "s": "second sec", "min": "minute",
    "h": "hour hr hrs", "day": "days", "week": "weeks", "month": "months", "year": "yr years",
    "degree": "deg", "radian": "rad", "dollar": "usd buck", "cent": "¢", "mph": "", "kmh": "kph",
    "l": "liter litre", "ml": "milliliter millilitre", "ev": "", "hz": "hertz", "j": "joule",
    "kj": "kilojoule", "n": "newton", "w": "watt", "v": "volt", "pa": "pascal", "mol": "mole",
    "angstrom": "", "k": "kelvin", PERCENT: "pct percentage", "square": "sq", "unit": "units",
    "pc": "parsec", "erg": "ergs", "bit": "bits", "people": "person", "coin": "", "apple": "",
}  # fmt: skip
_ALIASES = {name: unit for unit, names in _NAMES.items() for name in [unit, *names.split()]}

_TEXT_GROUP = re.compile(
    r"(?P<value>.*?)\s*(?P<unit>(?:/\s*)?(?:\\mu\s*)?\\text\s*\{[^{}]*\}(?:\s*(?:\^\s*(?:\{?-?\d+\}?)|[/\s*]|\\cdot"
    r"|\\text\s*\{[^{}]*\}|cubed|squared))*)\s*",
    re.DOTALL,
)
_BRACED = re.compile(r"(?P<value>.*?\d\s*)\{\s*(?P<unit>[a-zA-Z ]{2,})\s*\}")
_WORDS = re.compile(
    r"(?P<value>.*?[\d})])\s*(?P<unit>(?:[a-zA-ZÅ¢]+\.?)(?:(?:\s*[/\s*-]\s*|\s*\^\s*)"
    r"(?:[a-zA-Z]+\.?|\{?-?\d\}?))*)"
)
_SIGNS = re.compile(
    r"(?P<value>.*[\d})])\s*(?P<unit>\\(?:AA|Omega|mu\s*[a-zA-Z]))(?![a-zA-Z])", re.DOTALL
)
_CURRENCY = re.compile(r"(?P<sign>-?)\s*(?:\\\$|[€£¥]|USD\s)\s*(?P<value>.+)", re.DOTALL)
_BASE = re.compile(
    r"(?P<value>[0-9][0-9A-F]*)\s*_\s*\{?\s*(?:\\text\s*\{)?\s*(?P<base>\d+|[a-z]+)\s*\}?\}?"
)
_CONNECTORS = frozenset({"and", "or", "if", "for", "where", "when", "to", "is", "with"})


def split_unit(text: str) -> tuple[str, str | None]:
    r"""The value and the unit (None where none is written) of a normalised text.

    Units are read from `\text{...}` groups, from known names, and from other words of four letters
    or more after a plain number. A single bare letter is a variable: `6m` is six times m.
    """
    text = text.strip()
    if len(text) > _LONGEST:
        return text, None
    currency = _CURRENCY.fullmatch(text)
    if currency is not None:
        value, unit = split_unit(currency["value"])
        return currency["sign"] + value, unit or "dollar"
    if text.endswith("%"):
        return text[:-1].strip(), PERCENT
    if text.endswith("°"):
        return text[:-1].strip(), "degree"
    degrees = re.fullmatch(r"(.*?)\s*°\s*(?:\\text\s*\{\s*)?([CFK])\s*\}?", text, re.DOTALL)
    if degrees is not None:
        return degrees[1], f"degree {degrees[2].lower()}"
    base = _BASE.fullmatch(text)
    if base is not None:
        return base["value"], f"base {_spelt_base(base['base'])}"
    group = _TEXT_GROUP.fullmatch(text)
    if group is not None and group["value"] and not _connects(group["unit"]):
        return group["value"].strip(), _unit(group["unit"])
    for pattern in (_BRACED, _WORDS, _SIGNS):
        words = pattern.fullmatch(text)
        if words is not None and _is_unit(words["value"], words["unit"], text):
            return words["value"].strip(), _unit(words["unit"])
    return text, None


def _spelt_base(base: str) -> str:
    names = {"two": "2", "three": "3", "five": "5", "eight": "8", "ten": "10", "sixteen": "16"}
    return names.get(base, base)


def _connects(unit: str) -> bool:
    return not _CONNECTORS.isdisjoint(re.findall(r"[a-z]+", unit.lower()))


def _is_unit(value: str, unit: str, text: str) -> bool:
    names = re.findall(r"[a-zA-ZÅ¢]+", unit)
    if not names or _connects(unit):
        return False
    if read_number(value) is None:
        return False
    if unit.startswith("\\"):
        return True
    known = [_singular(name.lower()) in _ALIASES for name in names]
    spaced = text[len(value) :].startswith(" ") or value.endswith(" ")
    # One bare letter is a variable, unless it is part of something like "m/s".
    if all(known) and (min(map(len, names)) > 1 or ("/" in unit and spaced)):
        return True
    # "12 ferrets": words, not a product of variables.
    return spaced and len(names[0]) >= 4


def _unit(written: str) -> str:
    """One spelling of a unit: lower case, singular, known aliases, exponents without braces."""
    plain = re.sub(r"\\text|\\cdot|[{}().*]", " ", written)
    plain = re.sub(r"\s*\^\s*", "^", plain)
    plain = re.sub(r"\b(?:square|sq)\s+([a-zA-Z]+)", r"\1^2", plain)
    plain = re.sub(r"\b(?:cubic|cu)\s+([a-zA-Z]+)", r"\1^3", plain)
    plain = re.sub(r"([a-zA-Z]+)\s+squared", r"\1^2", plain)
    plain = re.sub(r"\bper\b", "/", plain)
    names = re.sub(r"[a-zA-Z¢Å]+", lambda name: _singular(name[0].lower()), plain)
    return re.sub(r"\s*/\s*", "/", " ".join(names.split()))


def _singular(name: str) -> str:
    if name in _ALIASES:
        return _ALIASES[name]
    single = name[:-1] if name.endswith("s") and len(name) > 3 else name
    return _ALIASES.get(single, single)
