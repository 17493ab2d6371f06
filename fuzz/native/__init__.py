"""Coverage-guided fuzzing of the decoders as machine code: libFuzzer and sanitizers."""
