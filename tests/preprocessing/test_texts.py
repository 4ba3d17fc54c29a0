"""Columns of texts, read as what they say: compared with the values that the texts were written from."""

import datetime
import decimal
import io
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import sknet
from sknet import MLPClassifier, TableEncoder, TabularClassifier, TabularRegressor, onnx
from sknet.exceptions import CaptureError
from tests.freezing.test_python import dense, module_of

N = 200
PLAIN = {"piecewise": None, "dtype": "float64"}


def moments(seed=0, n=N):
    rng = np.random.default_rng(seed)
    start = datetime.datetime(2019, 12, 30, 3, 5, 7)
    return [start + datetime.timedelta(seconds=int(s)) for s in rng.integers(0, 4 * 365 * 86400, n)]


def encoded(values, **options):
    encoder = TableEncoder(**PLAIN, **options)
    return encoder.fit_transform(pd.DataFrame({"c": values})), encoder


FORMATS = {
    "iso": ("%Y-%m-%d %H:%M:%S", "year-month-day"),
    "iso, T": ("%Y-%m-%dT%H:%M:%S", "year-month-day"),
    "slashes, year first": ("%Y/%m/%d %H:%M:%S", "year-month-day"),
    "compact": ("%Y%m%d %H:%M:%S", "year-month-day"),
    "German": ("%d.%m.%Y %H:%M:%S", "day/month/year"),
    "British": ("%d/%m/%Y %H:%M:%S", "day/month/year"),
    "American": ("%m/%d/%Y %I:%M:%S %p", "month/day/year"),
    "two digits": ("%m/%d/%y %H:%M:%S", "month/day/year"),
    "names": ("%d %b %Y %H:%M:%S", "day/month/year"),
    "American names": ("%B %d, %Y %H:%M:%S", "month/day/year"),
    "mail": ("%a, %d %b %Y %H:%M:%S", "day/month/year"),
    "log": ("%d-%b-%Y %H:%M:%S", "day/month/year"),
    "server": ("%d/%b/%Y:%H:%M:%S", "day/month/year"),
    "digits": ("%Y%m%d%H%M%S", "year-month-day"),
    "C": ("%a %b %d %H:%M:%S %Y", "year-month-day"),
    "names first": ("%b-%d-%Y %H:%M:%S", "month/day/year"),
    "Hungarian": ("%Y. %m. %d. %H:%M:%S", "year-month-day"),
    "Czech": ("%d. %m. %Y %H:%M:%S", "day/month/year"),
    "Finnish": ("%d.%m.%Y %H.%M.%S", "day/month/year"),
    "Japanese": ("%Y\u5e74%m\u6708%d\u65e5 %H:%M:%S", "year-month-day"),
}


@pytest.mark.parametrize(("form", "order"), FORMATS.values(), ids=FORMATS)
def test_dates(form, order):
    known = moments()
    expected, of_dates = encoded(known)
    found, encoder = encoded([each.strftime(form) for each in known])
    np.testing.assert_array_equal(found, expected)
    assert encoder.get_feature_names_out().tolist() == of_dates.get_feature_names_out().tolist()
    assert encoder.notes == [f"column 'c': dates in texts, {order}"]


