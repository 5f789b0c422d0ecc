"""The reference of settings is written from the catalogue: `python -m tests.unit.broker.configs.test_reference`."""

from pathlib import Path

import pytest

from runnel.broker.configs.catalogue import BROKER, TOPIC, Config, Treatment, configs

REFERENCE = Path(__file__).parents[4] / "docs" / "reference"
PAGES = {BROKER: REFERENCE / "broker-settings.md", TOPIC: REFERENCE / "topic-settings.md"}
LARGE = {str(2**63 - 1): "2^63 - 1", str(2**31 - 1): "2^31 - 1"}


def table(kind: str, treatment: Treatment) -> str:
    """The rows of a page about the configurations that are treated so."""
    listed = [config for config in configs(kind).values() if config.treatment is treatment]
    return {Treatment.HONOURED: honoured, Treatment.IGNORED: reasons, Treatment.REFUSED: reasons}[treatment](listed)


def honoured(listed: list[Config]) -> str:
    rows = [
        f"| `{config.name}` | {shown(config.default)} | {values(config)} |{change(config)} {config.text} |"
        for config in listed
    ]
    changes = " changes |" if listed[0].kind == BROKER else ""
    line = "---|" if changes else ""
    return "\n".join([f"| name | default | values |{changes} meaning |", f"|---|---|---|{line}---|", *rows])


def reasons(listed: list[Config]) -> str:
    """Names with the same reason share a row."""
    by_reason: dict[str, list[str]] = {}
    for config in listed:
        by_reason.setdefault(config.text, []).append(f"`{config.name}`")
    rows = [f"| {', '.join(names)} | {reason} |" for reason, names in sorted(by_reason.items())]
    return "\n".join(["| names | why |", "|---|---|", *rows])


def shown(default: str | None) -> str:
    return f"`{LARGE.get(default, default)}`" if default else "none"


def values(config: Config) -> str:
    expected = config.expected.removeprefix("a whole number of ").removeprefix("a whole number ")
    return expected.replace("a whole number", "a number")


def change(config: Config) -> str:
    if config.kind != BROKER:
        return ""
    return " at run time |" if config.is_dynamic else " at the start |"


def page_with(kind: str, text: str) -> str:
    """The page with its tables as the catalogue has them; a table stands between two marks."""
    for treatment in Treatment:
        begin, end = f"<!-- {treatment} -->\n", f"<!-- end of {treatment} -->\n"
        before, rest = text.split(begin)
        _, after = rest.split(end)
        text = f"{before}{begin}\n{table(kind, treatment)}\n\n{end}{after}"
    return text


@pytest.mark.parametrize("kind", PAGES)
def test_the_reference_says_what_the_catalogue_says(kind: str) -> None:
    text = PAGES[kind].read_text(encoding="utf-8")

    assert text == page_with(kind, text), "python -m tests.unit.broker.configs.test_reference writes it again"


@pytest.mark.parametrize("kind", PAGES)
def test_the_reference_names_every_setting(kind: str) -> None:
    text = PAGES[kind].read_text(encoding="utf-8")

    assert [name for name in configs(kind) if f"`{name}`" not in text] == []


if __name__ == "__main__":
    for kind, page in PAGES.items():
        page.write_text(page_with(kind, page.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"wrote {page}")
