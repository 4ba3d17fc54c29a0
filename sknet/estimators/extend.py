"""Building blocks of estimators with other signatures; users of estimators do not need them."""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names

if TYPE_CHECKING:
    from sknet.estimators._architecture import Architecture, Perceptron
    from sknet.estimators._attributions import check_steps, chosen_classes, chosen_predictions
    from sknet.estimators._base import BaseNet
    from sknet.estimators._checks import check_weights, check_y
    from sknet.estimators._classifier import BaseClassifier, class_weighted
    from sknet.estimators._computation import Computation, computation_of, is_estimator, outputs_of
    from sknet.estimators._fit import (
        DataSet,
        FitArguments,
        Recipe,
        SharedInputs,
        attach_fit_extras,
        layer_sizes,
        settings_of,
    )
    from sknet.estimators._fitting import fit_network, read_part
    from sknet.estimators._heads import (
        best_temperature,
        gives_deviations,
        gives_intervals,
        gives_probabilities,
        gives_quantiles,
        interval_head,
        probability_head,
    )
    from sknet.estimators._inputs import follows_namespace
    from sknet.estimators._members import may_stack
    from sknet.estimators._mlp import PerceptronLayers
    from sknet.estimators._options import check_loss_of_logits
    from sknet.estimators._portable import portable_loss
    from sknet.estimators._python import (
        Method,
        file_text,
        head_source,
        in_parts,
        label_facts,
        methods_of,
    )
    from sknet.estimators._regressor import BaseRegressor
    from sknet.estimators._scaling import InputScaling, Units, units_of_moments
    from sknet.estimators._scoring import check_scoring, evaluated
    from sknet.estimators._stored import check_labels_of, check_network
    from sknet.estimators._summary import Summarized, summary_rows, with_values
    from sknet.estimators._targets import (
        ClassTargets,
        ColumnTargets,
        OrderedTargets,
        RealTargets,
        kind_of_labels,
        refuse_ignored,
    )
    from sknet.estimators._training import Trainer, features_of, standardize_inputs

__all__ = [
    "PARTS",
    "Architecture",
    "BaseClassifier",
    "BaseNet",
    "BaseRegressor",
    "ClassTargets",
    "ColumnTargets",
    "Computation",
    "DataSet",
    "FitArguments",
    "InputScaling",
    "Method",
    "OrderedTargets",
    "Perceptron",
    "PerceptronLayers",
    "RealTargets",
    "Recipe",
    "SharedInputs",
    "Summarized",
    "Trainer",
    "Units",
    "attach_fit_extras",
    "best_temperature",
    "check_labels_of",
    "check_loss_of_logits",
    "check_network",
    "check_scoring",
    "check_steps",
    "check_weights",
    "check_y",
    "chosen_classes",
    "chosen_predictions",
    "class_weighted",
    "computation_of",
    "evaluated",
    "features_of",
    "file_text",
    "fit_network",
    "follows_namespace",
    "gives_deviations",
    "gives_intervals",
    "gives_probabilities",
    "gives_quantiles",
    "head_source",
    "in_parts",
    "interval_head",
    "is_estimator",
    "kind_of_labels",
    "label_facts",
    "layer_sizes",
    "may_stack",
    "methods_of",
    "outputs_of",
    "portable_loss",
    "probability_head",
    "read_part",
    "refuse_ignored",
    "settings_of",
    "standardize_inputs",
    "summary_rows",
    "units_of_moments",
    "with_values",
]

_NAMES = _Names(
    {
        "sknet.estimators._architecture": ("Architecture", "Built", "Perceptron", "Ready"),
        "sknet.estimators._attributions": ("check_steps", "chosen_classes", "chosen_predictions"),
        "sknet.estimators._autoencoder": ("Coder", "SymmetricCoder", "Transposed"),
        "sknet.estimators._base": ("BaseNet",),
        "sknet.estimators._checks": ("check_weights", "check_y"),
        "sknet.estimators._classifier": ("BaseClassifier", "class_weighted"),
        "sknet.estimators._computation": ("Computation", "computation_of", "is_estimator", "outputs_of"),
        "sknet.estimators._fit": (
            "Compared",
            "DataSet",
            "FitArguments",
            "Recipe",
            "SharedInputs",
            "attach_fit_extras",
            "layer_sizes",
            "settings_of",
        ),
        "sknet.estimators._fitting": ("fit_network", "read_part"),
        "sknet.estimators._heads": (
            "best_temperature",
            "gives_deviations",
            "gives_intervals",
            "gives_probabilities",
            "gives_quantiles",
            "interval_head",
            "probability_head",
        ),
        "sknet.estimators._inputs": ("Encoded", "Inputs", "follows_namespace"),
        "sknet.estimators._members": ("may_stack",),
        "sknet.estimators._mlp": ("PerceptronLayers",),
        "sknet.estimators._options": ("check_loss_of_logits",),
        "sknet.estimators._portable": ("portable_loss",),
        "sknet.estimators._python": (
            "Method",
            "file_text",
            "head_source",
            "in_parts",
            "label_facts",
            "methods_of",
        ),
        "sknet.estimators._regressor": ("BaseRegressor",),
        "sknet.estimators._scoring": ("check_scoring", "evaluated"),
        "sknet.estimators._stored": ("check_labels_of", "check_network"),
        "sknet.estimators._summary": ("Summarized", "summary_rows", "with_values"),
        "sknet.estimators._targets": (
            "ClassTargets",
            "ColumnTargets",
            "OrderedTargets",
            "PositionTargets",
            "RealTargets",
            "kind_of_labels",
            "refuse_ignored",
        ),
        "sknet.estimators._scaling": ("InputScaling", "Units", "units_of_moments"),
        "sknet.estimators._training": ("Trainer", "features_of", "standardize_inputs"),
    }
)
# Classes of the parts of fitted estimators, by their names in files.
PARTS = _Names(
    {
        "sknet.estimators._architecture": ("Built", "Joined", "Members", "Perceptron", "Ready"),
        "sknet.estimators._autoencoder": ("Coder", "SymmetricCoder", "Transposed"),
        "sknet.estimators._fit": ("Compared",),
        "sknet.estimators._inputs": ("Encoded", "Inputs"),
        "sknet.estimators._scaling": ("InputScaling", "Units"),
        "sknet.estimators._targets": (
            "ArrayTargets",
            "ClassTargets",
            "ColumnTargets",
            "OrderedTargets",
            "PositionTargets",
            "RealTargets",
        ),
    }
)

if not TYPE_CHECKING:
    __getattr__ = _NAMES.into(globals())
