r"""From a derived `System` to JavaScript, for pages that integrate it where it is read.

The same contractions as for JAX (`theory.core.contractions`), printed as loops over typed arrays by SymPy's JavaScript
printer: an elementwise factor and a sum are each computed once into a buffer that is allocated when the sizes are known.
Arrays lie flat, the last index fastest. What is printed for a system is one expression,

```js
{ state: {t: ["m", "P"], …}, parameters: ["a"], make(sizes, phi) { … return {shapes, drift, noise, observables}; } }
```

where `sizes` gives the ranges by name ({m: 3, P: 2}), `phi` is the list φ, φ′, … of a kernel (see `kernel`),
``drift(y, p, out)`` fills the arrays of `out` from state and parameters by name (parameters without index are numbers),
``noise(y, B, p, out)`` does for Brownian increments, and ``observables.loss(y, p)`` is a number.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import sympy as sp
from sympy.printing.jscode import JavascriptCodePrinter

from theory.core.activation import c as kernel_variable
from theory.core.contractions import Contraction, Factor, contractions, name_of
from theory.core.indexed import Dual, Index, Sums, free_indices
from theory.core.system import System

#: Powers up to this are written as products.
_WRITTEN_OUT = 3


class _Printer(JavascriptCodePrinter):
    """Arrays flat and marked by a $, kernels by their order, numbers to the last digit."""

    def _print_Indexed(self, expression: sp.Indexed) -> str:
        return f"${expression.base}[{_place(expression.indices)}]"

    def _print_Dual(self, expression: Dual) -> str:
        argument, order = expression.args
        return f"phi[{order}]({self._print(argument)})"

    def _print_Symbol(self, expression: sp.Symbol) -> str:
        return str(expression) if isinstance(expression, Index) else f"${expression}"

    def _print_Float(self, expression: sp.Float) -> str:
        return repr(float(expression))

    def _print_Pow(self, expression: sp.Pow) -> str:
        base, power = expression.as_base_exp()
        if power.is_Integer and 1 < power <= _WRITTEN_OUT and (base.is_Atom or isinstance(base, sp.Indexed)):
            return f"({'*'.join([self._print(base)] * int(power))})"
        return str(super()._print_Pow(expression))


def _print(expression: sp.Expr) -> str:
    """Raises `TypeError` for what JavaScript has no name for."""
    try:
        return str(_Printer({"strict": True}).doprint(expression))
    except NotImplementedError as problem:
        raise TypeError(f"cannot print {expression} to JavaScript: {problem}") from problem


def _plain(length: sp.Expr) -> str:
    """A range in the names of the sizes."""
    return str(JavascriptCodePrinter().doprint(length))


def _length(index: sp.Symbol) -> str:
    """How far a letter runs. Raises `TypeError` for a symbol without a range."""
    if not isinstance(index, Index):
        raise TypeError(f"index {index} has no range")
    length = _plain(index.length)
    return length if index.length.is_Atom else f"({length})"


def _place(letters: Sequence[sp.Symbol]) -> str:
    """The flat place of these letters."""
    place = "0"
    for letter in letters:
        before = place if place.isidentifier() else f"({place})"
        place = str(letter) if place == "0" else f"{before}*{_length(letter)} + {letter}"
    return place


def _loops(letters: Iterable[sp.Symbol]) -> str:
    return "".join(f"for (let {x} = 0; {x} < {_length(x)}; {x}++) " for x in letters)


class _Body:
    """The statements of one function, and the buffers that they fill."""

    def __init__(self, system: System) -> None:
        self.buffers: list[str] = []
        self.lines: list[str] = []
        self._names: dict[object, str] = {}
        for symbol, sums in system.definitions.items():
            letters = symbol.indices if isinstance(symbol, sp.Indexed) else ()
            name = f"${name_of(symbol)}"
            if letters:
                self._buffer(name, letters)
                self.fill(f"{name}[{_place(letters)}]", sums, symbol)
            else:
                total = self._total(contractions(sums, symbol))
                self.lines.append(f"const {name} = {total};")

    def fill(self, target: str, sums: Sums, *components: sp.Symbol | sp.Indexed) -> None:
        """Assign the sums to `target`, over the indices of the components."""
        terms = contractions(sums, *components)
        letters = terms[0].free if terms else tuple(x for y in components for x in getattr(y, "indices", ()))
        total = self._total(terms)
        self.lines.append(f"{_loops(letters)}{target} = {total};")

    def answer(self, sums: Sums) -> None:
        """Return the sums, a number."""
        total = self._total(contractions(sums))
        self.lines.append(f"return {total};")

    def _total(self, terms: list[Contraction]) -> str:
        return " + ".join(map(self._term, terms)) or "0"

    def _term(self, term: Contraction) -> str:
        parts = [*map(_length, term.idle), *(self._array(x, x.letters) for x in term.outer)]
        if term.inner:
            parts.append(self._summed(term))
        if term.coefficient != 1 or not parts:
            parts.insert(0, repr(term.coefficient))
        return "*".join(parts)

    def _summed(self, term: Contraction) -> str:
        """The sum over the bound letters, computed once for all terms that have it."""
        back = {name: letter for letter, name in term.renamed.items()}
        kept = [back[name] for name in term.operands[1]]
        bound = [letter for letter in term.renamed if letter not in kept]
        if term.operands not in self._names:
            product = "*".join(self._array(x, x.letters) for x in term.inner)
            if kept:
                name = self._buffer(f"sum{len(self._names)}", kept)
                total = f"let total = 0; {_loops(bound)}total += {product}; {name}[{_place(kept)}] = total;"
                self.lines.append(f"{_loops(kept)}{{ {total} }}")
            else:
                name = f"sum{len(self._names)}"
                self.lines.append(f"let {name} = 0; {_loops(bound)}{name} += {product};")
            self._names[term.operands] = name
        return f"{self._names[term.operands]}[{_place(kept)}]" if kept else self._names[term.operands]

    def _array(self, factor: Factor, letters: Sequence[sp.Symbol]) -> str:
        """The element of a factor; computed once unless it is one component."""
        if isinstance(factor.body, sp.Indexed):
            return _print(factor.body)
        if factor.key not in self._names:
            name = f"part{len(self._names)}"
            value = _print(factor.body)
            if letters:
                self._buffer(name, letters)
                self.lines.append(f"{_loops(letters)}{name}[{_place(letters)}] = {value};")
            else:
                self.lines.append(f"const {name} = {value};")
            self._names[factor.key] = name
        name = self._names[factor.key]
        return f"{name}[{_place(letters)}]" if letters else name

    def _buffer(self, name: str, letters: Sequence[sp.Symbol]) -> str:
        self.buffers.append(f"const {name} = new Float64Array({'*'.join(map(_length, letters))});")
        return name


def print_system(system: System) -> str:
    """The system as one JavaScript expression, see above.

    Raises `TypeError` for what is no product of components, numbers and kernels, and for arrays that are not its own (those
    of a frame, say).
    """
    _refuse_unknown(system)
    axes = {name_of(x): [_plain(i.length) for i in x.indices] for x in system.drift}
    shapes = {name: f"[{', '.join(lengths)}]" for name, lengths in axes.items()}
    state = [f"const ${name} = y.{name};" for name in axes]
    given = [*state, *(f"const ${name} = p.{name};" for name in system.parameters)]

    def components(parts: Mapping[sp.Indexed, Sums]) -> Callable[[_Body], None]:
        def write(body: _Body) -> None:
            for component, sums in parts.items():
                name = name_of(component)
                body.lines.append(f"const out_{name} = out.{name};")
                body.fill(f"out_{name}[{_place(component.indices)}]", sums, component)

        return write

    members = {"drift": _closure(system, "y, p, out", given, components(system.drift))}
    if system.noise:
        members["noise"] = _closure(system, "y, B, p, out", [*given, "const $B = B;"], components(system.noise))

    def answer(sums: Sums) -> Callable[[_Body], None]:
        return lambda body: body.answer(sums)

    shown = {name: _closure(system, "y, p", given, answer(sums)) for name, sums in system.observables.items()}
    members |= {"shapes": _object(shapes), "observables": _object(shown)}
    head = f"state: {json.dumps(axes)}, parameters: {json.dumps(list(system.parameters))}"
    return f"{{ {head},\nmake({{{', '.join(_sizes(system))}}}, phi) {{ return {_object(members)}; }} }}"


def _object(members: Mapping[str, str]) -> str:
    return "{" + ",\n".join(f"{name}: {value}" for name, value in members.items()) + "}"


def _closure(system: System, arguments: str, given: list[str], write: Callable[[_Body], None]) -> str:
    """A function with buffers of its own."""
    body = _Body(system)
    write(body)
    inside = "\n".join([*given, *body.lines])
    return "(() => {\n" + "\n".join(body.buffers) + f"\nreturn ({arguments}) => {{\n{inside}\n}}; }})()"


def _sums(system: System) -> list[Sums]:
    parts = (system.definitions, system.drift, system.observables, system.noise)
    return [sums for part in parts for sums in part.values()]


def _refuse_unknown(system: System) -> None:
    known = {*system.state, *system.parameters, *map(name_of, system.definitions), "B"}
    found = {name_of(x) for sums in _sums(system) for term in sums for x in term.body.atoms(sp.Indexed)}
    if found - known:
        raise TypeError(f"{system.name}: {', '.join(sorted(found - known))} are no arrays of the system")


def _sizes(system: System) -> list[str]:
    """Names of the ranges."""
    letters = {x for sums in _sums(system) for term in sums for x in (*term.bound, *free_indices(term.body))}
    letters |= {x for component in system.drift for x in component.indices}
    return sorted({str(x) for letter in letters for x in letter.length.free_symbols})


# ------------------------------------------------------------------------------- functions of numbers


def kernel(dual: sp.Expr, coefficients: Sequence[sp.Symbol] = (), orders: int = 2) -> str:
    r"""$\varphi,\varphi',\dots$ up to so many derivatives, as an arrow function of the coefficients' values to a list.

    A cosine beyond ±1 is rounding and counts as ±1, as in every other target. Raises `TypeError` for what
    JavaScript has no name for.
    """
    found = [dual] + [sp.diff(dual, kernel_variable, order) for order in range(1, orders + 1)]
    shaped = [sp.horner(x, kernel_variable) if x.is_polynomial(kernel_variable) else x for x in found]
    name = f"${kernel_variable}"
    clip = f"if ({name} > 1) {name} = 1; else if ({name} < -1) {name} = -1;"
    parts = ",\n".join(f"{name} => {{ {clip} return {_print(x)}; }}" for x in shaped)
    return f"({', '.join(f'${x}' for x in coefficients)}) => [\n{parts}]"


def function(expressions: Sequence[sp.Expr], arguments: Sequence[sp.Symbol]) -> str:
    """Expressions as one arrow function of the arguments' values, in order, to the list of theirs; common parts once.

    Raises `TypeError` for what JavaScript has no name for.
    """
    shared, found = sp.cse(list(expressions), symbols=sp.numbered_symbols("shared"))
    lines = "".join(f"const {_print(name)} = {_print(value)};\n" for name, value in shared)
    values = ", ".join(map(_print, found))
    return f"({', '.join(_print(x) for x in arguments)}) => {{\n{lines}return [{values}]; }}"
