"""Coverage-guided fuzzing of the Python code, by atheris: libFuzzer with the interpreter's branches as its map."""
