"""Coverage-guided fuzzing of the decoders as machine code: libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer."""
