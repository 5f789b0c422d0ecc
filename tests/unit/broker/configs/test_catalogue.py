import pytest

from runnel.broker.configs import treatments
from runnel.broker.configs.catalogue import BROKER, CLIENT_METRICS, GROUP, TOPIC, Treatment, configs

KINDS = (BROKER, TOPIC, GROUP, CLIENT_METRICS)


@pytest.mark.parametrize(("kind", "least"), [(BROKER, 360), (TOPIC, 34), (GROUP, 17), (CLIENT_METRICS, 3)])
def test_every_configuration_has_a_treatment_and_a_text(kind: str, least: int) -> None:
    assert len(configs(kind)) >= least
    assert [config.name for config in configs(kind).values() if not config.text] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_rule_is_about_something(kind: str) -> None:
    rules = [*treatments.IGNORED[kind], *treatments.REFUSED[kind]]
    used = {treatments.rule_for(rules, name) for name in configs(kind)}

    assert [rule for rule in rules if rule not in used] == []
    assert [name for name in treatments.HONOURED[kind] if name not in configs(kind)] == []


def test_a_longer_rule_wins_over_a_shorter_one() -> None:
    rules = {"a.*": "", "a.b.*": "", "a.b.c": ""}

    assert [treatments.rule_for(rules, name) for name in ("a.b.c", "a.b.d", "a.c", "b")] == [
        "a.b.c",
        "a.b.*",
        "a.*",
        None,
    ]


def test_a_topics_synonyms_are_settings_of_the_broker() -> None:
    synonyms = {name for config in configs(TOPIC).values() for name in config.synonyms}

    assert synonyms - configs(BROKER).keys() == set()


@pytest.mark.parametrize("kind", KINDS)
def test_a_default_is_valid_where_it_stands(kind: str) -> None:
    for config in configs(kind).values():
        if config.default and config.treatment is not Treatment.REFUSED:
            config.check(config.default)
