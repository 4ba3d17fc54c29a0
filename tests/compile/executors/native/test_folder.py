"""The location of machine code, and its permissions."""

import os
import stat
import warnings
from pathlib import Path

import pytest

from sknet.compile.executors.native._folder import cache_directory, is_own_file, processor, usable, versions

posix = pytest.mark.skipif(os.name != "posix", reason="rights of files are POSIX's")


def test_the_environment_sets_the_location(monkeypatch, tmp_path):
    monkeypatch.setenv("SKNET_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "own" / "sknet" / versions()
    monkeypatch.setenv("SKNET_CACHE_DIR", "relative")
    assert cache_directory() == Path.cwd() / "relative" / "sknet" / versions()
    monkeypatch.setenv("SKNET_CACHE_DIR", "")
    assert cache_directory() == tmp_path / "xdg" / "sknet" / versions()
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which its specification says to ignore
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert cache_directory() == tmp_path / "Library" / "Caches" / "sknet" / versions()

    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert cache_directory() is None


def test_machine_code_is_specific_to_a_processor():
    assert processor()
    assert "\n\n" not in processor()


@posix
def test_a_new_directory_is_for_the_user_alone(tmp_path):
    before = os.umask(0)
    try:
        assert usable(tmp_path / "base" / "sknet" / "versions")
    finally:
        os.umask(before)
    for path in ("base", "base/sknet", "base/sknet/versions"):
        assert stat.S_IMODE((tmp_path / path).stat().st_mode) == 0o700
    assert usable(tmp_path / "base" / "sknet" / "versions")


def made_writable(path):
    path.chmod(0o777)
    return rf"{path} is ignored, .*others may write to it \(mode 777\).*SKNET_CACHE_DIR"


def made_writable_for_the_group(path):
    path.chmod(0o775)
    return rf"{path} is ignored, .*others may write to it \(mode 775\)"


def made_a_link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))
    return rf"{path} is ignored, .*it is a link"


def given_away(path):
    os.chown(path, 12345, -1)
    return rf"{path} is ignored, .*it belongs to another user \(uid 12345\)"


WAYS = [made_writable, made_writable_for_the_group, made_a_link]
if os.name == "posix" and os.geteuid() == 0:
    WAYS.append(given_away)


@posix
@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("spoil", WAYS)
def test_a_directory_that_others_could_write_to_is_not_used(tmp_path, spoil, inner):
    folder = tmp_path / "sknet" / "versions"
    assert usable(folder)
    message = spoil(folder if inner else folder.parent)
    with pytest.warns(UserWarning, match=message) as caught:
        assert not usable(folder)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not usable(folder)  # one warning


@posix
def test_a_directory_of_another_user_is_not_used(tmp_path, monkeypatch):
    folder = tmp_path / "sknet" / "versions"
    assert usable(folder)
    me = os.geteuid()
    real = os.lstat

    def of_another(path):
        found = list(real(path))
        found[4] = me + 1  # st_uid
        return os.stat_result(found)

    monkeypatch.setattr(Path, "lstat", of_another)
    with pytest.warns(UserWarning, match=rf"it belongs to another user \(uid {me + 1}\)"):
        assert not usable(folder)


@posix
@pytest.mark.parametrize("spoil", WAYS)
def test_a_file_that_others_could_have_written_is_not_used(tmp_path, spoil):
    folder = tmp_path / "sknet" / "versions"
    assert usable(folder)
    first, second, missing = (folder / f"{name}.code" for name in ("first", "second", "missing"))
    for path in (first, second):
        path.write_bytes(b"")
        path.chmod(0o644)
        assert is_own_file(path)
    message = spoil(first)
    with pytest.warns(UserWarning, match=message) as caught:
        assert not is_own_file(first)
    assert len(caught) == 1
    spoil(second)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not is_own_file(first)
        assert not is_own_file(second)  # one warning for all files of a directory
        assert not is_own_file(missing)


def test_without_write_access_nothing_is_cached(tmp_path):
    (tmp_path / "file").write_text("")
    assert not usable(tmp_path / "file" / "sknet" / "versions")
    assert (tmp_path / "file").read_text() == ""
