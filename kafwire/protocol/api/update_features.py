"""UpdateFeatures (57): raise or lower the feature levels of a cluster. See KIP-584, KIP-778, KIP-1022."""

from kafwire.protocol.spec import Request, Response, Struct, field, int8, int16, int32


class UpdateFeaturesResponse(Response, key=57, versions="0-2", flexible="0+"):
    """The response to `UpdateFeaturesRequest`: from version 2 one error for all features, before it one for each."""

    class UpdatableFeatureResult(Struct):
        feature: str = field("0+")
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    results: list[UpdatableFeatureResult] = field("0-1", ignorable=True)


class UpdateFeaturesRequest(Request[UpdateFeaturesResponse], key=57, versions="0-2", flexible="0+"):
    """Sets features to `max_version_level`; 0 removes one.

    Upgrade type 1 only raises a level, 2 also lowers it if nothing gets lost, 3 lowers it in any case. Version 0 has
    only the flag `allow_downgrade`.
    """

    class FeatureUpdateKey(Struct):
        feature: str = field("0+")
        max_version_level: int16 = field("0+")
        allow_downgrade: bool = field("0")
        upgrade_type: int8 = field("1+", default=1)

    timeout_ms: int32 = field("0+", default=60000)
    feature_updates: list[FeatureUpdateKey] = field("0+")
    validate_only: bool = field("1+")
