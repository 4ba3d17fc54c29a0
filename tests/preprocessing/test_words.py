"""Free texts of a table, compared with scikit-learn's weights of words and their singular vectors."""

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

import sknet
from sknet import TableEncoder, TabularClassifier, onnx
from sknet.exceptions import CaptureError
from tests.freezing.test_python import dense, module_of

WORDS = ["good", "bad", "movie", "plot", "actor", "slow", "fast", "long", "music", "scene", "light", "dark"]


def reviews(n=300, seed=0):
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, rng.integers(5, 12))) + f" {i}x" for i in range(n)]
    y = np.array([text.split().count("good") > text.split().count("bad") for text in texts])
    return pd.DataFrame({"text": texts, "x": rng.normal(size=n)}), y.astype(int)


def test_texts_are_what_scikit_learn_makes_of_them():
    X, _ = reviews()
    X.loc[3, "text"] = "Good, GOOD film: the PLOT is ... bad?"
    found = TableEncoder(piecewise=None, dtype="float64").fit(X)
    assert found.notes == ["column 'text': free texts, told by their words"]
    vectorizer = TfidfVectorizer(min_df=2, max_features=2000)
    weighted = vectorizer.fit_transform(X["text"])
    expected = TruncatedSVD(weighted.shape[1] - 1, random_state=0).fit_transform(weighted)
    expected /= expected.std(axis=0)
    outputs = found.transform(X)[:, :-1]
    names = found.get_feature_names_out()
    assert names[-1] == "x"
    assert names[0] == "text_text0"
    np.testing.assert_allclose(outputs, expected, atol=2e-5)


def test_characters():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"c": ["".join(rng.choice(list("日本語中文字漢"), 9)) + str(i) for i in range(120)]})
    found = TableEncoder(piecewise=None, dtype="float64").fit(X)
    assert found.notes == ["column 'c': free texts, told by their characters"]
    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(2, 3), min_df=2, max_features=2000)
    weighted = vectorizer.fit_transform(X["c"])
    expected = TruncatedSVD(32, random_state=0).fit_transform(weighted)
    np.testing.assert_allclose(found.transform(X), expected / expected.std(axis=0), atol=2e-5)


def test_texts_are_learned_from():
    X, y = reviews(600)
    clf = TabularClassifier(budget=0.5, n_folds=2, random_state=0).fit(X, y)
    assert clf.oof_score_ > 0.9
    assert clf.feature_importances_[0] > 0.9
    assert "column 'text': free texts" in str(clf.summary())


def test_missing_texts_and_numbers_are_like_empty_ones():
    X, _ = reviews()
    encoder = TableEncoder(piecewise=None, dtype="float64").fit(X)
    rows = pd.DataFrame({"text": [None, "", 5, "unheard of", "x" * 10**6], "x": 0.0})
    found = encoder.transform(rows)[:, :-1]
    assert not found.any()


@pytest.mark.parametrize("form", ["words", "characters"])
def test_files_and_twins_read_alike(form, tmp_path):
    X, y = reviews()
    X.loc[4, "text"] = None
    encoder = TableEncoder(random_state=0, columns={"text": f"text:{form}"}).fit(X, y)
    expected = dense(encoder.transform(X))
    sknet.save(encoder, tmp_path / "it")
    frozen = sknet.freeze(encoder)
    frozen.to_python(tmp_path / "it.py")
    for twin in (sknet.load(tmp_path / "it"), frozen, module_of(tmp_path / "it.py")):
        np.testing.assert_array_equal(dense(twin.transform(X)), expected)
        np.testing.assert_array_equal(dense(twin.transform(X[4:5])), expected[4:5])
        np.testing.assert_array_equal(dense(twin.transform(X[5:6])), expected[5:6])
    with pytest.raises(CaptureError, match=r"column 'text' holds free texts.*leave it out before the fit"):
        onnx.export(encoder)


def test_ensembles_of_texts_are_files(tmp_path):
    X, y = reviews(100)
    clf = TabularClassifier(budget=0.02, n_folds=1, random_state=0).fit(X, y)
    sknet.save(clf, tmp_path / "it")
    clf.freeze().to_python(tmp_path / "it.py")
    for twin in (sknet.load(tmp_path / "it"), clf.freeze(), module_of(tmp_path / "it.py")):
        np.testing.assert_array_equal(twin.predict_proba(X), clf.predict_proba(X))


def test_texts_that_are_asked_for():
    with pytest.raises(
        ValueError, match="columns says that column 'c' holds texts, and no word of it repeats"
    ):
        TableEncoder(columns={"c": "text"}).fit(pd.DataFrame({"c": ["a", "b"] * 9}))
    few = pd.DataFrame({"c": ["red wine", "white wine", "old beer", "red beer"] * 9})
    assert not TableEncoder().fit(few).notes
    asked = TableEncoder(columns={"c": "text"}).fit(few)
    assert asked.notes == ["column 'c': free texts, told by their words"]


def test_texts_of_the_same_words_are_no_texts():
    X = pd.DataFrame({"c": [f"the same words {i}" for i in range(60)], "x": np.arange(60) % 7.0})
    assert TableEncoder().fit(X).notes == ["column 'c': ids, dropped"]
