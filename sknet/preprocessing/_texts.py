"""Texts of a table read as numbers, dates and booleans: parsing, and recognition from the rows of a fit."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from sknet.preprocessing._columns import DATE, DATE_UNIT, is_missing, local_dates, local_time

# Texts that say that there is no value, in lower case.
GONE = ("", "?", "-", "--", ".", "#n/a", "n/a", "na", "nan", "nat", "nil", "none", "null", "missing")
BOOLEANS = {
    **dict.fromkeys(("yes", "true", "y", "t", "on"), True),
    **dict.fromkeys(("no", "false", "n", "f", "off"), False),
}
BOOLEAN = "boolean"
UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
# How texts are read: the decimal sign of numbers, the order of dates, or the unit of seconds since 1970.
FORMS = {
    "number": (".", ","),
    "date": ("ymd", "dmy", "mdy", "time", *UNITS),
    "category": (BOOLEAN,),
    "text": ("words", "characters"),
}

# Longer texts are no numbers, and no dates: each text takes a bounded time.
LONGEST = 64
# All texts of one shape are read at once: shapes have 0 for each digit, and plain blanks, signs and quotes.
SHAPE = str.maketrans("123456789\u00a0\u2007\u2009\u202f\u2212\u2019", "000000000    -'")

CURRENCY = r"(?:[A-Z]{1,2}\$|USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|[$€£¥₹₽₩₺₫฿])"
NUMBER = (
    r"(?P<minus>-|\(|\+)?\s?{c}?\s?(?P<second>-)?(?P<body>(?=[{point}]?0)"
    r"(?:0{{1,3}}(?:[{thousands}' ]0{{2,3}})*[{thousands}' ]000|0+)?(?:[{point}]0*)?(?:[eE][+-]?0{{1,3}})?)"
    r"\s?(?:%|{c})?\)?"
)
NUMBERS = {
    ".": NUMBER.format(c=CURRENCY, thousands=",", point="."),
    ",": NUMBER.format(c=CURRENCY, thousands=".", point=","),
}
# Characters of a number that are left out, or replaced.
DIGITS = {
    ".": {ord(x): None for x in ",' \u00a0\u2007\u2009\u202f\u2019"},
    ",": {**{ord(x): None for x in ".' \u00a0\u2007\u2009\u202f\u2019"}, ord(","): "."},
}

MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september", "october"),
    *("november", "december"),
)
WEEKDAY = r"(?:[A-Za-z]{3,9}\.?,? )?"
MONTH, ORDINAL = r"(?P<name>[A-Za-z]{3,9})\.?,?", r"(?:st|nd|rd|th)?"
ISO = (
    r"(?P<y>0000)([-/.])(?P<m>0{1,2})\2(?P<d>0{1,2})",
    r"(?P<y>0000)(?P<m>00)(?P<d>00)",
    r"(?P<y>0000)-(?P<m>00)",
)
CLOCK = r"(?P<H>0{1,2}):(?P<M>00)(?::(?P<S>00)(?:[.,](?P<f>0{1,9}))?)?(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?"
OFFSET = r"(?P<offset> ?(?:[Zz]|UTC|GMT|(?P<sign>[+-])(?P<oh>00):?(?P<om>00)?))?"
DATES = {
    "ymd": ISO,
    "dmy": (
        r"(?P<d>0{1,2})([-/. ])(?P<m>0{1,2})\2(?P<y>0000)",
        r"(?P<d>00)([-.])(?P<m>00)\2(?P<y>00)",
        r"(?P<d>0{1,2})/(?P<m>0{1,2})/(?P<y>00)",
        WEEKDAY + rf"(?P<d>0{{1,2}}){ORDINAL}[-/. ]?{MONTH}[-/. ]?(?P<y>0000|00)",
    ),
    "mdy": (
        r"(?P<m>0{1,2})([-/. ])(?P<d>0{1,2})\2(?P<y>0000)",
        r"(?P<m>00)([-.])(?P<d>00)\2(?P<y>00)",
        r"(?P<m>0{1,2})/(?P<d>0{1,2})/(?P<y>00)",
        WEEKDAY + rf"{MONTH} (?P<d>0{{1,2}}){ORDINAL},? (?P<y>0000)",
    ),
}
CENTURY = 69  # years of two digits below it are of this century


def shapes_of(levels: Any) -> Any:
    """Return the indices of the texts of each shape."""
    found: dict[str, list[int]] = {}
    for i, level in enumerate(levels):
        if isinstance(level, str) and len(level) <= LONGEST:
            found.setdefault(level.strip().translate(SHAPE), []).append(i)
    return found


def is_gone(level: Any) -> bool:
    """Tell whether a level is missing, or a text that says so."""
    return level.strip().lower() in GONE if isinstance(level, str) else is_missing(level)


def boolean_of(level: Any) -> Any:
    """Return what a text such as "yes" means, None if it says that there is no value; others as they are."""
    if not isinstance(level, str):
        return level
    text = level.strip().lower()
    return None if text in GONE else BOOLEANS.get(text, level)


def spellings() -> dict[str, bool | None]:
    """Return what all usual spellings of booleans mean, None for those of missing values."""
    known = {**dict.fromkeys(GONE, None), **BOOLEANS}
    return {change(text): value for text, value in known.items() for change in (str, str.title, str.upper)}


def numbers_of_texts(levels: Any, form: str) -> Any:
    """Return texts as numbers with a decimal point or comma, NaN where they are none."""
    found = np.full(len(levels), np.nan)
    for shape, rows in shapes_of(levels).items():
        match = re.fullmatch(NUMBERS[form], shape)
        if match is None:
            continue
        start, stop = match.span("body")
        sign = -1.0 if match["minus"] in ("-", "(") or match["second"] else 1.0
        for row in rows:
            found[row] = sign * float(levels[row].strip()[start:stop].translate(DIGITS[form]))
    for row, level in enumerate(levels):
        if isinstance(level, (int, float, np.integer, np.floating)) and not isinstance(level, bool):
            found[row] = float(level)
    return found


def dates_of_texts(levels: Any, form: str, zone: Any, label: str) -> Any:
    """Return texts as timestamps, NaT where they are none; those with an offset are of UTC."""
    found = np.full(len(levels), "NaT", DATE_UNIT)
    for shape, rows in shapes_of(levels).items():
        match = date_match(shape, form)
        if match is None or (match["offset"] and zone is None):
            continue
        texts = np.array([levels[row].strip() for row in rows], f"U{len(shape)}")
        codes = texts.view(np.uint32).reshape(len(rows), len(shape)).astype(np.int64)
        found[rows] = moments(match, codes - ord("0"))
    for row, level in enumerate(levels):
        if not isinstance(level, str) and not is_missing(level):
            found[row] = local_time(level, zone, label, row)
    return found


def date_match(shape: str, form: str) -> Any:
    """Return the match of a shape with a pattern of dates; the ISO order counts in any."""
    if form == "time":
        return re.fullmatch(CLOCK + OFFSET, shape)
    for pattern in dict.fromkeys((*DATES[form], *ISO)):
        match = re.fullmatch(pattern + "(?:(?:[ T]|, )" + CLOCK + ")?" + OFFSET, shape)
        if match is not None:
            name = match.groupdict().get("name")
            return match if name is None or month_of(name) else None
    return None


def month_of(name: str) -> int:
    """Return the number of a month by its English name or the beginning of it, 0 if it is none."""
    name = "sep" if name.lower() == "sept" else name.lower()
    return next((i for i, month in enumerate(MONTHS, 1) if month.startswith(name)), 0)


def moments(match: Any, digits: Any) -> Any:
    """Return timestamps from the digits of texts of one shape, NaT where there is no such date."""
    spans = match.re.groupindex

    def field(name: str, default: int) -> Any:
        if name not in spans or match[name] is None:
            return np.full(len(digits), default)
        start, stop = match.span(name)
        return digits[:, start:stop] @ 10 ** np.arange(stop - start)[::-1]

    year, month, day = field("y", 1970), field("m", 1), field("d", 1)
    if "y" in spans and len(match["y"]) == 2:
        year = year + np.where(year < CENTURY, 2000, 1900)
    if "name" in spans:
        month = np.full(len(digits), month_of(match["name"]))
    hour, minute, second = field("H", 0), field("M", 0), field("S", 0)
    is_real = (month >= 1) & (month <= 12) & (day >= 1) & (hour < 24) & (minute < 60) & (second < 60)
    if match["half"]:
        is_real &= (hour >= 1) & (hour <= 12)
        hour = hour % 12 + (12 if match["half"] in "pP" else 0)
    away = 60 * field("oh", 0) + field("om", 0)
    away = away if match["sign"] == "+" else -away
    begin = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    first = begin.astype("datetime64[D]")
    is_real &= day <= ((begin + 1).astype("datetime64[D]") - first).astype(np.int64)
    fraction = field("f", 0)
    if match["f"] is not None:
        fraction = fraction * 10**9 // 10 ** len(match["f"]) // 1000
    passed = (((day - 1) * 24 + hour) * 60 + minute - away) * 60 + second
    whole = first.astype(DATE_UNIT) + (passed * 10**6 + fraction).astype("timedelta64[us]")
    return np.where(is_real, whole, np.datetime64("NaT", "us"))


def dates_of_numbers(numbers: Any, unit: str) -> Any:
    """Return numbers of a unit since 1970 as timestamps, NaT where they are missing or too large."""
    moments_ = numbers * UNITS[unit]
    is_near = np.abs(moments_) < 2.0**62
    found = np.where(is_near, moments_, 0.0).astype(np.int64).astype(DATE_UNIT)
    return np.where(is_near, found, np.datetime64("NaT", "us"))


def read_column(values: Any, kind: str, form: str, zone: Any, label: str) -> Any:
    """Return the numbers or dates of an array of texts, numbers or dates, and the texts that are none."""
    if kind == DATE and values.dtype.kind == "M":
        return local_dates(values, zone, label), []
    if values.dtype.kind in "biuf":
        numbers = values.astype(np.float64)
        if kind != DATE:
            return numbers, []
        if form in UNITS:
            return dates_of_numbers(numbers, form), []
        values = np.array([str(int(x)) if np.isfinite(x) else None for x in numbers.tolist()], object)
    known: dict[Any, int] = {}
    try:
        codes = [known.setdefault(value, len(known)) for value in values.tolist()]
    except TypeError:
        raise TypeError(f"{label}: expected texts, as in the fit, got a value that is none") from None
    levels = list(known)
    if kind == DATE and form not in UNITS:
        found = dates_of_texts(levels, form, zone, label)
    else:
        found = numbers_of_texts(levels, "." if form in UNITS else form)
        found = dates_of_numbers(found, form) if form in UNITS else found
    lacking = np.isnan(found) if found.dtype.kind == "f" else np.isnat(found)
    strange = [levels[i] for i in np.flatnonzero(lacking).tolist() if not is_gone(levels[i])]
    return found[np.array(codes, np.int64)], strange


def unread(label: str, kind: str, strange: Any) -> str:
    """Return the warning about texts that are not what those of the fit are."""
    return (
        f"{label}: {len(strange)} different texts, such as {strange[0]!r:.80}, are no {kind}s as those of "
        "the fit are, and count as missing"
    )


# -- what a fit learns --------------------------------------------------------------------------

# Levels that are looked at first, those that decide, and the share of them that must be of a kind.
FEW, MANY, MOST = 20, 5000, 0.95
# Between these, in seconds since 1970, integers may be times: 2001 to 2038.
FIRST_SECOND, LAST_SECOND = 1e9, 2.0**31


class Found:
    """The kind and form of a column of texts, and the guess, if it is one."""

    def __init__(self, kind: str, form: str, guess: str = "", zone: str | None = None) -> None:
        self.kind, self.form, self.guess, self.zone = kind, form, guess, zone


def recognised(levels: Sequence[Any], kinds: Sequence[str] = ("boolean", "date", "number")) -> Found | None:
    """Return what all texts of a column are, or nearly all, if they are anything but texts."""
    known = [level for level in levels if not is_gone(level)]
    if not known or not all(isinstance(level, str) for level in known[:FEW]):
        return None
    step = -(-len(known) // MANY)
    for some in (known[:FEW], known[::step]) if len(known) > FEW else (known,):
        if not all(isinstance(level, str) for level in some):
            return None
        found = _recognised(some, kinds, has_gaps=len(known) < len(levels))
        if found is None:
            return None
    return found


def _recognised(levels: Sequence[str], kinds: Sequence[str], has_gaps: bool) -> Found | None:
    if "boolean" in kinds and {type(boolean_of(level)) for level in levels} == {bool}:
        return Found("category", BOOLEAN)
    return (_dates(levels) if "date" in kinds else None) or (
        _numbers(levels, has_gaps) if "number" in kinds else None
    )


def _dates(levels: Sequence[str]) -> Found | None:
    least = MOST * len(levels)
    found = {}
    for form in ("ymd", "dmy", "mdy", "time"):
        known = ~np.isnat(dates_of_texts(levels, form, "UTC", ""))
        if known.sum() >= least:
            found[form] = int(known.sum())
    if not found:
        return None
    form = max(found, key=lambda each: found[each])
    matches = [(shape, date_match(shape, form)) for shape in shapes_of(levels)]
    zone = "UTC" if any(match is not None and match["offset"] for _, match in matches) else None
    if form == "dmy" and found.get("mdy") == found["dmy"]:
        plain = [shape for shape, match in matches if match is not None and "name" not in match.re.groupindex]
        separators = {shape.lstrip("0")[:1] for shape in plain}
        if separators & {"/", "-"} and not separators & {"."}:
            example = next(
                level for level in levels if not np.isnat(dates_of_texts([level], "mdy", zone, ""))[0]
            )
            return Found(
                DATE, "mdy", f"dates such as {example!r} are read as month/day/year, not day/month/year", zone
            )
    return Found(DATE, form, zone=zone)


def _numbers(levels: Sequence[str], has_gaps: bool) -> Found | None:
    least = MOST * len(levels)
    found = {form: numbers_of_texts(levels, form) for form in FORMS["number"]}
    counts = {form: int((~np.isnan(numbers)).sum()) for form, numbers in found.items()}
    form = max(counts, key=lambda each: counts[each])  # the point, if both read as many
    shapes = list(shapes_of(levels))
    if counts[form] < least or (not has_gaps and all(set(shape) == {"0"} for shape in shapes)):
        return None  # whole numbers as texts are codes
    if any(re.match("[-+(]?0[0-9]", level.strip()) for level in levels):
        return None  # and so are numbers with leading zeros
    if counts["."] == counts[","] and (guess := _which_comma(levels, shapes)):
        return guess
    return Found("number", form)


def _which_comma(levels: Sequence[str], shapes: Sequence[str]) -> Found | None:
    """Return the guess where each separator has three digits behind it, None where nothing is to guess."""
    commas = [level for level in levels if "," in level]
    points = [level for level in levels if "." in level]
    if any(re.search(r"(?<![0-9])0[,.]", level) for level in commas + points):
        return Found("number", "," if commas else ".")
    if commas and not points and any(re.search("0000", shape) for shape in shapes):
        said = (
            f"the comma of numbers such as {commas[0]!r} is read as a decimal sign, not as one of thousands"
        )
        return Found("number", ",", said)
    if commas and not any(set(level) & set("$£¥₹") for level in levels):
        said = (
            f"the comma of numbers such as {commas[0]!r} is read as one of thousands, not as a decimal sign"
        )
        return Found("number", ".", said)
    if points and any("€" in level for level in levels):
        said = (
            f"the point of numbers such as {points[0]!r} is read as a decimal sign, not as one of thousands"
        )
        return Found("number", ".", said)
    return None
