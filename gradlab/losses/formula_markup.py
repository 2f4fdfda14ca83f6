"""Convert the plain-text formula of a loss to TeX (pages, notebooks) and HTML (explorer)."""

from __future__ import annotations

import html
import re

# Keys of a loss's ``latex``, and their symbols.
COMPONENT_SYMBOLS = (("gradient_dissipation", "GD_i"), ("weight", "W_{ij}"), ("ratio", "R_i"))
# A subscript, a word or number, a combining tilde with its letter, or one sign.
_TOKEN = re.compile(
    r"_(?:\{([^}]*)\}|([A-Za-z]{2,}'|[A-Za-z]+(?:[≠<][A-Za-z]+)?))|([A-Za-z])\u0303|([A-Za-z]+)|(.)"
)
_FUNCTIONS = {"log": r"\log ", "exp": r"\exp ", "cos": r"\cos ", "max": r"\max", "min": r"\min"}
_OPERATORS = ("sg", "softmax", "mean", "cov", "var", "artanh")
_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "θ": "theta", "κ": "kappa", "λ": "lambda",
    "ν": "nu", "σ": "sigma", "τ": "tau", "φ": "phi", "Σ": "sum",
}  # fmt: skip
_SIGNS = {
    "²": "^2",
    "·": r"\cdot ",
    "≠": r"\ne ",
    "₁": "_1",
    "₂": "_2",
    "⁺": "^+",
    "ᵀ": r"^{\top}",
    "{": r"\{",
    "}": r"\}",
}
# A comma before an explanation of the formula, such as the definition of a symbol.
_EXPLAINS = re.compile(r",\s+(?=\S+ = |\S+\(\S+\) = |each )")


def formula_latex(formula: str) -> str:
    """Return ``L = …`` in TeX, with each definition of a symbol on its own line.

    Example:
        >>> formula_latex("-log σ(cos θ_ii'/τ)")
        "L = -\\\\log \\\\sigma (\\\\cos \\\\theta_{ii'}/\\\\tau)"
    """
    value, *definitions = _EXPLAINS.split(formula)
    lines = ["" if value.startswith("L ") else "L = ", *map(_latex, definitions)]
    lines[0] += _latex(value)
    if not definitions:
        return lines[0]
    return r"\begin{gathered} " + r", \\ ".join(lines) + r" \end{gathered}"


def formula_html(formula: str) -> str:
    """Return ``L = …`` in HTML.

    Example:
        >>> formula_html("cos θ_ii'/τ")
        'L = cos <var>θ</var><sub>ii&#x27;</sub>/<var>τ</var>'
    """

    def token(match: re.Match[str]) -> str:
        braced, sub, tilde, word, sign = match.groups()
        if braced or sub:
            return f"<sub>{html.escape(braced or sub)}</sub>"
        if tilde:
            return f"<var>{tilde}\u0303</var>"
        if (word and len(word) == 1 and word != "a") or (sign in _GREEK and sign not in "Σσ"):
            return f"<var>{word or sign}</var>"
        return html.escape(word or sign.replace("-", "−"))

    text = formula if formula.startswith("L ") else f"L = {formula}"
    return _TOKEN.sub(token, text).replace("<var>L</var> =", "L =", 1)


def _latex(text: str) -> str:
    def token(match: re.Match[str]) -> str:
        braced, sub, tilde, word, sign = match.groups()
        if braced or sub:
            return "_{" + (braced or sub).replace("≠", r"\ne ") + "}"
        if tilde:
            return rf"\tilde{{{tilde}}}"
        if word in _FUNCTIONS:
            return _FUNCTIONS[word]
        if word in _OPERATORS:
            return rf"\operatorname{{{word}}}"
        if word:
            plain = len(word) == 1 and word != "a"
            return word if plain else r"\mathrm{GD}" if word == "GD" else f"\0{word}\0"
        return rf"\{_GREEK[sign]} " if sign in _GREEK else _SIGNS.get(sign, sign)

    latex = _TOKEN.sub(token, text.replace("1{", "𝟙{")).replace("𝟙", r"\mathbb{1}")
    tidy = re.sub(r" +(?=[ _)}/])", "", latex.replace("\0 \0", " ").replace("]+", "]_+"))
    return re.sub("\0([^\0]*)\0", r"\\text{ \1 }", tidy)
