"""What a fit went through, epoch by epoch."""

import pickle

from sknet.engine import History


def filled():
    history = History()
    for loss in (0.5, 0.25):
        history.append(loss=loss, time=1.0)
    return history


def test_it_is_a_mapping_of_lists():
    history = filled()
    assert dict(history) == {"loss": [0.5, 0.25], "time": [1.0, 1.0]}
    assert history.get("score") is None
    assert len(history) == 2
    assert len(History()) == 0


def test_a_copy_goes_its_own_way():
    history = filled()
    copy = history.copy()
    copy.append(loss=0.1, time=1.0)
    assert history["loss"] == [0.5, 0.25]
    assert pickle.loads(pickle.dumps(copy))["loss"] == [0.5, 0.25, 0.1]


def test_repr_shows_the_last_epoch():
    assert repr(filled()) == "History(2 epochs, last: loss=0.25, time=1)"
    assert repr(History()) == "History(0 epochs)"
