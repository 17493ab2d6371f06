"""TLS and SASL: how clients authenticate, and how they verify the broker."""
