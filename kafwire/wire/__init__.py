"""What connects two ends without connecting anything: frames and correlation, and version negotiation.

Pure: bytes in, bytes and completions out. No sockets, no clock, no threads, no randomness may live here.
"""
