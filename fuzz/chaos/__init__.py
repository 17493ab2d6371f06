"""Clients under sanitizers against an embedded broker, behind proxies that reset, cut, flip bits and stall.

`client` is the program that runs under a sanitizer, in threads; `actors` are what its threads do. `server` is the
broker with its proxies, in a process of its own and without a sanitizer. `build` compiles the extensions into a folder
of their own. `run` starts both processes and judges what they print.
"""
