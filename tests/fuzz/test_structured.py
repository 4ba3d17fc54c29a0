"""Some hundred edited safe files; the command runs many more."""

import sys

import pytest

from sknet import Model, nn
from sknet.persistence import read_any, write
from tests.fuzz.command import mismatches
from tests.fuzz.guard import MARK, Guard
from tests.fuzz.structured import Worker, classes, documents, is_raw, places

# Classes without an object of their own in the files: of a running fit or search, and a base.
NOT_EDITED = {
    *("sknet.core.TracedArray", "sknet.freezing._Unseen", "sknet.nn.Lazy", "sknet.tabular.BaseTabular"),
    *(
        "sknet.preprocessing.SparseNumbers",
        "sknet.tabular.Job",
        "sknet.tabular.NoScore",
        "sknet.tabular.Rows",
    ),
    *("sknet.tabular.Parts", "sknet.tabular.Setting", "sknet.tabular.Task"),
}


def test_edited_files():
    worker = Worker()
    try:
        assert not list(mismatches(worker, range(120)))
    finally:
        worker.close()


def test_every_class_of_the_registry_is_edited():
    assert classes().keys() - places().keys() <= NOT_EDITED
    assert len(places()) > 270


def test_documents_are_files(tmp_path):
    for kind, document in documents():
        write(tmp_path / "it", document, kind)
        assert read_any(tmp_path / "it")[0] == kind


@pytest.mark.parametrize(
    ("function", "is_raised_raw"),
    [(lambda: nn.Linear.forward(None, 3), True), (lambda: Model(3), False), (lambda: 1 / 0, False)],
)
def test_errors_of_python_are_told_from_those_of_statements(function, is_raised_raw):
    with pytest.raises((AttributeError, TypeError, ZeroDivisionError)) as caught:
        function()
    assert is_raw(caught.value) is is_raised_raw


@pytest.mark.parametrize(
    ("event", "arguments", "reason"),
    [
        ("compile", (f"x = {MARK}()", "file"), "code"),
        ("compile", (f"x = '{MARK}()'  # {MARK}()", "file"), ""),
        ("compile", (None, "file"), ""),
        ("exec", (compile(f"{MARK}()", "file", "exec"),), "code"),
        ("exec", (compile(f"x = '{MARK}()'", "file", "exec"),), ""),
        ("open", ("/etc/passwd", "r", 0), ""),
        ("open", ("/etc/passwd", "w", 0), "a write elsewhere"),
        ("open", ("/etc/passwd", None, 1), "a write elsewhere"),
        ("open", ("/dev/null", "w", 0), ""),
        ("os.remove", ("/etc/passwd", -1), "a change elsewhere"),
        ("import", ("antigravities", None), "an import"),
        ("import", (sys.__name__, None), ""),
        ("os.system", ("true",), "an event"),
        ("subprocess.Popen", ("true", [], None, None), "a process or a connection"),
        ("socket.connect", (None, ("127.0.0.1", 1)), "a process or a connection"),
    ],
)
def test_the_guard_notes_what_must_not_happen(event, arguments, reason):
    assert Guard.judged("/dev/shm/own", False, event, arguments) == reason
