"""Changes of the finalised levels of features, with Kafka's words (KIP-584, KIP-778, KIP-1022). Pure.

`metadata.version` is not lowered: Kafka refuses that too where records of the higher level may exist.
"""

from __future__ import annotations

from collections.abc import Mapping

METADATA_LEVEL = "metadata.version"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3

Range = tuple[int, int]


def problem_of(
    levels: Mapping[str, int], supported: Mapping[str, Range], controller: int, name: str, level: int, kind: int
) -> str | None:
    """Return the reason why a feature cannot have a level; None: it can.

    Args:
        levels: the finalised levels of all features.
        supported: the levels that brokers support.
        controller: the controller's id.
        name: the feature.
        level: the level.
        kind: the upgrade type.
    """
    reason = _reason(levels.get(name, 0), supported.get(name, (0, 0)), controller, level, kind)
    if reason is not None:
        return f"Invalid update version {level} for feature {name}. {reason}"
    if name == METADATA_LEVEL and level < levels[name]:
        if kind == UNSAFE_DOWNGRADE:
            reason = "Unsafe metadata downgrade is not supported in this version."
        else:
            reason = "Refusing to perform the requested downgrade because it might delete metadata information."
        return f"Unsupported {METADATA_LEVEL} downgrade from {levels[name]} to {level}. {reason}"
    return None


def _reason(current: int, supported: Range, controller: int, level: int, kind: int) -> str | None:
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    low, high = supported
    if not low <= level <= high:
        if high == 0:
            return f"Local controller {controller} does not support this feature."
        return f"Local controller {controller} only supports versions {low}-{high}"
    if level < current and kind == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if level > current and kind != UPGRADE:
        return "Can't downgrade to a newer version."
    return None
