"""Coverage-guided fuzzing of what is Python, by atheris: libFuzzer with the interpreter's branches as its map."""
