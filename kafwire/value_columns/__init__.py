"""Arrow columns of decoded values, for all formats. Pure: no sockets, no clock."""
