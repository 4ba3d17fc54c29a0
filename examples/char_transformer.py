"""A Transformer learns to write: below 2.4 bits per character on plays by Shakespeare.

::

    python examples/char_transformer.py --data PATH [--steps 2500] [--seed 0] [--quick] [--plot PATH]

A Transformer sees the last characters of a text and predicts the next one, at every position of a
stretch at once: a causal mask keeps it from looking ahead. It is trained with `Model.step` on stretches
of the first nine tenths, drawn at random, and tested on the last tenth. PATH is the text; without
``--data`` the script says where to get it, and exits with status 2.

It prints a bar while it trains, with the mean loss of the last steps; minutes; bits per character on
the last tenth; and a text that the network has written, one character after the other. The loss is
plotted into a file, char_transformer.png, where matplotlib is installed. Some minutes on two cores;
seconds with ``--quick``.
"""

import sys
from typing import Any

import numpy as np

# The text, the loop and the plot, in a file beside this one.
from _characters import Text, bits_per_character, drawn, parse, plot, train

from sknet import Model, Tensor, nn, no_grad
from sknet.optim import AdamW
from sknet.optim.schedules import Cosine


class CharTransformer(nn.Module):
    """Characters to logits of the next character, from at most `context` of them."""

    def __init__(self, n_characters: int, size: int, layers: int, context: int) -> None:
        self.context = context
        self.embedding = nn.Embedding(n_characters, size)
        self.positions = nn.Embedding(context, size)
        self.encoder = nn.TransformerEncoder(layers, size, num_heads=4, dropout=0.0, activation="relu")
        self.head = nn.Linear(size, n_characters, init=nn.init.Normal(0.02))  # at first it knows nothing

    def forward(self, x: Any) -> Tensor:
        places = np.arange(x.shape[1])
        encoded = self.encoder(self.embedding(x) + self.positions(places), is_causal=True)
        return self.head(encoded)


@no_grad()
def written(
    network: CharTransformer, beginning: list[int], length: int, rng: np.random.Generator
) -> list[int]:
    """Let the network go on with a text."""
    codes = list(beginning)
    for _ in range(length):
        logits = network(np.array([codes[-network.context :]]))
        codes.append(drawn(logits.numpy()[0, -1], rng))
    return codes


def main() -> int:
    description = "Train a Transformer to predict the next character of a text."
    arguments = parse("char_transformer.py", description, 2500)
    if arguments is None:
        return 2
    text = Text(arguments.data)
    quick, full = (32, 1, 60, 8, 20), (128, 3, arguments.steps, 32, 32)
    size, layers, steps, rows, length = quick if arguments.quick else full
    print(text)

    network = CharTransformer(len(text.alphabet), size, layers, context=2 * length)
    optimizer = AdamW(lr=Cosine(3e-3, min_lr=1e-4, n_steps=steps), beta2=0.99, weight_decay=0.01)
    model = Model(network, loss="log_loss", optimizer=optimizer, random_state=arguments.seed)
    plot(train(model, text, steps, rows, 2 * length, arguments.seed), arguments.plot)
    print(f"test: {bits_per_character(model, text.test, length):.3f} bits per character\n")
    rng = np.random.default_rng(arguments.seed)
    print(text.decoded(written(model.module, text.encoded("ROMEO:\n"), 100 if arguments.quick else 500, rng)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
