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
    "L": "l liter litre", "mL": "ml milliliter millilitre", "eV": "", "Hz": "hertz", "J": "joule",
    "kJ": "kilojoule", "N": "newton", "W": "watt", "V": "volt", "Pa": "pascal", "mol": "mole",
    "angstrom": "AA", "K": "kelvin", "euro": "", "pound": "", "yen": "", "ordinal": "st nd rd th",
    PERCENT: "pct percentage", "square": "sq", "unit": "units",
    "pc": "parsec", "erg": "ergs", "bit": "bits", "people": "person", "gal": "gallon", "kcal": "",
    "child": "children", "man": "men", "woman": "women", "rpm": "", "am": "AM Am", "pm": "PM Pm",
}  # fmt: skip
_ALIASES = {name: unit for unit, names in _NAMES.items() for name in [unit, *names.split()]}

# Quotients of letters that are units before they are formulas.
_RATES = frozenset(
    unit.replace("_", " ")
    for line in (
        "m/s m/s^2 cm/s cm/s^2 mm/s km/s km/h km/min m/min m/h mi/h ft/s ft/s^2 ft/min in/s rad/s",
        "rad/s^2 g/mL g/cm^3 g/m^3 kg/m^3 kg/L mg/L mg/mL g/mol kg/mol mol/L mol/m^3 J/mol kJ/mol",
        "J/K J/kg J/m^3 N/m N/m^2 N/C V/m W/m^2 W/m erg/s L/min L/s L/h mL/min mL/s m^3/s m^2/s",
        "ft^3/s eV/K kg_m/s kg_m/s^2",
    )
    for unit in line.split()
)
# One way only to match each character: spaces are single, and stand in one alternative.
_TEXT_GROUP = re.compile(
    r"(?P<value>.*?) ?(?P<unit>(?:/ ?)?(?:\\mu ?)?\\text ?\{[^{}]*\}"
    r"(?:\^ ?\{?-?\d+\}?|[/ *]|\\cdot|\\text ?\{[^{}]*\}|cubed|squared)*)"
)
_BRACED = re.compile(r"(?P<value>.*?\d\s*)\{\s*(?P<unit>[a-zA-Z ]{2,})\s*\}")
_WORDS = re.compile(
    r"(?P<value>.*?(?:[\d})]|\\pi)) ?(?P<unit>[a-zA-Z¢]+\.?"
    r"(?:(?: ?[/*] ?| |-)[a-zA-Z]+\.?| ?\^ ?\{?-?\d+\}?)*)"
)
_SIGNS = re.compile(
    r"(?P<value>.*[\d})])\s*(?P<unit>\\(?:AA|Omega|mu\s*[a-zA-Z]))(?![a-zA-Z])", re.DOTALL
)
_PART = r"(?:\\text ?\{[^{}]*\}|[^{}])+"
_BARE = re.compile(
    r"(?P<value>[-\d.,]*\d) ?(?:(?P<unit>[a-zA-Z]+(?:[ */][a-zA-Z]+|\^ ?\{?-?\d\}?)*)"
    rf"|\\frac ?\{{(?P<top>{_PART})\}} ?\{{(?P<bottom>{_PART})\}})"
)
_CURRENCIES = {"\\$": "dollar", "USD": "dollar", "€": "euro", "£": "pound", "¥": "yen"}
_PRIMES = re.compile(r"(?P<value>[-\d.,]*\d) ?(?P<unit>'{1,2}|\")")
_TRIGONOMETRY = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-zA-Z])")
_CURRENCY = re.compile(r"(?P<sign>-?)\s*(?P<of>\\\$|[€£¥]|USD\s)\s*(?P<value>.+)", re.DOTALL)
_BASE = re.compile(
    r"(?P<value>[0-9][0-9A-F]*)\s*_\s*\{?\s*(?:\\text\s*\{)?\s*(?P<base>\d+|[a-z]+)\s*\}?\}?"
)
# Words that say more than in what something is measured.
_NO_UNIT = re.compile(
    r"(?i)^\W*(?:squared|cubed)\b|\b(?:and|or|if|for|where|when|to|is|with|not|no|false|wrong|but|except|negative|inverse|mod"
    r"|modulo|minus|plus|factorial|over|less|more|least|most|about|approximately|hundred|dozen"
    r"|choose|tens|halves|thirds|fourths|quarters|fifths|sixths|sevenths|eighths|ninths|tenths"
    r"|hundredths|thousandths|sine|cosine|tangent"
    r"|(?:var)?(?:alpha|beta|gamma|delta|epsilon|zeta|theta|kappa|lambda|sigma|omega))\b"
)


