"""Side by side measurements of kafwire, its peers, and the floor below them all. See README.md in this folder."""
