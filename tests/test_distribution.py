"""One distribution, four packages with common names: each knows its neighbours, and says who stands in their place."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

import _emergence
import dynamics
import emergence
import theory
import validation

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LIBRARIES = {"jax", "sympy", "numpy", "theory", "dynamics", "validation"}


@dataclass(frozen=True)
class Python:
    """A fresh interpreter that finds `folders` first, and works in `here`."""

    here: Path
    folders: tuple[Path, ...] = (ROOT,)

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        path = {"PYTHONPATH": ":".join(map(str, self.folders)), "PATH": ""}
        return subprocess.run(
            [sys.executable, *arguments], cwd=self.here, env=path, capture_output=True, text=True, check=False
        )


def is_one_line_about(text: str, *named: object) -> bool:
    return text.count("\n") == 1 and all(str(name) in text for name in named)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder of the user's with a ``theory.py`` that must not run."""
    file = tmp_path / "mine" / "theory.py"
    file.parent.mkdir()
    file.write_text("raise SystemExit('the file of the user was run')\n")
    return file


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Our files as installed in a folder of their own, where they can be overwritten."""
    folder = tmp_path / "site"
    for name in _emergence.PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "_emergence.py", folder)
    return folder


# ----------------------------------------------------------------------------------------------- strangers


def test_command_line_names_the_users_file_and_the_remedy(mine: Path) -> None:
    ran = Python(mine.parent)("-m", "emergence", "predict", "--dim", "100")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("emergence: error: package 'theory' was found at ")
    assert is_one_line_about(ran.stderr, mine, "rename it")


def test_help_and_version_need_no_neighbour(mine: Path) -> None:
    assert Python(mine.parent)("-m", "emergence", "--version").stdout == f"emergence {emergence.__version__}\n"


def test_a_stranger_before_us_on_pythonpath(mine: Path, tmp_path: Path) -> None:
    ran = Python(tmp_path, (mine.parent, ROOT))("-m", "emergence", "predict", "--dim", "100")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert is_one_line_about(ran.stderr, mine)


@pytest.mark.parametrize(
    "line",
    ["from dynamics import gradient_flow", "from validation import validate", "from emergence import predict"],
)
def test_an_import_ends_with_the_same_line(mine: Path, line: str) -> None:
    ran = Python(mine.parent)("-c", line)
    assert ran.returncode == 1
    last = ran.stderr.splitlines()[-1]
    assert last.startswith(f"_emergence.StrangerError: package 'theory' was found at {mine}, ")
    assert "the file of the user was run" not in ran.stderr


def test_a_stranger_that_is_not_needed_is_warned_of_once(tmp_path: Path) -> None:
    """In a notebook the next line may well import it."""
    (tmp_path / "validation.py").write_text("")
    ran = Python(tmp_path)("-c", "import theory, _emergence; _emergence.check_siblings('theory')")
    assert ran.returncode == 0
    assert is_one_line_about(ran.stderr, "UserWarning: package 'validation' was found at", tmp_path / "validation.py")


def test_a_distribution_that_overwrote_a_package_is_named(copy: Path, tmp_path: Path) -> None:
    """What `pip install validation` leaves behind: its first file over ours, both sure that it is theirs."""
    (copy / "validation" / "__init__.py").write_text("import six\n")
    stranger = copy / "validation-0.8.3.dist-info"
    stranger.mkdir()
    (stranger / "METADATA").write_text("Metadata-Version: 2.1\nName: validation\nVersion: 0.8.3\n")
    (stranger / "RECORD").write_text("validation/__init__.py,,\nvalidation-0.8.3.dist-info/METADATA,,\n")
    ran = Python(tmp_path, (copy,))("-m", "emergence", "claims")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert is_one_line_about(ran.stderr, copy / "validation" / "__init__.py", "pip uninstall validation, then pip ")


def test_a_distribution_elsewhere_is_named_with_the_way_around(tmp_path: Path) -> None:
    """An editable installation stands behind what is installed."""
    site = tmp_path / "site"
    (site / "validation").mkdir(parents=True)
    (site / "validation" / "__init__.py").write_text("")
    (site / "x-1.dist-info").mkdir()
    (site / "x-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: x\nVersion: 1\n")
    (site / "x-1.dist-info" / "RECORD").write_text("validation/__init__.py,,\n")
    ran = Python(tmp_path, (site, ROOT))("-m", "emergence", "claims")
    assert is_one_line_about(ran.stderr, site, f"pip uninstall x, or set PYTHONPATH={ROOT}")


def test_the_command_does_not_run_a_stranger_of_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "emergence.py").write_text("raise SystemExit('the file of the user was run')\n")
    module, function = PROJECT["project"]["scripts"]["emergence"].split(":")
    command = f"import sys; from {module} import {function}; sys.exit({function}())"
    ran = Python(ROOT / "docs", (tmp_path, ROOT))("-c", command, "claims")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("emergence: error: package 'emergence' was found at ")
    assert is_one_line_about(ran.stderr, tmp_path / "emergence.py")
    assert Python(tmp_path / "..")("-c", command, "--version").stdout == f"emergence {emergence.__version__}\n"


def test_a_package_that_is_gone_is_missed(copy: Path, tmp_path: Path) -> None:
    (copy / "validation" / "__init__.py").unlink()
    ran = Python(tmp_path, (copy,))("-S", "-m", "emergence", "claims")  # no other copy among what is installed
    assert ran.returncode == 2
    assert is_one_line_about(ran.stderr, "package 'validation' has lost", "pip install . in a checkout")


def test_two_copies_of_ours_are_not_mixed(copy: Path, tmp_path: Path) -> None:
    shutil.rmtree(copy / "emergence")
    shutil.rmtree(copy / "dynamics")
    (copy / "_emergence.py").unlink()
    ran = Python(tmp_path, (copy, ROOT))("-m", "emergence", "predict")
    assert is_one_line_about(ran.stderr, copy / "theory" / "__init__.py")


def test_each_package_asks() -> None:
    for name in _emergence.PACKAGES:
        assert "check_siblings(__name__)" in (ROOT / name / "__init__.py").read_text(encoding="utf-8")
        assert _emergence._trouble(name) == ""


# --------------------------------------------------------------------------------------------- public names


def test_public_names_are_those_of_the_packages() -> None:
    public = {name: module.__name__ for module in (theory, dynamics, validation) for name in module.__all__}
    public["claim"] = "emergence.conjecture.python"  # which takes what validation's takes, and more
    assert public == emergence._PACKAGE
    assert all(getattr(emergence, name) is getattr(sys.modules[package], name) for name, package in public.items())
    assert set(emergence.__all__) <= set(dir(emergence))


def test_no_public_name_hides_a_module() -> None:
    modules = {path.stem for path in (ROOT / "emergence").glob("*.py")} | {"commands", "conjecture"}
    assert not modules & set(emergence.__all__)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'gradient_flaw'"):
        emergence.gradient_flaw  # noqa: B018


def test_importing_the_front_door_loads_nothing_heavy(tmp_path: Path) -> None:
    code = f"import sys, emergence; emergence.__version__; dir(emergence); print({LIBRARIES} & set(sys.modules))"
    assert Python(tmp_path)("-c", code).stdout == "set()\n"
    used = "import sys; from emergence import Activation; print('jax' in sys.modules, Activation.__module__)"
    assert Python(tmp_path)("-c", used).stdout == "False theory.core.activation\n"


def test_type_checkers_see_the_names_of_every_package() -> None:
    """Imported for them alone; `__getattr__` is hidden from them, or a misspelt name would pass."""
    seen = set()
    for node in ast.parse((ROOT / "emergence" / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            seen = {line.module for line in node.body if isinstance(line, ast.ImportFrom) and line.names[0].name == "*"}
    assert seen == set(emergence._PACKAGE.values())


# ----------------------------------------------------------------------------------------------- packaging


def test_what_is_declared_is_what_is_there() -> None:
    project, build = PROJECT["project"], PROJECT["tool"]["hatch"]
    assert project["name"] == _emergence.DISTRIBUTION
    assert project["import-names"] == [*_emergence.PACKAGES, "_emergence; private"]
    assert build["build"]["targets"]["wheel"]["only-include"] == [*_emergence.PACKAGES, "_emergence.py"]
    assert (ROOT / build["version"]["path"]).samefile(_emergence.__file__)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {emergence.__version__}\n" in citation
    assert f"--no-emit-package {_emergence.DISTRIBUTION} " in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_page_of_an_index_has_no_link_into_the_checkout() -> None:
    text = PROJECT["project"]["readme"]["text"]
    assert "emergence predict" in text
    assert [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link] == []


def test_nobody_is_sent_to_the_strangers_distribution() -> None:
    """On the package index ``emergence`` is somebody else's."""
    wrong = re.compile(r"pip install [^\n]*\bemergence(?!-sgd)\b|\bemergence\[")
    code = [path for name in _emergence.PACKAGES for path in (ROOT / name).rglob("*.py")]
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *code]
    assert len(files) > 200
    assert [str(file) for file in files if wrong.search(file.read_text(encoding="utf-8"))] == []
    assert wrong.search("pip install 'emergence[images]'")
    assert not wrong.search("pip install emergence-sgd")