def split_unit(text: str) -> tuple[str, str | None]:
    r"""The value and the unit (None where none is written) of a normalised text.

    Units are read from `\text{...}` groups, from known names, and from other words of four letters
    or more after a plain number. A single bare letter is a variable: `6m` is six times m.
    """
    text = " ".join(text.split())
    if len(text) > _LONGEST:
        return text, None
    currency = _CURRENCY.fullmatch(text)
    if currency is not None:
        value, unit = split_unit(currency["value"])
        return currency["sign"] + value, unit or _CURRENCIES[currency["of"].strip()]
    primes = _PRIMES.fullmatch(text)
    if primes is not None:
        return primes["value"], primes["unit"]
    if text.endswith("%"):
        return text[:-1].strip(), PERCENT
    # In "\\sin 30°" the degrees are the angle's.
    if text.endswith("°") and not _TRIGONOMETRY.search(text):
        return text[:-1].strip(), "degree"
    degrees = re.fullmatch(r"(.*?)\s*°\s*(?:\\text\s*\{\s*)?([CFK])\s*\}?", text, re.DOTALL)
    if degrees is not None:
        return degrees[1], f"degree {degrees[2].lower()}"
    base = _BASE.fullmatch(text)
    if base is not None:
        return base["value"], f"base {_spelt_base(base['base'])}"
    group = _TEXT_GROUP.fullmatch(text)
    whole = group is not None and group["value"].count("{") == group["value"].count("}")
    if group is not None and whole and group["value"] and _measures(group["unit"]):
        return group["value"].strip(), _unit(group["unit"])
    for pattern in (_BRACED, _WORDS, _SIGNS):
        words = pattern.fullmatch(text)
        if words is not None and _is_unit(words["value"], words["unit"], text):
            return words["value"].strip(), _unit(words["unit"])
    return text, None


def bare_unit(text: str, known: str | None) -> tuple[str, str] | None:
    r"""Value and unit of a number whose unit is written like variables: `5 m`, `10 \frac{m}{s^2}`.

    Only where nothing else is meant: letters are a unit if the other side says so, or if they are
    of a usual one (`m/s^2`); most quotients of letters are formulas (`3h/t`).

    Args:
        text: normalised, without a unit of the usual kinds.
        known: the unit of the other side, which is a number; None where none is written.
    """
    match = _BARE.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or read_number(match["value"]) is None:
        return None
    written = match["unit"] or f"{match['top']}/{match['bottom']}"
    names = re.findall(r"[a-zA-Z]+", written.replace("\\text", " "))
    if not names or not all(_singular(name) in _NAMES for name in names):
        return None
    unit = _unit(written)
    known_rate = unit in _RATES and not known
    return (match["value"].strip(), unit) if unit == known or known_rate else None


def _spelt_base(base: str) -> str:
    names = {"two": "2", "three": "3", "five": "5", "eight": "8", "ten": "10", "sixteen": "16"}
    return names.get(base, base)


def _connects(unit: str) -> bool:
    """Whether it says more: such a word, or a number that is no exponent."""
    plain = re.sub(r"\^ ?\{?-?\d+\}?|\\[a-zA-Z]+", "", unit)
    return (
        re.search(r"\d", plain) is not None
        or not re.search(r"[^\W\d_]", unit.replace("\\text", ""))
        or _NO_UNIT.search(unit) is not None
    )


def _measures(unit: str) -> bool:
    """Whether a unit is known, counts something (`ferrets`), or is written as units are (`kW`)."""
    names = re.findall(r"[a-zA-ZÅ¢]+", unit.replace("\\text", " "))
    return not _connects(unit) and any(
        _singular(name) in _NAMES
        or (len(name) > 3 and name.endswith("s"))
        or (1 < len(name) < 4 and not name.islower())
        for name in names
    )


def _is_unit(value: str, unit: str, text: str) -> bool:
    names = re.findall(r"[a-zA-ZÅ¢]+", unit)
    if not names or _connects(unit):
        return False
    known = [_singular(name) in _NAMES for name in names]
    spaced = text[len(value) :].startswith(" ") or value.endswith(" ")
    if read_number(value) is None:
        # "2\\sqrt{3} cm"
        return spaced and all(known) and min(map(len, names)) > 1
    if unit.startswith("\\"):
        return True
    # One bare letter is a variable, unless it is part of something like "m/s".
    if all(known) and (min(map(len, names)) > 1 or (spaced and _unit(unit) in _RATES)):
        return True
    # "12 ferrets": words, not a product of variables.
    return spaced and len(names[0]) >= 4 and _measures(unit)


def _unit(written: str) -> str:
    """One spelling of a unit: lower case, singular, known aliases, exponents without braces."""
    plain = re.sub(r"\\text|\\cdot|[{}().*\\]", " ", written)
    plain = re.sub(r"\s*\^\s*", "^", plain)
    plain = re.sub(r"\b(?:square|sq)\s+([a-zA-Z]+)", r"\1^2", plain)
    plain = re.sub(r"\b(?:cubic|cu)\s+([a-zA-Z]+)", r"\1^3", plain)
    plain = re.sub(r"([a-zA-Z]+)\s+squared", r"\1^2", plain)
    plain = re.sub(r"\bper\b", "/", plain)
    names = re.sub(r"[a-zA-Z¢Å]+", lambda name: _singular(name[0]), plain)
    names = re.sub(r"\s*/\s*", "/", " ".join(names.split()))
    # "m s^-1" is "m/s"
    names = re.sub(r" ([a-zA-ZÅ]+)\^-(\d)", r"/\1^\2", names).replace("^1", "")
    return {"mph": "mi/h", "kmh": "km/h"}.get(names, names)


def _singular(name: str) -> str:
    # Of two letters or less, capitals tell units apart: mW and MW.
    name = name if len(name) <= 2 else name.lower()
    if name in _ALIASES:
        return _ALIASES[name]
    single = name[:-1] if name.endswith("s") and len(name) > 3 else name
    return _ALIASES.get(single, single)