LANGUAGES = {
    "German": (
        "{}. {} {}",
        "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    ),
    "French": ("{} {} {}", "janv. févr. mars avril mai juin juil. août sept. oct. nov. déc."),
    "Spanish": (
        "{} de {} de {}",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    ),
    "Italian": (
        "{} {} {}",
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    ),
    "Portuguese": (
        "{} de {} de {}",
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    ),
    "Dutch": (
        "{} {} {}",
        "januari februari maart april mei juni juli augustus september oktober november december",
    ),
    "Swedish": (
        "{} {} {}",
        "januari februari mars april maj juni juli augusti september oktober november december",
    ),
    "Polish": (
        "{} {} {}",
        "stycznia lutego marca kwietnia maja czerwca lipca sierpnia "
        "wrze\u015bnia pa\u017adziernika listopada grudnia",
    ),
    "Russian": (
        "{} {} {}",
        "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    ),
}


@pytest.mark.parametrize(("pattern", "names"), LANGUAGES.values(), ids=LANGUAGES)
def test_months_of_other_languages(pattern, names):
    known = [each.replace(hour=0, minute=0, second=0) for each in moments()]
    for length in (20, 4):
        texts = [pattern.format(x.day, names.split()[x.month - 1][:length], x.year) for x in known]
        found, encoder = encoded(texts)
        np.testing.assert_array_equal(found, encoded(known)[0])
        assert encoder.notes == ["column 'c': dates in texts, day/month/year"]


MONTHLY = {
    "names": lambda x: x.strftime("%b %Y"),
    "spreadsheet": lambda x: x.strftime("%b-%y"),
    "slash": lambda x: x.strftime("%m/%Y"),
}


@pytest.mark.parametrize("write", MONTHLY.values(), ids=MONTHLY)
def test_months_are_their_first_days(write):
    known = [datetime.datetime(x.year, x.month, 1) for x in moments()]
    np.testing.assert_array_equal(encoded([write(x) for x in known])[0], encoded(known)[0])


@pytest.mark.parametrize("pattern", ["{}Q{}", "{0}-Q{1}", "Q{1} {0}", "Q{1}/{0}"])
def test_quarters_are_their_first_days(pattern):
    known = [datetime.datetime(x.year, (x.month - 1) // 3 * 3 + 1, 1) for x in moments()]
    texts = [pattern.format(x.year, (x.month + 2) // 3) for x in known]
    np.testing.assert_array_equal(encoded(texts)[0], encoded(known)[0])


def test_weeks_are_their_mondays():
    days = [datetime.date(2019, 12, 20) + datetime.timedelta(days=i) for i in range(6 * 365)]
    weeks = [each.isocalendar()[:2] for each in days]
    mondays = [datetime.datetime.fromisocalendar(*week, 1) for week in weeks]
    for form in ("{}-W{:02}", "{}W{:02}"):
        texts = [form.format(*week) for week in weeks]
        np.testing.assert_array_equal(encoded(texts)[0], encoded(mondays)[0])
    known = [datetime.datetime.combine(each, datetime.time()) for each in days]
    texts = ["{}-W{:02}-{}".format(*each.isocalendar()) for each in days]
    np.testing.assert_array_equal(encoded(texts)[0], encoded(known)[0])
    assert TableEncoder(**PLAIN).fit(pd.DataFrame({"c": ["2021-W53", "2022-W60"] * 20})).plan.categories


@pytest.mark.parametrize("form", ["%b-%d-%Y", "%b-%d-%y", "%m-%Y-%d", "%d-%Y", "%b %d-%Y", "%d/%m/%y-%H%M"])
def test_a_year_is_no_offset(form):
    """Texts are read as what they were written from, or as no dates."""
    known = [each.replace(hour=0, minute=0, second=0) for each in moments()]
    encoder = TableEncoder(**PLAIN)
    found = encoder.fit_transform(
        pd.DataFrame({"c": [each.strftime(form) for each in known], "x": np.arange(N) % 7})
    )
    if encoder.notes and "dates" in encoder.notes[0]:
        expected = encoded(known)[0]
        np.testing.assert_array_equal(found[:, : expected.shape[1]], expected)


def test_years_of_two_digits_in_front_are_a_guess():
    known = [each.replace(hour=0, minute=0, second=0) for each in moments()]
    for form, order, kind in (("%y-%m-%d", "year", "ymd"), ("%d-%m-%y", "day", "dmy")):
        texts = [each.strftime(form) for each in known]
        with pytest.warns(UserWarning, match=rf"column 'c': .*read as {order}-month-.*'date:{kind}'"):
            found, _ = encoded(texts)
        np.testing.assert_array_equal(found, encoded(known)[0])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(encoded(texts, columns={"c": f"date:{kind}"})[0], found)


@pytest.mark.parametrize("zones", [(("EST", -5), ("EDT", -4)), (("CET", 1), ("CEST", 2))])
def test_names_of_offsets_become_utc(zones):
    known = moments()
    texts = [
        (each + datetime.timedelta(hours=zones[i % 2][1])).strftime("%Y-%m-%d %H:%M:%S ") + zones[i % 2][0]
        for i, each in enumerate(known)
    ]
    np.testing.assert_array_equal(encoded(texts)[0], encoded(known)[0])
    bracketed = [f"{each:%Y-%m-%dT%H:%M:%S}+00:00[Europe/London]" for each in known]
    np.testing.assert_array_equal(encoded(bracketed)[0], encoded(known)[0])


def test_dates_of_all_containers_and_missing_spellings():
    known = moments()
    texts = [each.strftime("%d.%m.%Y %H:%M:%S") for each in known]
    for i, gone in enumerate(["", "NA", "?", "n/a", " null ", "NaN", None]):
        texts[i], known[i] = gone, None
    expected, _ = encoded(known)
    for table in (
        pd.DataFrame({"c": texts}),
        pd.DataFrame({"c": pd.Series(texts, dtype="string")}),
        pl.DataFrame({"c": texts}),
        np.array([[text] for text in texts], dtype=object),
        [[text] for text in texts],
    ):
        np.testing.assert_array_equal(TableEncoder(**PLAIN).fit_transform(table), expected)


def test_offsets_become_utc():
    known = moments()
    hours = np.random.default_rng(1).integers(-11, 12, N)
    texts = [
        (each + datetime.timedelta(hours=int(h))).strftime("%Y-%m-%dT%H:%M:%S") + f"{h:+03d}:00"
        for each, h in zip(known, hours, strict=True)
    ]
    found, encoder = encoded(texts)
    np.testing.assert_array_equal(found, encoded(known)[0])
    aware = [each.replace(tzinfo=datetime.UTC) for each in known]
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"c": aware})), found)


def test_times_of_day():
    known = moments()
    texts = [each.strftime("%I:%M %p") for each in known]
    found, encoder = encoded(texts)
    share = np.array([(t.hour * 60 + t.minute) / 1440 for t in known])
    np.testing.assert_allclose(found[:, 1], np.sin(2 * np.pi * share), atol=1e-12)
    np.testing.assert_allclose(found[:, 2], np.cos(2 * np.pi * share), atol=1e-12)
    assert encoder.notes == ["column 'c': times of day in texts"]


HOLDERS = {
    "integers": pd.Series,
    "floats": lambda values: pd.Series(values, dtype="float64"),
    "nullable": lambda values: pd.Series(values, dtype="Int64"),
    "Arrow": lambda values: pd.Series(values, dtype="int64[pyarrow]"),
    "polars": pl.Series,
}
GAP = 3


def of_numbers(hold, values, expected, kind, match):
    """Check numbers that are read as dates, with and without one that is missing."""
    for gaps in (False, True):
        given = [None if gaps and i == GAP else x for i, x in enumerate(values)]
        X = (pl.DataFrame if hold is pl.Series else pd.DataFrame)({"c": hold(given)})
        with pytest.warns(UserWarning, match=rf"column 'c': numbers such as .*{match}.*'date:{kind}'"):
            found = TableEncoder(**PLAIN).fit_transform(X)
        dates = pd.to_datetime(pd.Series([None if gaps and i == GAP else x for i, x in enumerate(expected)]))
        np.testing.assert_array_equal(found, encoded(dates)[0])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            stated = TableEncoder(**PLAIN, columns={"c": "date"}).fit_transform(X)
            np.testing.assert_array_equal(stated, found)
            assert TableEncoder(**PLAIN, columns={"c": "number"}).fit_transform(X).shape[1] == 1 + gaps


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
@pytest.mark.parametrize(("unit", "size"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_seconds_since_1970_are_times(unit, size, hold):
    values = [int(each.replace(tzinfo=datetime.UTC).timestamp()) * size for each in moments()]
    of_numbers(hold, values, moments(), unit, "seconds since 1970")


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
def test_digits_of_a_date(hold):
    known = [each.replace(hour=0, minute=0, second=0) for each in moments()]
    of_numbers(hold, [int(each.strftime("%Y%m%d")) for each in known], known, "ymd", "read as dates")


def test_numbers_that_are_not_all_days_stay_numbers():
    for values in (
        range(20200101, 20200101 + N),
        np.linspace(20200101, 20200130, N),
        [20_000_000 + 10_000 * i for i in range(N)],
    ):
        found, encoder = encoded(pd.Series(values, dtype=float))
        assert encoder.notes == []
        assert found.shape == (N, 1)


def test_half_precision_is_no_time():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, _ = encoded(pd.Series(np.linspace(-1, 1, N), dtype="float16"))
    assert found.shape == (N, 1)


WRITTEN = {
    "dollars": (lambda x: f"${x:,.2f}", "numbers in texts"),
    "euros": (lambda x: f"{x:,.2f} €".translate({ord(","): ".", ord("."): ","}), "a decimal comma"),
    "per cent": (lambda x: f"{x:.2f} %", "numbers in texts"),
    "comma": (lambda x: f"{x:.2f}".replace(".", ","), "a decimal comma"),
    "Swiss": (lambda x: f"CHF {x:,.2f}".replace(",", "'"), "numbers in texts"),
    "French": (lambda x: f"{x:,.2f}".translate({ord(","): "\u202f", ord("."): ","}), "a decimal comma"),
    "accounts": (lambda x: f"({-x:,.2f})" if x < 0 else f"{x:,.2f}", "numbers in texts"),
    "exponents": (lambda x: f"{x:.12e}", "numbers in texts"),
    "minus": (lambda x: f"{x:,.2f}".replace("-", "\u2212"), "numbers in texts"),
    "minus behind": (lambda x: f"{-x:,.2f}-" if x < 0 else f"{x:,.2f}", "numbers in texts"),
    "dollars of accounts": (lambda x: f"$({-x:,.2f})" if x < 0 else f"${x:,.2f}", "numbers in texts"),
    "francs": (lambda x: f"Fr. {x:,.2f}".replace(",", "\u2019"), "numbers in texts"),
    "rupees": (lambda x: f"Rs. {x:,.2f}", "numbers in texts"),
    "kronor": (lambda x: f"{x:,.2f} kr".translate({ord(","): " ", ord("."): ","}), "a decimal comma"),
    "zloty": (
        lambda x: f"{x:,.2f} z\u0142".translate({ord(","): "\u00a0", ord("."): ","}),
        "a decimal comma",
    ),
    "code": (lambda x: f"{x:.2f} SEK", "numbers in texts"),
    "per mille": (lambda x: f"{x:.2f}\u2030", "numbers in texts"),
    "quoted": (lambda x: f'"{x:,.2f}"', "numbers in texts"),
    "unit": (lambda x: f"{x:.2f} kg", "numbers in texts, in kg"),
    "unit of a quotient": (lambda x: f"{x:.2f}km/h", "numbers in texts, in km/h"),
    "unit, comma": (lambda x: f"{x:.2f} m\u00b2".replace(".", ","), "a decimal comma, in m\u00b2"),
}


@pytest.mark.parametrize(("write", "note"), WRITTEN.values(), ids=WRITTEN)
def test_numbers(write, note):
    values = np.round(np.random.default_rng(0).normal(size=N) * 10.0 ** np.arange(-1, 7).repeat(N // 8), 2)
    found, encoder = encoded([write(x) for x in values.tolist()])
    np.testing.assert_array_equal(found, encoded(values)[0])
    assert encoder.notes[0].endswith(note)


def test_thousands_and_millions():
    values = np.array([1.2e6, 3.4e3, 56.0, -7.8e9, 9.1e3] * 20)
    texts = ["1.2M", "3.4k", "56", "-7.8B", "9.1 K"] * 20
    np.testing.assert_array_equal(encoded(texts)[0], encoded(values)[0])
    np.testing.assert_array_equal(encoded([f"\u20ac{x}" for x in texts])[0], encoded(values)[0])


def test_a_later_row_of_another_unit_is_missing_and_said():
    encoder = TableEncoder(**PLAIN).fit(pd.DataFrame({"w": ["1.5 kg", "20 kg", None, "3 kg"] * 10}))
    with pytest.warns(UserWarning, match=r"column 'w': texts such as '900 g' \(1 different\) are no numbers"):
        found = encoder.transform(pd.DataFrame({"w": ["900 g", "20 kg", "20"]}))
    assert found[0].tolist() == encoder.transform(pd.DataFrame({"w": [None]}))[0].tolist()
    assert found[1].tolist() == found[2].tolist()
    texts = ["1,234 kg", "5,678 kg"] * 10
    with pytest.warns(UserWarning, match="say columns={'c': 'number:. kg'}, else {'c': 'number:, kg'}"):
        encoded(texts)
    decided = encoded(texts, columns={"c": "number:, kg"})[1]
    assert decided.read(pd.DataFrame({"c": texts[:2]})).numbers[:, 0].tolist() == [1.234, 5.678]


LASTING = {
    "clock": lambda d: f"{d // 3600}:{d // 60 % 60:02d}:{d % 60:02d}",
    "days": lambda d: str(datetime.timedelta(seconds=d)),
    "pandas": lambda d: str(pd.Timedelta(seconds=d)),
    "letters": lambda d: f"{d // 3600}h {d // 60 % 60}m {d % 60}s",
    "words": lambda d: f"{d // 60} min {d % 60} sec" if d % 60 else f"{d // 60} minutes",
    "ISO 8601": lambda d: f"P{d // 86400}DT{d // 3600 % 24}H{d // 60 % 60}M{d % 60}S",
}


@pytest.mark.parametrize("write", LASTING.values(), ids=LASTING)
def test_durations_are_seconds(write):
    seconds = np.random.default_rng(0).integers(60, 200_000, N)
    seconds[::7] -= seconds[::7] % 60
    texts = [write(int(x)) for x in seconds]
    expected = encoded(pd.to_timedelta(seconds, unit="s"))[0]
    found, encoder = encoded(texts)
    np.testing.assert_array_equal(found, expected)
    assert encoder.notes == ["column 'c': durations in texts, in seconds"]
    np.testing.assert_array_equal(encoded(texts, columns={"c": "number:duration"})[0], expected)


WHOLE = np.random.default_rng(0).integers(0, 86_400, N)
OBJECTS = {
    "decimals of a database": [decimal.Decimal(int(x)) / 8 for x in WHOLE],
    "decimals and nulls": [None, *(decimal.Decimal(int(x)) for x in WHOLE[1:])],
    "times of day": [(datetime.datetime.min + datetime.timedelta(seconds=int(x))).time() for x in WHOLE],
    "durations": [datetime.timedelta(seconds=int(x)) for x in WHOLE],
    "numbers, some of them as texts": [f"{x}" if x % 3 else int(x) for x in WHOLE],
}
SIZES = {"decimals of a database": WHOLE / 8, "decimals and nulls": [np.nan, *WHOLE[1:]]}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_that_are_numbers(name, tmp_path):
    X = pd.DataFrame({"c": pd.Series(OBJECTS[name], dtype=object)})
    encoder = TableEncoder(**PLAIN).fit(X)
    expected = encoded(SIZES.get(name, WHOLE.astype(float)))[0]
    np.testing.assert_array_equal(encoder.transform(X), expected)
    assert encoder.notes == (["column 'c': numbers in texts"] if "texts" in name else [])
    sknet.freeze(encoder).to_python(tmp_path / "it.py")
    np.testing.assert_array_equal(dense(module_of(tmp_path / "it.py").transform(X)), expected)


def test_objects_that_are_not_all_numbers_stay_categories():
    for values in ([1, "a"], [True, 2], [1.5, "x", None], [datetime.time(3), "3"], [1, 2], [1.5, None]):
        X = pd.DataFrame({"c": pd.Series(values * 20, dtype=object)})
        assert TableEncoder(**PLAIN).fit(X).plan.categories


def test_fractions_as_objects_are_numbers():
    values = np.random.default_rng(0).normal(size=N)
    given = [None if i == 3 else float(x) for i, x in enumerate(values)]
    found, _ = encoded(pd.Series(given, dtype=object))
    np.testing.assert_array_equal(found, encoded(pd.Series(given, dtype=float))[0])
    assert encoded(pd.Series([i % 25 for i in range(N)], dtype=object))[1].plan.categories


@pytest.mark.parametrize("table", [{"c": [1.0] * N}, np.zeros(N, [("c", "f8")])], ids=["dict", "structured"])
@pytest.mark.parametrize("estimator", [TableEncoder(), TabularClassifier(n_folds=2, budget=0.1)])
def test_tables_that_are_no_frames_lead_to_one(estimator, table):
    with pytest.raises(TypeError, match=r"a table was expected, got a .*: make a data frame of it"):
        estimator.fit(table, np.arange(N) % 2)


def test_periods_are_dates():
    known = pd.DatetimeIndex([datetime.datetime(x.year, x.month, 1) for x in moments()])
    np.testing.assert_array_equal(encoded(known.to_period("M"))[0], encoded(known)[0])


@pytest.mark.parametrize("write", ["~{:.9f}".format, "<{:.9f}".format, "{:.9f} to 9".format])
def test_texts_of_an_unknown_form_are_not_dropped_in_silence(write):
    values = np.random.default_rng(0).normal(size=N) ** 2
    for kind, rows in (("id", np.arange(N)), ("category", np.arange(N) % (N - 20))):
        X = pd.DataFrame({"c": [write(values[i]) for i in rows], "x": values})
        said = rf"column 'c': texts such as .*all different.*columns={{'c': '{kind}'}}"
        with pytest.warns(UserWarning, match=said):
            TableEncoder().fit(X)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            TableEncoder(columns={"c": kind}).fit(X)
            TableEncoder().fit(X.assign(c=[f"10.0.{i}.{i % 7}" for i in rows]))
            TableEncoder().fit(X.assign(c=[f"{i} x {i % 7}" for i in rows]))


def test_booleans():
    rng = np.random.default_rng(0)
    known = rng.random(N) < 0.4
    texts = [
        str(rng.choice(["yes", "Yes", "TRUE", "y", "1"] if each else ["no", "NO", "f", "0"]))
        for each in known
    ]
    found, encoder = encoded(texts)
    np.testing.assert_array_equal(found, encoded(known)[0])
    assert encoder.notes == ["column 'c': yes or no in texts"]
    rows = encoder.transform(pd.DataFrame({"c": ["on", "OFF", True, "NA", "perhaps"]}, dtype=object))
    assert rows.tolist() == [[1], [-1], [1], [0], [0]]


@pytest.mark.parametrize(
    "levels",
    [
        ["a", "b"],
        ["007", "012", "NA"],  # leading zeros are those of codes
        ["1", "2", "10"],  # so are whole numbers that somebody made texts
        ["1.2.3", "1.2.10"],
        ["v1.2", "v1.10"],
        ["0", "1"],
        ["1/2", "3/4"],
        ["5 kg", "7 lb"],
        ["1.2345", "3.2019 x", "q"],
        ["Room 12", "Room 13"],
        ["A12", "B7"],
        ["192.168.0.1", "10.0.0.1"],
        ["10-20", "20-30"],
        ["M", "F"],
        ["", "?"],
        ["12 34", "56 78"],
        ["12:99", "25:00"],
        ["2021-13-45", "2021-99-99"],
    ],
)
def test_categories_stay(levels):
    encoder = TableEncoder(**PLAIN).fit(pd.DataFrame({"c": levels * 20}))
    assert not encoder.notes
    assert encoder.plan.categories


@pytest.mark.parametrize(
    ("texts", "other"),
    [
        (["03/04/2021", "05/06/2021"], "date:dmy"),
        (["1,234", "5,678"], "number:,"),
        (["1234", "1,235"], "number:."),
        (["1.234 €", "5.678 €"], "number:,"),
    ],
)
def test_guesses_warn_and_can_be_decided(texts, other):
    values = texts * 20
    with pytest.warns(UserWarning, match=rf"column 'c': .* say columns=.*{other}"):
        guessed, _ = encoded(values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decided, _ = encoded(values, columns={"c": other})
        again, _ = encoded(values, columns={"c": other.partition(":")[0]})
        encoded(values, columns={"c": "category"})
    np.testing.assert_array_equal(again, guessed)
    assert decided.shape != guessed.shape or (decided != guessed).any() or other.startswith("number")


def test_a_comma_is_what_the_user_says():
    values = ["1,234", "5,678", "9,012"] * 20
    for kind, expected in {"number:,": [1.234, 5.678, 9.012], "number:.": [1234.0, 5678.0, 9012.0]}.items():
        encoder = TableEncoder(**PLAIN, columns={"c": kind}).fit(pd.DataFrame({"c": values}))
        assert encoder.read(pd.DataFrame({"c": values[:3]})).numbers[:, 0].tolist() == expected


def test_what_cannot_be_read_later_is_missing_and_said():
    encoder = TableEncoder(**PLAIN).fit(pd.DataFrame({"p": ["$1", "$2,000", "NA", "$3"] * 10}))
    with pytest.warns(UserWarning, match=r"column 'p': texts such as 'dear' \(1 different\) are no numbers"):
        found = encoder.transform(pd.DataFrame({"p": ["dear", "$2,000"]}))
    assert found[0].tolist() == encoder.transform(pd.DataFrame({"p": [None]}))[0].tolist()
    assert encoder.transform(pd.DataFrame({"p": [2000.0]})).tolist() == found[1:].tolist()


def test_ids_are_dropped():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "PassengerId": rng.permutation(N),
            "code": [f"{i:x}-{rng.integers(1e9):x}" for i in range(N)],
            "x": rng.normal(size=N),
            "salary": rng.permutation(10 * N)[:N],
        }
    )
    encoder = TableEncoder(**PLAIN).fit(X)
    assert encoder.get_feature_names_out().tolist() == ["x", "salary"]
    assert encoder.notes == ["column 'PassengerId': ids, dropped", "column 'code': ids, dropped"]
    kept = TableEncoder(**PLAIN, columns={"PassengerId": "number", "x": "drop", 3: "id"}).fit(X)
    assert kept.get_feature_names_out().tolist() == ["PassengerId"]


def test_a_count_of_rows_warns():
    X = pd.DataFrame({"n": np.arange(N), "x": np.arange(N) % 7})
    with pytest.warns(UserWarning, match=r"column 'n': .* different integer in every row.*'id'"):
        encoder = TableEncoder(**PLAIN).fit(X)
    assert encoder.get_feature_names_out().tolist() == ["n", "x"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableEncoder(columns={"n": "number"}).fit(X)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"d": "number"}, "columns has 'd', but X has no column of this name"),
        ({"c": "numbr"}, "columns has the kind 'numbr'.*number"),
        ({7: "number"}, "columns set as integer indices"),
        (["c"], "columns must be a dict"),
        ({"c": "date"}, "columns says that column 'c' holds dates, got values such as 'a'"),
    ],
)
def test_what_is_asked_for_is_checked(columns, message):
    with pytest.raises(ValueError, match=message):
        encoded(["a", "b"] * 20, columns=columns)


def test_hostile_texts_take_bounded_time():
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("0,. -$%(/:e"), 63)) for _ in range(500)]
    texts += ["1" * 10**6, "0," * 10**5, "-" * 10**5, "(" * 60, "9" * 60, "1e999"]
    encoder = TableEncoder(**PLAIN, columns={"c": "number"})
    with pytest.warns(UserWarning, match="texts such as"):
        found = encoder.fit_transform(pd.DataFrame({"c": texts}))
    assert np.isfinite(found).all()


