"""The value side of ``--set key=value``: a strict, small subset of YAML's flow style.

``true``, ``false``, ``null``, numbers, quoted texts, ``[a, b]``, ``{key: value}``, and bare words as texts. Unlike
YAML, ``yes`` is a text, ``1e-3`` is a number, and nothing may follow the value.
"""

import re

from domain.errors import ConfigurationError

_WORDS: dict[str, object] = {"true": True, "false": False, "null": None}
_INT = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_BARE_END = re.compile(r"[,\[\]{}:\"']")


def parse_value(text: str) -> object:
    """Return the value that ``text`` writes down.

    Raises:
        ConfigurationError: An empty text, an unclosed bracket or quote, or something after the value.
    """
    if not text.strip():
        raise ConfigurationError("nothing follows '=': give a value, or \"\" for an empty text")
    if text.strip()[0] not in "[{\"'":
        return _word(text.strip())
    reader = _Reader(text)
    value = reader.value()
    reader.finish()
    return value


def _word(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


class _Reader:
    """Reads one value from the left."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def value(self) -> object:
        """Read the next value."""
        first = self._peek()
        if first == "[":
            return self._list()
        if first == "{":
            return self._mapping()
        if first in ("'", '"'):
            return self._quoted()
        return _word(self._bare())

    def finish(self) -> None:
        """Raise ConfigurationError unless all is read."""
        if self._peek():
            raise self._error(f"'{self._text[self._at :].strip()}' follows the value")

    def _list(self) -> list[object]:
        self._at += 1
        items: list[object] = []
        while self._peek() != "]":
            items.append(self.value())
            self._separate("]")
        self._at += 1
        return items

    def _mapping(self) -> dict[str, object]:
        self._at += 1
        items: dict[str, object] = {}
        while self._peek() != "}":
            key = self._quoted() if self._peek() in ("'", '"') else self._bare()
            if self._peek() != ":":
                raise self._error(f"a ':' is missing after '{key}'")
            self._at += 1
            if key in items:
                raise self._error(f"'{key}' stands there twice")
            items[key] = self.value()
            self._separate("}")
        self._at += 1
        return items

    def _separate(self, end: str) -> None:
        """Step over a comma, or stay before the closing bracket."""
        if self._peek() == ",":
            self._at += 1
        elif self._peek() != end:
            raise self._error(f"a ',' or '{end}' is missing")

    def _quoted(self) -> str:
        quote = self._peek()
        end = self._text.find(quote, self._at + 1)
        if end < 0:
            raise self._error(f"a closing {quote} is missing")
        word = self._text[self._at + 1 : end]
        self._at = end + 1
        return word

    def _bare(self) -> str:
        self._peek()
        end = _BARE_END.search(self._text, self._at)
        word = self._text[self._at : end.start() if end else len(self._text)].strip()
        if not word:
            raise self._error("a value is missing")
        self._at += len(word)
        return word

    def _peek(self) -> str:
        """Return the next character that is no space, or an empty text at the end."""
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _error(self, what: str) -> ConfigurationError:
        return ConfigurationError(f"cannot read the value {self._text.strip()}: {what}")
