"""Numbers for people: as many digits as the error bar supports."""

from __future__ import annotations

import math

SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MINUS = "−"


def plain(x: float | None, digits: int = 4) -> str:
    """`0.0123`, `1.5·10⁻⁷`; a dash for None."""
    if x is None or math.isnan(x):
        return "–"
    if math.isinf(x):
        return "∞" if x > 0 else f"{MINUS}∞"
    if x == 0.0:
        return "0"
    exponent = math.floor(math.log10(abs(x)))
    if -4 <= exponent < 6:
        return f"{x:.{max(digits, exponent + 1)}g}".replace("-", MINUS)
    return f"{x / 10.0**exponent:.{digits}g}·10{str(exponent).translate(SUPERSCRIPT)}".replace("-", MINUS)


def quantity(value: float, sd: float | None) -> str:
    """`1.1992 ± 0.0007`, with a common power of ten where the numbers are very small or very large; two digits of the error bar."""
    if sd is None or not (math.isfinite(sd) and sd > 0.0):
        return plain(value, 5)
    size = max(abs(value), sd)
    exponent = math.floor(math.log10(size))
    power = 0 if -3 <= exponent < 5 else exponent
    a, s = value / 10.0**power, sd / 10.0**power
    digits = min(max(0, 1 - math.floor(math.log10(s))), 9)
    text = f"{a:.{digits}f} ± {s:.{digits}f}".replace("-", MINUS)
    return text if power == 0 else f"({text})·10{str(power).translate(SUPERSCRIPT)}"


def percent(x: float) -> str:
    if not math.isfinite(x):
        return "–"
    x = 100.0 * abs(x)
    return f"{x:.0f} %" if x >= 10 else f"{x:.2g} %" if x >= 0.01 else f"{plain(x, 1)} %"


def counted(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"


def listed(words: list[str], most: int = 6) -> str:
    """`a, b and c`; beyond `most`, how many more there are."""
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
