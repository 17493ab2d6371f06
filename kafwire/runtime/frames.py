"""The frame and correlation core, for transports that move the bytes themselves.

It is the same core (`native/frame.c`) that the native I/O thread runs for plain connections, so a simulated or
encrypted connection treats split, merged and malformed frames in the same way. Sans-I/O:

    frames = Frames(max_frame=8 << 20)
    frames.queue(token, correlation_id, [header, body])
    transport.write(frames.take())                 # until it returns b""
    frames.feed(received)                          # ProtocolError: close the connection
    for kind, token, frame in frames.completions(): ...
    frames.outstanding()                           # the connection ended: these tokens fail
"""

from kafwire.runtime._frame import RESPONSE, SENT, Frames

__all__ = ["RESPONSE", "SENT", "Frames"]
