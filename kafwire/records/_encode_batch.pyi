def encode_batch(
    records_or_arrow: object,
    compression: str,
    level: int | None,
    base_offset: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    transactional: bool,
    control: bool,
    timestamp_type: int,
    max_timestamp_ms: int | None,
) -> bytes: ...
