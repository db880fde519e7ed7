"""Whether two formulas are equal. Runs in the worker process only: it may take for ever or die.

Formulas are read by math-verify's parser (latex2sympy2_extended). Values are then compared to 38
digits, since its own comparison rounds to six decimals, and so takes 1/2004! for 1/2006! and 7e-12
for 8e-12; formulas with variables are compared in the same way at several points. math-verify
compares inequalities and sets.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy
from math_verify import verify
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational

from verl_stare.rewards.numbers import Number, read_number

# Of sympy, whose types say little.
Expr: TypeAlias = Any

DIGITS = 50
# Relative; far above the error of 50 digits and far below any difference of two written answers.
_SAME = sympy.Float(10) ** -38
# Of the points at which formulas are compared: real values are this times 1 to 3, and whole ones at
# most that. Small and large ones, since |x - 5| is 5 - x only up to 5.
_SCALES = [
    (sympy.Integer(1), 7),
    (sympy.Rational(1, 10), 12),
    (sympy.Integer(10), 30),
    (sympy.Integer(40), 150),
    (sympy.Integer(3), 70),
    (sympy.Integer(2), 10),
    (sympy.Integer(120), 400),
]
_CONVERSION = ConversionConfig(
    interpret_as_mixed_fractions=False,
    interpret_contains_as_eq=False,
    lowercase_symbols=False,
)
_INTEGER_FUNCTIONS = (
    sympy.floor,
    sympy.ceiling,
    sympy.factorial,
    sympy.binomial,
    sympy.gamma,
    sympy.Sum,
    sympy.Product,
    sympy.Mod,
)
_COUNTING = frozenset("abcdijklmnpqrstuvwNMKLPQ")
_PRIMES = re.compile(r"([a-zA-Z])('+)")
_DECIMAL = re.compile(r"\d\.\d|\.\d")
_UNFINISHED = re.compile(
    r"^\s*(?:[*/^]|\\(?:cdot|times|div)(?![a-zA-Z]))|(?:[-+*/^=_]|\\(?:cdot|times|div|pm))\s*$"
)
_ONE_SIDED = re.compile(r"\\to[^{}]*[\^0-9] ?\{? ?[-+] ?\}")
_NOT_READ = re.compile(r"\| ?_|\\(?:max|min|sup|inf|argmax|argmin)(?![a-zA-Z])")
_POWER_T = re.compile(r"\^ ?\{? ?T(?![a-zA-Z])")
_T = re.compile(r"\\[a-zA-Z]+|_ ?\{[^{}]*\}|_ ?T|T")
_DECIMAL_NUMBER = re.compile(
    r"(?<![\d.,_{])(\d*)\.(\d+)(?![\d.]|\s*\\ldots)|(?<=[^_]\{)(\d*)\.(\d+)(?![\d.])"
)
_TRIGONOMETRY = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-zA-Z])")
_WARM_UP = [
    (r"\frac{x+2}{7}", r"\frac{x}{7}+\frac{2}{7}"),
    (r"3\sqrt{13}", r"\sqrt{117}"),
    (r"2\pi-\sqrt[3]{7}", r"\frac{\sqrt{3}+1}{2}i"),
    (r"-34x-45y+20z-100=0", r"34x+45y-20z+100=0"),
    (r"f(x)=x^{2}-2x+2", r"\sin(2 t)e^{-\frac{t}{RC}}+C_{1}"),
    (r"\binom{2n}{n}+\lfloor\frac{n}{2}\rfloor", r"\log_{2} n + \ln 2 + n! + |n|"),
]


def warm_up() -> None:
    """Fill the parser's tables and sympy's caches, which every forked child then has."""
    for one, other in _WARM_UP:
        equal(one, other)


def equal(one: str, other: str) -> bool:
    """Whether two formulas in normalised LaTeX are equal; False if either cannot be read."""
    try:
        return _equal(one, other)
    # The parser and sympy raise all there is, on text that a model wrote.
    except Exception:
        return False


def _equal(one: str, other: str) -> bool:
    first, second = _read(one), _read(other)
    if _is_scalar(first) and _is_scalar(second):
        for text, number, value in ((one, first, second), (other, second, first)):
            decimal = read_number(text)
            if decimal is not None and decimal.places is not None and not value.free_symbols:
                exact = _value(value)
                if not exact.is_real:
                    return False
                if _DECIMAL.search(other if text is one else one) and _written_out(exact, decimal):
                    return _same(_value(number), exact)
                return decimal.stands_for(_fraction(exact)) or _same(_value(number), exact)
        return _same_formula(first, second)
    if isinstance(first, sympy.Eq) and isinstance(second, sympy.Eq):
        return _proportional(_left_minus_right(first), _left_minus_right(second)) is not None
    if isinstance(first, Relational) and isinstance(second, Relational):
        factor = _proportional(_below(first), _below(second))
        if factor is None or _kind(first) != _kind(second):
            return False
        return isinstance(first, sympy.Ne) or bool(factor > 0)
    if _is_scalar(first) or _is_scalar(second):
        return False
    return all(
        verify(gold, answer, float_rounding=12, allow_set_relation_comp=True, timeout_seconds=None)
        for gold, answer in ((first, second), (second, first))
    )


@lru_cache(maxsize=256)
def _read(text: str) -> Expr:
    # The parser drops primes, and with them the difference between y' and y.
    text = _PRIMES.sub(lambda match: f"{match[1]}_{{prime{len(match[2])}}}", text)
    text = re.sub(r"\\text\s*\{\s*([^{}]*?)\s*\}", r"\1", text)
    text = re.sub(r"(\d+(?:\.\d+)?)\s*%", r"\\frac{\1}{100}", text)
    if _TRIGONOMETRY.search(text):
        text = re.sub(r"(\d+(?:\.\d+)?)\s*°", r"(\1\\cdot \\frac{\\pi}{180})", text)
    text = re.sub(r"\^ ?([-+]) ?(?=\})", r"^{\1}", text)
    if _NOT_READ.search(text):
        raise ValueError(f"{text}: the parser would leave a part out")
    one_sided = _ONE_SIDED.search(text) is not None
    if one_sided and text.count("\\lim") > 1:
        raise ValueError(f"{text}: limits from one side and others")
    if _POWER_T.search(text):
        # As it leaves out the power T, which could be a transpose.
        text = _T.sub(lambda found: found[0] if found[0] != "T" else "\\tau_{T}", text)
    # Decimals are the fractions that they denote, in exponents too.
    text = _DECIMAL_NUMBER.sub(_as_fraction, text)
    # "1/2 x" is half of x.
    text = re.sub(r"(?<![\d.])(\d+)/(\d+)(?![\d.])", r"\\frac{\1}{\2}", text)
    if re.search(r"[°%]|[\d)}\]]'", text):
        raise ValueError(f"{text}: a sign that stands for no number")
    # The parser passes over an operator that has nothing to act on.
    if _UNFINISHED.search(text):
        raise ValueError(f"{text}: begins or ends with an operator")
    expression: Expr = latex2sympy(
        text, is_real=False, normalization_config=None, conversion_config=_CONVERSION
    )
    if isinstance(expression, sympy.MatrixBase):
        return expression
    # Decimals are the fractions that they denote.
    floats = {number: sympy.Rational(str(number)) for number in expression.atoms(sympy.Float)}
    named = {
        function: sympy.Symbol(f"<{function}>")
        for function in expression.atoms(AppliedUndef, sympy.Derivative)
    }
    expression = expression.xreplace({**floats, **named})
    unevaluated = (sympy.Limit, sympy.Sum, sympy.Product, sympy.Integral)
    if named and expression.has(*unevaluated):
        raise ValueError(f"{text}: of a function that is not known")
    expression = expression.replace(
        sympy.Limit, lambda *limit: _limit(*limit, one_sided=one_sided)
    ).replace(_is_real_root, _real_root)
    counts_i = re.search(r"_\s*\{?\s*i\s*=", text) is not None
    # Plain symbols: the parser's may carry assumptions.
    return expression.xreplace(
        {
            s: sympy.I if s.name == "i" and not counts_i else sympy.Symbol(s.name)
            for s in expression.atoms(sympy.Symbol)
        }
    )


def _limit(formula: Expr, variable: Expr, place: Expr, side: Expr, *, one_sided: bool) -> Expr:
    # Of a limit without a sign, which is from both sides, the parser says that it is from above.
    if not one_sided and place.is_infinite is not True:
        side = "+-"
    return sympy.limit(formula, variable, place, str(side))


def _as_fraction(decimal: re.Match[str]) -> str:
    whole, places = decimal[1] or decimal[3] or "", decimal[2] or decimal[4]
    return rf"(\frac{{{whole}{places}}}{{{10 ** len(places)}}})"


def _is_real_root(expression: Expr) -> bool:
    """An odd root of a negative number, which is one."""
    if not (expression.is_Pow and expression.exp.is_Rational and expression.base.is_number):
        return False
    return expression.exp.q % 2 == 1 and expression.exp.q > 1 and bool(_value(expression.base) < 0)


def _real_root(root: Expr) -> Expr:
    return (-1) ** root.exp.p * (-root.base) ** root.exp


def _is_scalar(expression: object) -> bool:
    return isinstance(expression, sympy.Expr) and not isinstance(
        expression, sympy.MatrixBase | sympy.MatrixExpr
    )


def _value(expression: Expr) -> Expr:
    return sympy.N(expression, DIGITS)


def _written_out(exact: Expr, decimal: Number) -> bool:
    """Whether it takes hardly more digits to write a value out than a decimal has, so that another
    decimal is another number, and none that stands for it."""
    digits = re.sub(r"[eE].*|[-.]", "", str(sympy.N(exact, 40))).strip("0")
    return len(digits) < decimal.digits + 2


def _finite(value: Expr) -> bool:
    return bool(value.is_number and value.is_finite)


def _fraction(value: Expr) -> Fraction:
    rational: Expr = sympy.Rational(value)
    return Fraction(int(rational.p), int(rational.q))


def _same(one: Expr, other: Expr) -> bool:
    """Whether two numbers agree; False unless both are finite."""
    if not (_finite(one) and _finite(other)):
        return False
    if one == other:
        return True
    scale = max(abs(one), abs(other))
    # What cancels to zero is left with no exact digit.
    difference = abs(one - other)
    return bool(difference <= _SAME * scale)


def _same_formula(one: Expr, other: Expr) -> bool:
    if one == other:
        # 1/0 is not 2/0, although sympy has one infinity for both.
        return one.is_finite is not False and not one.has(sympy.zoo, sympy.nan)
    if not one.free_symbols and not other.free_symbols:
        return _same(_value(one), _value(other)) or _vanishes(one - other)
    usable = 0
    for point in _points(one, other):
        first, second = (_value(expression.subs(point)) for expression in (one, other))
        if not (_finite(first) and _finite(second)):
            continue
        usable += 1
        if not _same(first, second) and not _vanishes((one - other).subs(point)):
            return False
    return usable >= 2


def _vanishes(expression: Expr) -> bool:
    """Whether a number cancels to zero: more and more digits leave no exact one."""
    value = sympy.N(expression, DIGITS, maxn=8 * DIGITS)
    return value.is_number and all(
        part == 0 or (part.is_Float and part._prec == 1) for part in value.as_real_imag()
    )


def _points(*expressions: Expr) -> Iterator[dict[Any, Any]]:
    """Points at which to compare: variables stand for positive numbers; for whole ones where a
    function of whole numbers occurs; for either sign where a modulus asks for it."""
    symbols = sorted(set().union(*(e.free_symbols for e in expressions)), key=str)
    counting = all(s.name.split("_")[0] in _COUNTING for s in symbols)
    whole = counting and any(e.has(*_INTEGER_FUNCTIONS) or _sign_power(e) for e in expressions)
    signed = any(e.has(sympy.Abs, sympy.sign) for e in expressions)
    complex_ones = {"z", "w"} & {s.name for s in symbols}
    turned = signed and (complex_ones or any(e.has(sympy.I) for e in expressions))
    draw = random.Random(20_260_619)
    for number, (scale, most) in enumerate(_SCALES):
        if whole:
            yield {s: sympy.Integer(draw.randint(1, most)) for s in symbols}
            continue
        values = [
            scale * sympy.Rational(draw.randint(1_001, 2_999), draw.randint(907, 1_009))
            for _ in symbols
        ]
        if signed:
            # Both signs, and not the same of all.
            values = [
                value * (-1) ** (number + place * number // 2) for place, value in enumerate(values)
            ]
        if turned:
            values = [value + sympy.I * (place + 2) / 3 for place, value in enumerate(values)]
        yield dict(zip(symbols, values, strict=True))


def _sign_power(expression: Expr) -> bool:
    return any(
        p.base.is_number and p.base.is_negative
        for p in expression.atoms(sympy.Pow)
        if p.exp.free_symbols
    )


def _left_minus_right(equation: Expr) -> Expr:
    return sympy.fraction(sympy.together(equation.lhs - equation.rhs))[0]


def _below(relation: Expr) -> Expr:
    return relation.gts - relation.lts if hasattr(relation, "gts") else relation.lhs - relation.rhs


def _kind(relation: Expr) -> str:
    if isinstance(relation, sympy.Ne):
        return "differs"
    strict = isinstance(relation, sympy.StrictGreaterThan | sympy.StrictLessThan)
    return "strict" if strict else "or equal"


def _proportional(one: Expr, other: Expr) -> Expr | None:
    """The constant c, not zero, with one = c * other; None if there is none."""
    if one.free_symbols != other.free_symbols or not one.free_symbols:
        return None
    ratios = []
    for point in _points(one, other):
        top, bottom = _value(one.subs(point)), _value(other.subs(point))
        if _finite(top) and _finite(bottom) and bottom != 0:
            ratios.append(top / bottom)
    if len(ratios) < 3 or ratios[0] == 0 or not all(_same(r, ratios[0]) for r in ratios):
        return None
    return ratios[0]