def mixed():
    rng = np.random.default_rng(3)
    known = moments(2)
    X = pd.DataFrame(
        {
            "when": [each.strftime("%d/%m/%Y %H:%M") for each in known],
            "at": [each.strftime("%H:%M") for each in known],
            "price": [f"${x:,}" for x in rng.integers(1, 10**6, N)],
            "share": [f"{x:.1f} %".replace(".", ",") for x in rng.random(N) * 100],
            "paid": rng.choice(["yes", "No"], N),
            "weight": [f"{x:.1f} kg" for x in rng.random(N) * 100],
            "took": [f"{x}h {x % 7}m" for x in rng.integers(0, 100, N)],
            "month": [each.strftime("%b %Y") for each in known],
            "user_id": rng.permutation(N),
            "city": rng.choice(["a", "b", "c"], N),
        }
    )
    X.loc[3, ["when", "price", "paid"]] = ["NA", None, "?"]
    return X, rng.integers(0, 2, N)


def test_files_and_twins_read_alike(tmp_path):
    X, y = mixed()
    encoder = TableEncoder(random_state=0).fit(X, y)
    expected = dense(encoder.transform(X))
    sknet.save(encoder, tmp_path / "it")
    frozen = sknet.freeze(encoder)
    frozen.to_python(tmp_path / "it.py")
    sknet.save(frozen, tmp_path / "frozen")
    module = module_of(tmp_path / "it.py")
    twins = [sknet.load(tmp_path / "it"), frozen, sknet.load(tmp_path / "frozen"), module]
    for twin in twins:
        np.testing.assert_array_equal(dense(twin.transform(X)), expected)
        np.testing.assert_array_equal(dense(twin.transform(X[:1])), expected[:1])
        np.testing.assert_array_equal(dense(twin.transform(pl.from_pandas(X))), expected)
    odd = X[5:7].assign(price=["?", "free"])
    with pytest.warns(UserWarning, match="such as 'free'"):
        expected = dense(encoder.transform(odd))
    for twin in twins:
        with pytest.warns(UserWarning, match="such as 'free'"):
            np.testing.assert_array_equal(dense(twin.transform(odd)), expected)


