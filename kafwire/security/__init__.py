"""How clients prove who they are, and see who the broker is: TLS and SASL."""
