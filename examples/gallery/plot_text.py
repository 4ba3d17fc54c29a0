"""
A table with a column of text
=============================

Free text in a data frame is read as it is: ``encoder="table"`` turns it into weighted counts of its
words and a few of their main directions. The messages here are drawn from the words of three topics,
with numbers beside them; what the network's hidden layer makes of unseen ones is drawn in two
dimensions.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from sknet import MLPClassifier

WORDS = {
    "billing": ["invoice", "charged", "twice", "refund", "card", "payment", "month", "price"],
    "delivery": ["parcel", "late", "courier", "address", "door", "box", "damaged", "tracking"],
    "account": ["password", "login", "reset", "email", "locked", "page", "error", "profile"],
}
COMMON = ["please", "help", "the", "my", "is", "again", "today", "since", "order", "still", "not"]
rng = np.random.default_rng(0)
topics = rng.choice(list(WORDS), 600)
messages = [
    " ".join(rng.permutation([*rng.choice(WORDS[each], 3), *rng.choice(COMMON, 6)])) for each in topics
]
table = pd.DataFrame({"message": messages, "age": rng.integers(18, 80, 600)})
print(table.head(3).to_string())

clf = MLPClassifier((16,), encoder="table", lr=5e-3, max_iter=40, random_state=0)
clf.fit(table[:400], topics[:400])
print(f"accuracy on other messages: {clf.score(table[400:], topics[400:]):.3f}")

hidden = PCA(2).fit_transform(clf.transform(table[400:]))
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for topic in WORDS:
    ax.scatter(*hidden[topics[400:] == topic].T, s=12, label=topic)
ax.set(title="hidden layer, two main directions", xticks=[], yticks=[])
ax.legend()
plt.show()
