"""What losses are called here, for those who know them by another name."""

__all__ = ["CLASSES", "SYNONYMS"]


def _renamed(ours: str, *others: str) -> dict[str, str]:
    return dict.fromkeys(others, f"use {ours}")


SYNONYMS = {
    **_renamed("'absolute_error'", "mae", "l1", "l1_loss", "mean_absolute_error", "absolute"),
    **_renamed("'squared_error', which is half of it", "mse", "l2", "mse_loss", "mean_squared_error"),
    **_renamed("'log_loss'", "cross_entropy", "crossentropy", "ce", "logistic", "deviance", "softmax"),
    **_renamed("'log_loss'", "categorical_crossentropy", "sparse_categorical_crossentropy"),
    **_renamed(
        "'log_loss', from logits, or for a network that ends in a sigmoid 'binary_cross_entropy'",
        "bce", "bce_loss", "bce_with_logits", "binary_crossentropy", "bce_logits",
    ),
    **_renamed("'log_loss', from logits, or for probabilities 'nll'", "nll_loss"),
    **_renamed("'huber'", "smooth_l1", "huber_loss"),
    **_renamed("'kl_divergence'", "kl", "kld", "kl_div", "kullback_leibler_divergence"),
    **_renamed("'log_cosh'", "logcosh"),
    **_renamed("'poisson'", "poisson_nll"),
    **_renamed("'quantile'", "pinball"),
    **_renamed("'hinge'", "svm", "max_margin"),
    **_renamed("'triplet_margin'", "triplet"),
    **_renamed("'cosine_embedding'", "cosine", "cosine_similarity"),
    **_renamed("'margin_ranking'", "ranking"),
    **_renamed("'focal'", "focal_loss"),
}  # fmt: skip
"""By names that other libraries give to losses."""

CLASSES = {
    **_renamed("LogLoss, from logits", "CrossEntropyLoss", "BCEWithLogitsLoss", "CrossEntropy"),
    **_renamed("LogLoss, from logits, or NLL, from probabilities", "NLLLoss"),
    **_renamed("BinaryCrossEntropy, or from logits LogLoss", "BCELoss", "BinaryCrossentropy"),
    **_renamed("SquaredError, which is half of it", "MSELoss", "MeanSquaredError", "MSE"),
    **_renamed("AbsoluteError", "L1Loss", "MeanAbsoluteError", "MAE"),
    **_renamed("Huber", "HuberLoss", "SmoothL1Loss"),
    **_renamed("KLDivergence, from logits", "KLDivLoss"),
    **_renamed("Poisson", "PoissonNLLLoss"),
    **_renamed("GaussianNLL", "GaussianNLLLoss"),
    **_renamed("CTC, from logits", "CTCLoss"),
}
"""By names of other libraries' classes."""
