"""Texts of a table read as numbers, dates and booleans: parsing, and recognition from the rows of a fit."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from sknet.preprocessing._columns import (
    DATE,
    DATE_UNIT,
    is_missing,
    is_number,
    lasting,
    local_dates,
    local_time,
)

# Texts that say that there is no value, in lower case.
GONE = (
    *("", "?", "-", "--", "---", ".", "..", "...", "\u2013", "\u2014", "\u2026", "*", "\\n", "(null)"),
    *("[null]", "<na>", "#n/a", "#div/0!", "#null!", "#num!", "#ref!", "#value!", "k.a.", "missing", "n.a"),
    *("n.a.", "n.d.", "n/a", "n/d", "na", "nan", "-nan", "nat", "nil", "none", "not available", "null"),
    *("tbd", "undefined"),
)
BOOLEANS = {
    **dict.fromkeys(("yes", "true", "y", "t", "on", "1"), True),
    **dict.fromkeys(("no", "false", "n", "f", "off", "0"), False),
}
BOOLEAN = "boolean"
UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
# How texts are read: the decimal sign of numbers, behind which a blank and a unit may stand, the order of
# dates, or the unit of seconds since 1970.
FORMS = {
    "number": (".", ",", "duration"),
    "date": ("ymd", "dmy", "mdy", "time", *UNITS),
    "category": (BOOLEAN,),
    "text": ("words", "characters"),
}

# Longer texts are no numbers, and no dates: each text takes a bounded time.
LONGEST = 64
# All texts of one shape are read at once: shapes have 0 for each digit, and plain blanks, signs and quotes.
SHAPE = str.maketrans("123456789\u00a0\u2007\u2009\u202f\u2212\u2019", "000000000    -'")

CODES = (
    "AED|ARS|AUD|BRL|CAD|CHF|CLP|CNY|COP|CZK|DKK|EGP|EUR|GBP|HKD|HUF|IDR|ILS|INR|ISK|JPY|KRW|MXN|MYR|NGN|"
    "NOK|NZD|PEN|PHP|PKR|PLN|RMB|RON|RUB|SAR|SEK|SGD|THB|TRY|TWD|UAH|USD|VND|ZAR"
)
CURRENCY = (
    rf"(?:[A-Z]{{1,2}}\$|{CODES}|[$€£¥₹₽₩₺₫฿₪₴₦₱]|(?:S?Fr|Rs|[Kk]r|\u0440\u0443\u0431)\.?|"
    r"z\u0142|K\u010d|Ft|lei)"
)
NUMBER = (
    r"(?P<minus>-|\(|\+)?\s?{c}?\s?(?P<second>-|\()?(?P<body>(?=[{point}]?0)"
    r"(?:0{{1,3}}(?:[{thousands}' ]0{{2,3}})*[{thousands}' ]000|0+)?(?:[{point}]0*)?"
    r"(?P<exponent>[eE][+-]?0{{1,3}})?)(?:\s?(?P<times>[kKMB]|[mb]n))?"
    r"\s?(?:%|\u2030|{c})?\)?(?P<third>-)?"
)
NUMBERS = {
    ".": NUMBER.format(c=CURRENCY, thousands=",", point="."),
    ",": NUMBER.format(c=CURRENCY, thousands=".", point=","),
}
TIMES = {None: "", "k": "e3", "K": "e3", "M": "e6", "mn": "e6", "B": "e9", "bn": "e9"}
LONGEST_UNIT = 12
# Characters of a number that are left out, or replaced.
DIGITS: dict[str, dict[int, str | None]] = {
    ".": {ord(x): None for x in ",' \u00a0\u2007\u2009\u202f\u2019"},
    ",": {**{ord(x): None for x in ".' \u00a0\u2007\u2009\u202f\u2019"}, ord(","): "."},
}

AMOUNT = r"[0-9]{1,9}(?:[.,][0-9]{1,9})?"
DURATIONS = (
    r"(?P<minus>-)?(?:(?P<d>[0-9]{1,6})(?: ?d(?:ays?)?,? ?|[. ]))?(?P<h>[0-9]{1,6}):(?P<m>[0-5][0-9])"
    r"(?::(?P<s>[0-5][0-9](?:[.,][0-9]{1,9})?))?",
    r"(?P<minus>-)?(?P<m>[0-9]{1,6}):(?P<s>[0-5][0-9][.,][0-9]{1,9})",
    rf"(?P<minus>-)?(?:(?P<d>{AMOUNT}) ?d(?:ays?)?,? ?)?(?:(?P<h>{AMOUNT}) ?h(?:ours?|rs?)?,? ?)?"
    rf"(?:(?P<m>{AMOUNT}) ?m(?:in(?:ute)?s?)?,? ?)?(?:(?P<s>{AMOUNT}) ?s(?:ec(?:ond)?s?)?)?",
    rf"(?P<minus>-)?P(?:(?P<d>{AMOUNT})D)?(?:T(?:(?P<h>{AMOUNT})H)?(?:(?P<m>{AMOUNT})M)?(?:(?P<s>{AMOUNT})S)?)?",
)
SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}

# The names of months in English, German, French, Spanish, Italian, Portuguese, Dutch, Swedish, Danish,
# Norwegian, Polish and Russian.
MONTHS = (
    ("january", "januari", "janvier", "enero", "gennaio", "janeiro", "stycznia", "января"),
    ("february", "februari", "février", "febrero", "febbraio", "fevereiro", "lutego", "февраля"),
    ("march", "märz", "maerz", "mars", "marzo", "março", "maart", "mrt", "marts", "marca", "марта"),
    ("april", "avril", "abril", "aprile", "kwietnia", "апреля"),
    ("may", "mai", "mayo", "maggio", "maio", "mei", "maj", "maja", "мая"),
    ("june", "juni", "juin", "junio", "giugno", "junho", "czerwca", "июня"),
    ("july", "juli", "juillet", "julio", "luglio", "julho", "lipca", "июля"),
    ("august", "août", "agosto", "augustus", "augusti", "sierpnia", "августа"),
    ("september", "septembre", "septiembre", "settembre", "setembro", "września", "сентября"),
    ("october", "oktober", "octobre", "octubre", "ottobre", "outubro", "października", "октября"),
    ("november", "novembre", "noviembre", "novembro", "listopada", "ноября"),
    (
        "december",
        "dezember",
        "décembre",
        "diciembre",
        "dicembre",
        "dezembro",
        "desember",
        "grudnia",
        "декабря",
    ),
)
LETTERS = r"[^\W\d_]"
WEEKDAY = rf"(?:{LETTERS}{{2,10}}\.?,? )?"
MONTH, ORDINAL = rf"(?P<name>{LETTERS}{{3,12}})\.?,?", r"(?:st|nd|rd|th|er|\.)?"
ISO = (
    r"(?P<y>0000)(\. ?|[-/])(?P<m>0{1,2})\2(?P<d>0{1,2})\.?",
    r"(?P<y>0000)(?P<m>00)(?P<d>00)",
    r"(?P<y>0000)[\u5e74\ub144] ?(?P<m>0{1,2})[\u6708\uc6d4] ?(?P<d>0{1,2})[\u65e5\uc77c]",
    rf"(?P<y>0000)[-/ ]{MONTH}[-/ ](?P<d>0{{1,2}})",
)
CLOCK = (
    r"(?P<H>0{1,2})(?P<c>[:.h])(?P<M>00)(?:(?P=c)(?P<S>00)(?:[.,](?P<f>0{1,9}))?)?"
    r"(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?"
)
# Names of offsets, in hours; others have too many meanings.
ZONES = {
    **{"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7},
    **{"WET": 0, "WEST": 1, "BST": 1, "CET": 1, "CEST": 2, "MEZ": 1, "MESZ": 2, "EET": 2, "EEST": 3},
    **{"MSK": 3, "JST": 9, "KST": 9, "AEST": 10, "AEDT": 11},
}
OFFSET = (
    rf"(?P<offset> ?(?:[Zz]|UTC|GMT|(?P<zone>{'|'.join(ZONES)})|(?P<sign>[+-])(?P<oh>00):?(?P<om>00)?)"
    r"(?:\[[A-Za-z_/]+\])?)?"
)
# Behind a date; an offset without a time of day has a colon, as -2024 may be a year.
TAIL = rf"(?:(?:[ T:]|, ){CLOCK})?(?(H)|(?! ?[+-]0+$)){OFFSET}"
DATES = {
    "ymd": (*ISO, "(?P<y>00)-(?P<m>00)-(?P<d>00)"),
    "dmy": (
        r"(?P<d>0{1,2})(\. ?|[-/ ])(?P<m>0{1,2})\2(?P<y>0000)\.?",
        r"(?P<d>00)([-.])(?P<m>00)\2(?P<y>00)",
        r"(?P<d>0{1,2})/(?P<m>0{1,2})/(?P<y>00)",
        WEEKDAY + rf"(?P<d>0{{1,2}}){ORDINAL}[-/. ]?(?:de )?{MONTH}(?: de |[-/. ])?(?P<y>0000|00)",
    ),
    "mdy": (
        r"(?P<m>0{1,2})([-/. ])(?P<d>0{1,2})\2(?P<y>0000)",
        r"(?P<m>00)([-.])(?P<d>00)\2(?P<y>00)",
        r"(?P<m>0{1,2})/(?P<d>0{1,2})/(?P<y>00)",
        WEEKDAY + rf"{MONTH}[-/ ](?P<d>0{{1,2}}){ORDINAL},?[-/ ](?P<y>0000)",
    ),
}
# Months, quarters and weeks, which are read as their first days.
PERIODIC = (
    "(?P<y>0000)-(?P<m>00)",
    "(?P<y>0000)-?W(?P<w>00)(?:-?(?P<d>0))?",
    rf"{MONTH}[-/. ]?(?P<y>0000)",
    rf"{MONTH}[-'](?P<y>00)",
    "(?P<m>0{1,2})[-/](?P<y>0000)",
    "(?P<y>0000)[-/ ]?Q(?P<q>0)",
    "Q(?P<q>0)[-/ ]?(?P<y>0000)",
)
WHOLE = (
    rf"{WEEKDAY}{MONTH} {{1,2}}(?P<d>0{{1,2}}) {CLOCK}{OFFSET} (?P<y>0000)",
    rf"(?P<y>0000)(?P<m>00)(?P<d>00)T?(?P<H>00)(?P<M>00)(?P<S>00){OFFSET}",
)
CENTURY = 69  # years of two digits below it are of this century


def shapes_of(levels: Any) -> dict[str, dict[int, str]]:
    """Return the bare texts of each shape by their indices."""
    found: dict[str, dict[int, str]] = {}
    for i, level in enumerate(levels):
        if isinstance(level, str) and len(level) <= LONGEST:
            text = bare(level)
            found.setdefault(text.translate(SHAPE), {})[i] = text
    return found


def bare(text: str) -> str:
    """Return a text without blanks and quotes around it."""
    return text.strip(' \t\r\n\u00a0"')


def is_gone(level: Any) -> bool:
    """Tell whether a level is missing, or a text such as "NA"."""
    return level.strip().lower() in GONE if isinstance(level, str) else is_missing(level)


def boolean_of(level: Any) -> Any:
    """Return a text such as "yes" as a boolean, None for a missing value; other texts as they are."""
    if not isinstance(level, str):
        return level
    text = level.strip().lower()
    return None if text in GONE else BOOLEANS.get(text, level)


def spellings() -> dict[str, bool | None]:
    """Return what all usual spellings of booleans mean, None for those of missing values."""
    known = {**dict.fromkeys(GONE, None), **BOOLEANS}
    return {change(text): value for text, value in known.items() for change in (str, str.title, str.upper)}


def seconds_of_text(text: Any) -> float:
    """Return the seconds of a duration, such as "1h 30m" or "36:05:00"; NaN if the text is none."""
    if not isinstance(text, str) or len(text) > LONGEST:
        return np.nan
    for pattern in DURATIONS:
        match = re.fullmatch(pattern, text)
        given = {} if match is None else {x: match.groupdict().get(x) for x in SECONDS}
        parts = [SECONDS[x] * float(y.replace(",", ".")) for x, y in given.items() if y is not None]
        if match is not None and parts:
            return -sum(parts) if match["minus"] else sum(parts)
    return np.nan


def numbers_of_texts(levels: Any, form: str) -> Any:
    """Return texts as numbers of a form, durations in seconds among them, NaN where they are none."""
    point, _, unit = form.partition(" ")
    texts = [bare(x).removesuffix(unit).rstrip() if isinstance(x, str) else x for x in levels]
    found = np.array(list(map(seconds_of_text, texts))) if form == "duration" else _plain(texts, point)
    for row, level in enumerate(map(lasting, levels)):
        if isinstance(level, (int, float, np.integer, np.floating)) and not isinstance(level, bool):
            found[row] = float(level)
    return found


def _plain(texts: Any, point: str) -> Any:
    found = np.full(len(texts), np.nan)
    for shape, rows in shapes_of(texts).items():
        match = re.fullmatch(NUMBERS[point], shape)
        if match is None or (match["exponent"] and match["times"]):
            continue
        start, stop = match.span("body")
        sign = -1.0 if match["minus"] in ("-", "(") or match["second"] or match["third"] else 1.0
        for row, text in rows.items():
            found[row] = sign * float(text[start:stop].translate(DIGITS[point]) + TIMES[match["times"]])
    return found


def dates_of_texts(levels: Any, form: str, zone: Any, label: str) -> Any:
    """Return texts as timestamps, NaT where they are none; those with an offset are of UTC."""
    found = np.full(len(levels), "NaT", DATE_UNIT)
    for shape, rows in shapes_of(levels).items():
        match = date_match(shape, form)
        if match is None or (match.groupdict().get("offset") and zone is None):
            continue
        texts = np.array(list(rows.values()), f"U{len(shape)}")
        codes = texts.view(np.uint32).reshape(len(rows), len(shape)).astype(np.int64)
        found[list(rows)] = moments(match, codes - ord("0"))
    for row, level in enumerate(levels):
        if not isinstance(level, str) and not is_missing(level):
            found[row] = local_time(level, zone, label, row)
    return found


def date_match(shape: str, form: str) -> Any:
    """Return the match of a shape with a pattern of dates; the ISO order counts in any."""
    if form == "time":
        return re.fullmatch("(?=0+:)" + CLOCK + OFFSET, shape)
    patterns = [pattern + TAIL for pattern in dict.fromkeys((*DATES[form], *ISO))]
    match = next((x for each in (*patterns, *PERIODIC, *WHOLE) if (x := re.fullmatch(each, shape))), None)
    name = None if match is None else match.groupdict().get("name")
    return match if name is None or month_of(name) else None


def month_of(name: str) -> int:
    """Return the number of a month by its name or the beginning of it, 0 if it is none."""
    return next((i for i, names in enumerate(MONTHS, 1) if any(x.startswith(name.lower()) for x in names)), 0)


def moments(match: Any, digits: Any) -> Any:
    """Return timestamps from the digits of texts of one shape, NaT where there is no such date."""
    given = match.groupdict().get

    def field(name: str, default: int) -> Any:
        if given(name) is None:
            return np.full(len(digits), default)
        start, stop = match.span(name)
        return digits[:, start:stop] @ 10 ** np.arange(stop - start)[::-1]

    year, day = field("y", 1970), field("d", 1)
    month = field("m", 1) if given("q") is None else 3 * field("q", 1) - 2
    if len(given("y") or "") == 2:
        year = year + np.where(year < CENTURY, 2000, 1900)
    if given("name"):
        month = np.full(len(digits), month_of(match["name"]))
    hour, minute, second = field("H", 0), field("M", 0), field("S", 0)
    is_real = (month >= 1) & (month <= 12) & (day >= 1) & (hour < 24) & (minute < 60) & (second < 60)
    if given("half"):
        is_real &= (hour >= 1) & (hour <= 12)
        hour = hour % 12 + (12 if match["half"] in "pP" else 0)
    away = 60 * field("oh", 0) + field("om", 0)
    away = 60 * ZONES[given("zone")] if given("zone") else away if given("sign") == "+" else -away
    begin = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    first = begin.astype("datetime64[D]")
    last = ((begin + 1).astype("datetime64[D]") - first).astype(np.int64)
    if given("w"):  # the first week has the first Thursday of a year
        thursday = first + (-first.astype(np.int64)) % 7 + 7 * (field("w", 1) - 1)
        last = np.where(thursday.astype("datetime64[Y]") == begin.astype("datetime64[Y]"), 7, 0)
        first = thursday - 3
    is_real &= day <= last
    fraction = field("f", 0)
    if given("f") is not None:
        fraction = fraction * 10**9 // 10 ** len(match["f"]) // 1000
    passed = (((day - 1) * 24 + hour) * 60 + minute - away) * 60 + second
    whole = first.astype(DATE_UNIT) + (passed * 10**6 + fraction).astype("timedelta64[us]")
    return np.where(is_real, whole, np.datetime64("NaT", "us"))


def dates_of_numbers(numbers: Any, unit: str) -> Any:
    """Return numbers of a unit since 1970 as timestamps, NaT where numbers are missing or too large."""
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
        f"{label}: texts such as {strange[0]!r:.80} ({len(strange)} different) are no {kind}s as those of "
        "the fit are, and count as missing"
    )


def without_unit(form: str, kind: str = "") -> str:
    """Return a form of numbers without its unit, others as they are; `kind` is what stands before it."""
    plain, _, unit = form.partition(" ")
    is_short = 0 < len(unit) <= LONGEST_UNIT and not any(x in "0123456789" for x in unit)
    return plain if plain in (f"{kind}.", f"{kind},") and is_short else form


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
    texts = [level for level in known if isinstance(level, str)]
    if 0 < len(texts) < len(known) and all(isinstance(level, str) or is_number(level) for level in known):
        kinds, known, levels = ("number",) if "number" in kinds else (), texts, (None, *texts)
    if not texts or not all(isinstance(level, str) for level in known[:FEW]):
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
    is_boolean = {type(boolean_of(level)) for level in levels} == {bool}
    if "boolean" in kinds and is_boolean and not all(bare(level) in ("0", "1") for level in levels):
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
    if found.get("ymd") == found.get("dmy") and (guess := _which_year(levels)):
        return guess
    matches = [(shape, date_match(shape, form)) for shape in shapes_of(levels)]
    zone = "UTC" if any(m is not None and m.groupdict().get("offset") for _, m in matches) else None
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


def _which_year(levels: Sequence[str]) -> Found | None:
    """Return the guess where years of two digits may be first or last, None where nothing is to guess."""
    shapes = shapes_of(levels)
    if not any(re.match("00-00-00", shape) for shape in shapes):
        return None
    first, last = ({bare(level)[part] for level in levels} for part in (slice(0, 2), slice(6, 8)))
    form, orders = "ymd", ["year-month-day", "day-month-year"]
    if len(first) > len(last):  # days have more values than years
        form, orders = "dmy", orders[::-1]
    said = f"dates such as {levels[0]!r} are read as {orders[0]}, not {orders[1]}"
    return Found(DATE, form, said, "UTC" if any("+" in shape for shape in shapes) else None)


def _numbers(levels: Sequence[str], has_gaps: bool) -> Found | None:
    points, unit = (".", ","), _unit(levels)
    for forms in (points, *([tuple(f"{x} {unit}" for x in points)] if unit else []), ("duration",)):
        counts = {form: int((~np.isnan(numbers_of_texts(levels, form))).sum()) for form in forms}
        form = max(counts, key=lambda each: counts[each])  # the point, if both read as many
        if counts[form] >= MOST * len(levels):
            break
    else:
        return None
    if form == "duration":
        return Found("number", form)
    shapes = list(shapes_of(levels))
    if not has_gaps and all(set(shape) == {"0"} for shape in shapes):
        return None  # whole numbers as texts are codes
    if any(re.match("[-+(]?0[0-9]", bare(level)) for level in levels):
        return None  # and so are numbers with leading zeros
    if len(set(counts.values())) == 1 and (guess := _which_comma(levels, shapes)):
        guess.form += form[1:]
        return guess
    return Found("number", form)


def _unit(levels: Sequence[str]) -> str:
    """Return what follows the digits of nearly all texts, such as "kg"; nothing if it differs."""
    counts: dict[str, int] = {}
    for level in levels:
        text = bare(level)[: LONGEST + 1]
        tail = text[1 + max(map(text.rfind, "0123456789")) :].lstrip(" .,\u00a0\u2009\u202f")
        counts[tail] = counts.get(tail, 0) + 1
    unit = max(counts, key=lambda each: counts[each])
    return unit if len(unit) <= LONGEST_UNIT and counts[unit] >= MOST * len(levels) else ""


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
