"""Labelled images: scikit-learn's handwritten digits, or a folder with the Python batches of CIFAR-10 (Krizhevsky 2009).

Batches are pickles. They are read by an unpickler that knows bytes, numbers, texts and containers and nothing else, arrays of
NumPy neither, so a file from elsewhere cannot run code, nor make anything larger than itself.
"""

import io
import pickle
import pickletools
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from theory import InputError
from theory.core.errors import not_installed
from theory.core.streams import stream

DIGITS = "digits"
TRAIN_BATCHES = tuple(f"data_batch_{k}" for k in range(1, 6))
TEST_BATCH, META = "test_batch", "batches.meta"
_CIFAR_SHAPE = (3, 32, 32)
#: Bytes of a file, at most; CIFAR-10's have 31 million.
_LARGEST = 2**28
_REMEDY = "unpack the Python version of CIFAR-10 anew (data_batch_1 to data_batch_5, test_batch, batches.meta)"
#: Share of the digits that is kept for testing, and the seed of the split: always the same images.
_TEST_SHARE, _SPLIT_SEED = 0.2, 0


@dataclass(frozen=True)
class ImageSet:
    """Images of c classes.

    Attributes:
        name: where they come from. classes: the c names.
        train, test: pixels as stored (uint8), shape (n, height, width, channels).
        train_labels, test_labels: class numbers from 0, shape (n,).
    """

    name: str
    classes: tuple[str, ...]
    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, channels)."""
        return cast(tuple[int, int, int], self.train.shape[1:])

    def first(self, train: int, test: int) -> "ImageSet":
        """The first images of each part. Raises `InputError` if there are not as many."""
        for name, wanted, there in (("train", train, len(self.train)), ("test", test, len(self.test))):
            if not 1 <= wanted <= there:
                raise InputError(f"{name} images is {wanted}, but {self.name} has {there}: ask for 1 to {there}")
        return ImageSet(
            self.name,
            self.classes,
            self.train[:train],
            self.train_labels[:train],
            self.test[:test],
            self.test_labels[:test],
        )

    def standardised(self, *, per_channel: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Training and test images in single precision, shifted and scaled to mean 0 and variance 1 of the training set.

        `per_channel`: each colour by itself, else all pixels together.
        """
        axes = (0, 1, 2) if per_channel else None
        mean = self.train.mean(axis=axes, dtype=float)
        std = self.train.std(axis=axes, dtype=float)
        # A set of constant images has nothing to scale.
        scale = np.where(std > 0, std, 1.0)
        return tuple(((x - mean) / scale).astype(np.float32) for x in (self.train, self.test))


def fingerprint(images: ImageSet) -> str:
    """A short text that changes with the images or labels, those for testing included."""
    code = 0
    for part in (images.train, images.train_labels, images.test, images.test_labels):
        code = zlib.crc32(part.tobytes(), code)
    return f"{images.train.shape} {code:08x}"


def load_images(source: str) -> ImageSet:
    """``digits`` or the path of a CIFAR-10 folder. Raises `InputError` naming what is missing or damaged."""
    return digits() if source == DIGITS else cifar10(Path(source))


def digits() -> ImageSet:
    """The 1797 handwritten digits (8 × 8 pixels, values 0 to 16) that ship with scikit-learn, in a fixed split.

    Raises `InputError` where scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError(f"data is 'digits', but {not_installed('scikit-learn')}, or give a CIFAR-10 folder") from None
    stored = load_digits()
    order = stream(_SPLIT_SEED, "digits", "split").permutation(len(stored.target))
    images = stored.images[order].astype(np.uint8)[..., None]
    labels = stored.target[order].astype(np.int32)
    split = round(len(labels) * (1 - _TEST_SHARE))
    names = tuple(str(k) for k in range(10))
    return ImageSet(DIGITS, names, images[:split], labels[:split], images[split:], labels[split:])


def cifar10(folder: Path) -> ImageSet:
    """CIFAR-10 from its Python batches, images as (height, width, colour).

    Raises: `InputError` naming the first file that is missing, damaged or not such a batch.
    """
    if not folder.is_dir():
        raise InputError(
            f"data is {str(folder)!r}, which is no folder: use digits, or the folder of CIFAR-10's batches"
        )
    for name in (META, *TRAIN_BATCHES, TEST_BATCH):  # said at once, before anything large is read
        if not (folder / name).is_file():
            raise InputError(f"data {str(folder)!r}: {name} is missing: {_REMEDY}")
    names = _class_names(folder / META)
    parts = [_batch(folder / name, len(names)) for name in TRAIN_BATCHES]
    train, labels = (np.concatenate(column) for column in zip(*parts, strict=True))
    test, test_labels = _batch(folder / TEST_BATCH, len(names))
    return ImageSet(str(folder), names, train, labels, test, test_labels)


def _class_names(path: Path) -> tuple[str, ...]:
    names = _unpickled(path).get(b"label_names")
    if not isinstance(names, list) or len(names) < 2:
        raise _damaged(path, "it names no classes")
    return tuple(name.decode("ascii", "replace") if isinstance(name, bytes) else str(name) for name in names)


def _batch(path: Path, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 32, 32, 3) and labels of one file."""
    stored = _unpickled(path)
    data, labels = getattr(stored.get(b"data"), "array", None), stored.get(b"labels")
    size = int(np.prod(_CIFAR_SHAPE))
    if data is None or data.ndim != 2 or data.shape[1] != size:
        raise _damaged(path, f"its data are not bytes of shape (n, {size})")
    if not isinstance(labels, list) or len(labels) != len(data) or not len(data):
        raise _damaged(path, f"it has no labels for its {len(data)} images")
    if not all(isinstance(label, int) and 0 <= label < classes for label in labels):
        raise _damaged(path, f"a label is no whole number from 0 to {classes - 1}")
    images = data.reshape(-1, *_CIFAR_SHAPE).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), np.array(labels, dtype=np.int32)


