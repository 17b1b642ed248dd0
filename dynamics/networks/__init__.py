"""Networks on images (Equinox): lazy or rich, label noise and SAM, pruning by feature merging (arXiv:2603.10397)."""

from dynamics.networks.algorithms import Compared, Comparison, compare_algorithms, prune_networks
from dynamics.networks.images import ImageSet, cifar10, digits, load_images
from dynamics.networks.lazy_rich import LazyRich, LazyRichResult, lazy_rich
from dynamics.networks.merging import Pruned, merge_features
from dynamics.networks.residual import RESNET18, ResNet, draw_resnet
from dynamics.networks.training import Trained, Training, train

__all__ = [
    "RESNET18",
    "Compared",
    "Comparison",
    "ImageSet",
    "LazyRich",
    "LazyRichResult",
    "Pruned",
    "ResNet",
    "Trained",
    "Training",
    "cifar10",
    "compare_algorithms",
    "digits",
    "draw_resnet",
    "lazy_rich",
    "load_images",
    "merge_features",
    "prune_networks",
    "train",
]
