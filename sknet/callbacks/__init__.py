"""What happens during a fit: objects whose hooks a training loop calls."""

from sknet.callbacks._callback import Callback
from sknet.callbacks._checkpoint import Checkpoint
from sknet.callbacks._early_stopping import EarlyStopping
from sknet.callbacks._print_log import PrintLog
from sknet.callbacks._view import FitView

__all__ = ["Callback", "Checkpoint", "EarlyStopping", "FitView", "PrintLog"]