def test_ensembles_and_networks_say_how_they_read(tmp_path):
    X, y = mixed()
    clf = TabularClassifier(budget=0.02, n_folds=2, random_state=0).fit(X, y)
    net = MLPClassifier((4,), encoder="table", max_iter=20, tol=10.0, n_iter_no_change=1, random_state=0).fit(
        X, y
    )
    for estimator in (clf, net):
        said = str(estimator.summary())
        assert "read as: column 'when': dates in texts, day/month/year; column 'at': times of day" in said
        assert "column 'user_id': ids, dropped" in said
        estimator.freeze().to_python(tmp_path / "it.py")
        found = module_of(tmp_path / "it.py").predict_proba(X)
        np.testing.assert_array_equal(found, estimator.predict_proba(X))


def test_onnx_names_the_column():
    X, y = mixed()
    encoder = TableEncoder(random_state=0).fit(X[["city", "price"]], y)
    with pytest.raises(CaptureError, match=r"column 'price' holds numbers in texts.*before the fit"):
        onnx.export(encoder)
    runtime = pytest.importorskip("onnxruntime")
    X = X[["city", "paid", "user_id"]]
    encoder = TableEncoder(random_state=0, sparse_output=False).fit(X, y)
    model = onnx.export(encoder)
    session = runtime.InferenceSession(model.SerializeToString())
    feeds = {name: X[[name]].fillna("").to_numpy(object) for name in ("city", "paid")}
    [found] = session.run(None, feeds)
    np.testing.assert_allclose(found, encoder.transform(X), rtol=1e-6)


