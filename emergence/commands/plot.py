"""``emergence plot``: the figure of a netCDF file, in a paper's width."""

import argparse

from emergence import pictures
from emergence.refusal import refuse
from emergence.result import Result


def run(arguments: argparse.Namespace) -> Result:
    """Draw and write. Refuses a file that holds nothing to draw, and a figure's number that it does not have."""
    path = pictures.asked(arguments.output, "-o")
    if path is None:
        refuse("-o is not given: name the file of the figure, such as -o figure.pdf")
    from emergence import plot

    drawn = plot.file(
        arguments.file,
        *(arguments.variables or ()),
        number=arguments.number,
        over=arguments.over or "",
        log=arguments.log,
    )
    (written,) = pictures.write(path, [plot.paper(drawn, _width(arguments.width))])
    return Result({"file": arguments.file, "figure": written}, f"written: {written}")


def _width(text: str) -> str | float:
    """A name of a width, or inches."""
    try:
        return float(text)
    except ValueError:
        return text
