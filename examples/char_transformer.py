"""A Transformer learns to write: below 2.4 bits per character on plays by Shakespeare.

::

    python examples/char_transformer.py --data PATH [--epochs 3] [--seed 0] [--quick] [--plot PATH]

A Transformer sees the last characters of a text and predicts the next one, at every position of a
segment at once: a causal mask keeps it from looking ahead. It is a `NetClassifier` that labels every
position of a sequence: X are segments of the first nine tenths, y the same segments shifted by one
character; it is tested on the last tenth. PATH is the text; without ``--data`` the script says where to
get it, and exits with status 2.

It shows a bar while it trains; then bits per character on the last tenth; and a text that the network
has written, one character after the other. The loss is plotted to a file, char_transformer.png, if
matplotlib is installed. A few minutes on two cores; seconds with ``--quick``.
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
from sknet.optim import AdamW
from sknet.optim.schedules import Cosine


class CharTransformer(nn.Module):
    """Characters to logits of the next character, from at most `context` of them."""

    def __init__(
        self, n_characters: int, n_outputs: int, size: int = 128, layers: int = 3, context: int = 64
    ) -> None:
        self.context = context
        self.embedding = nn.Embedding(n_characters, size)
        self.positions = nn.Embedding(context, size)
        self.encoder = nn.TransformerEncoder(layers, size, num_heads=4, dropout=0.0, activation="relu")
        self.head = nn.Linear(size, n_outputs, init=nn.init.Normal(0.02))  # at first it knows nothing

    def forward(self, x: Any) -> Tensor:
        places = np.arange(x.shape[1])
        encoded = self.encoder(self.embedding(x) + self.positions(places), is_causal=True)
        return self.head(encoded)


@no_grad()
def written(net: NetClassifier, beginning: list[int], length: int, rng: np.random.Generator) -> list[int]:
    """Let the network continue a text."""
    codes, network = list(beginning), net.model_.module
    for _ in range(length):
        logits = network(np.array([codes[-network.context :]]))
        codes.append(int(net.classes_[drawn(logits.numpy()[0, -1], rng)]))
    return codes


def main() -> int:
    description = "Train a Transformer to predict the next character of a text."
    arguments = parse("char_transformer.py", description, 3)
    if arguments is None:
        return 2
    text = Text(arguments.data)
    quick, full = (32, 1, 4, 8, 20), (128, 3, arguments.epochs, 32, 32)
    size, layers, epochs, rows, length = quick if arguments.quick else full
    context = 2 * length
    print(text)

    sizes = {"n_characters": len(text.alphabet), "size": size, "layers": layers, "context": context}
    net = NetClassifier(
        nn.ModuleFactory(CharTransformer, **sizes),
        optimizer=AdamW(lr=Cosine(3e-3, min_lr=1e-4), beta2=0.99, weight_decay=0.01),
        alpha=0.0,
        batch_size=rows,
        max_iter=epochs,
        callbacks=[Bits(), ProgressBar("Transformer")],
        random_state=arguments.seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it could learn more
        net.fit(*text.stretches(context))
    plot(net.callbacks_[0].bits_, arguments.plot)
    print(f"test: {bits_per_character(net, text.test, length):.3f} bits per character\n")
    rng = np.random.default_rng(arguments.seed)
    print(text.decoded(written(net, text.encoded("ROMEO:\n"), 100 if arguments.quick else 500, rng)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