def _unpickled(path: Path) -> dict[Any, Any]:
    try:
        if path.stat().st_size > _LARGEST:
            raise _damaged(path, f"it is larger than {_LARGEST} bytes")
        content = path.read_bytes()
        stored = _Unpickler(io.BytesIO(_memorable(content)), encoding="bytes").load()
    except OSError as problem:
        raise InputError(f"data: {str(path)!r} cannot be read ({problem.strerror}): {_REMEDY}") from None
    except (MemoryError, InputError):
        raise
    except Exception as problem:  # a damaged pickle can raise anything
        raise _damaged(path, str(problem) or type(problem).__name__) from None
    if not isinstance(stored, dict):
        raise _damaged(path, "it holds no dictionary")
    return {key.encode(errors="replace") if isinstance(key, str) else key: value for key, value in stored.items()}


def _memorable(content: bytes) -> bytes:
    """Refuses a pickle that numbers what it remembers beyond its own length: room would be made for every number below."""
    for code, place, _ in pickletools.genops(content):
        if code.name in ("PUT", "LONG_BINPUT") and isinstance(place, int) and place > len(content):
            raise pickle.UnpicklingError(f"it remembers {place} things")
    return content


def _damaged(path: Path, why: str) -> InputError:
    return InputError(f"data: {str(path)!r} is damaged or no CIFAR-10 batch ({' '.join(why.split())[:80]}): {_REMEDY}")


class _Numbers:
    """In the place of NumPy's types: the letters of one. A real one, built by a file, can claim to hold what it does not."""

    def __init__(self, letters: Any, *_: object) -> None:
        self.is_bytes = letters in ("u1", b"u1")

    def __setstate__(self, state: object) -> None:
        pass


class _Array:
    """In the place of NumPy's arrays: `array`, of bytes."""

    array: np.ndarray | None = None

    def __new__(cls, *_: object) -> "_Array":
        return super().__new__(cls)

    def __setstate__(self, state: Any) -> None:
        _, shape, numbers, by_columns, content = state
        self.array = _filled(content, numbers, shape, by_columns)


class _Framed(_Array):
    """The same, as protocol 5 makes it."""

    def __init__(self, content: Any, numbers: Any, shape: Any, order: Any, *_: object) -> None:
        self.array = _filled(content, numbers, shape, order != "C")


class _Latin1(bytes):
    """Bytes as Python 3 writes them for Python 2."""

    def __new__(cls, text: str, _: object) -> "_Latin1":
        return super().__new__(cls, text.encode("latin1"))

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("it changes bytes")


def _filled(content: Any, numbers: Any, shape: Any, by_columns: Any) -> np.ndarray:
    if by_columns or not isinstance(numbers, _Numbers) or not numbers.is_bytes:
        raise pickle.UnpicklingError("an array is not of bytes, row by row")
    return np.frombuffer(bytes(memoryview(content)), np.uint8).reshape(shape)


class _Unpickler(pickle.Unpickler):
    """Arrays of bytes, numbers, texts and containers; any other name in the file is refused."""

    #: Only classes, none of NumPy's: a pickle may set attributes of a function, and states of objects.
    _known = {"_reconstruct": _Array, "ndarray": _Array, "_frombuffer": _Framed, "dtype": _Numbers}  # noqa: RUF012

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "numpy" and name in self._known:
            return self._known[name]
        if (module, name) == ("_codecs", "encode"):
            return _Latin1
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")