def test_a_csv_is_as_good_as_its_values():
    rng = np.random.default_rng(0)
    n = 1500
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1400, n), unit="D")
    price = rng.integers(100, 10**6, n)
    parsed = pd.DataFrame({"when": days, "price": price, "other": rng.normal(size=n)})
    written = parsed.assign(when=days.strftime("%d/%m/%Y"), price=[f"${x:,}" for x in price])
    X = pd.read_csv(io.StringIO(written.to_csv(index=False)))
    assert not {X["when"].dtype.kind, X["price"].dtype.kind} & set("ifM")
    weekend = (days.day_of_week >= 5).astype(int)
    options = {"budget": 0.5, "n_folds": 2, "random_state": 0}
    of_texts = TabularClassifier(**options).fit(X[["when", "other"]], weekend)
    of_dates = TabularClassifier(**options).fit(parsed[["when", "other"]], weekend)
    assert of_texts.oof_score_ == of_dates.oof_score_ > 0.97
    y = np.log(price) + 0.1 * rng.normal(size=n)
    of_texts = TabularRegressor(**options).fit(X[["price", "other"]], y)
    of_numbers = TabularRegressor(**options).fit(parsed[["price", "other"]], y)
    assert of_texts.oof_score_ == of_numbers.oof_score_ > 0.9
