"""A recurrent network learns to write: below 2.6 bits per character on plays by Shakespeare.

::

    python examples/char_lstm.py --data PATH [--epochs 2] [--seed 0] [--quick] [--plot char_lstm.png]

An LSTM reads a text character by character and predicts each next one. It is a `NetClassifier` that
labels every position of a sequence: X are segments of the first nine tenths, y the same segments shifted by
one character; it is tested on the last tenth. PATH is the text; without ``--data`` the script says where
to get it, and exits with status 2.

It shows a bar while it trains; then bits per character on the last tenth; and a text that the network
has written, one character after the other, by passing the LSTM's final state on. The loss is plotted
to a file if matplotlib is installed. A few minutes on two cores; seconds with ``--quick``.
"""

import sys
import warnings
from typing import Any

import numpy as np

# The text and the plot, in a file beside this one.
from _characters import Bits, Text, bits_per_character, drawn, parse, plot
from sklearn.exceptions import ConvergenceWarning

from sknet import NetClassifier, Tensor, nn, no_grad
from sknet.callbacks import ProgressBar
from sknet.optim import Adam
from sknet.optim.schedules import Cosine


class CharLSTM(nn.Module):
    """Characters to logits of the next character."""

    def __init__(self, n_characters: int, n_outputs: int, size: int = 256) -> None:
        self.embedding = nn.Embedding(n_characters, size // 4)
        self.lstm = nn.LSTM(size // 4, size)
        self.head = nn.Linear(size, n_outputs)

    def forward(self, x: Any) -> Tensor:
        logits, _ = self.read(x)
        return logits

    def read(self, x: Any, state: Any = None) -> tuple[Tensor, Any]:
        """Return logits after every character, and the state after the last."""
        output, state = self.lstm(self.embedding(x), state)
        return self.head(output), state


@no_grad()
def written(net: NetClassifier, beginning: list[int], length: int, rng: np.random.Generator) -> list[int]:
    """Let the network continue a text."""
    codes, new, state = list(beginning), list(beginning), None
    for _ in range(length):
        logits, state = net.model_.module.read(np.array([new]), state)
        new = [int(net.classes_[drawn(logits.numpy()[0, -1], rng)])]
        codes += new
    return codes


def main() -> int:
    arguments = parse("char_lstm.py", "Train an LSTM to predict the next character of a text.", 2)
    if arguments is None:
        return 2
    text = Text(arguments.data)
    size, epochs, rows, length = (32, 2, 8, 20) if arguments.quick else (256, arguments.epochs, 64, 64)
    print(text)

    net = NetClassifier(
        nn.ModuleFactory(CharLSTM, n_characters=len(text.alphabet), size=size),
        optimizer=Adam(lr=Cosine(4e-3, min_lr=2e-4)),
        alpha=0.0,
        batch_size=rows,
        max_iter=epochs,
        callbacks=[Bits(), ProgressBar("LSTM")],
        random_state=arguments.seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it could learn more
        net.fit(*text.stretches(length))
    plot(net.callbacks_[0].bits_, arguments.plot)
    print(f"test: {bits_per_character(net, text.test, length):.3f} bits per character\n")
    rng = np.random.default_rng(arguments.seed)
    print(text.decoded(written(net, text.encoded("ROMEO:\n"), 100 if arguments.quick else 500, rng)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
