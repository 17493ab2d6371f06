"""The options of a client that are about logging in, as a login takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafwire.secret import Secret


@dataclass(frozen=True, kw_only=True)
class Options:
    sasl_mechanism: str
    sasl_username: str | None = None
    sasl_password: Secret | None = None
    sasl_tokenauth: bool = False
    sasl_oauthbearer_token_provider: Callable[[], object] | None = None
    sasl_oauthbearer_token_endpoint_url: str | None = None
    sasl_oauthbearer_client_id: str | None = None
    sasl_oauthbearer_client_secret: Secret | None = None
    sasl_oauthbearer_scope: str | None = None
    sasl_oauthbearer_extensions: str | Mapping[str, str] | None = None
    sasl_oauthbearer_grant_type: str | None = None
    sasl_oauthbearer_assertion_file: str | None = None
    sasl_oauthbearer_assertion_algorithm: str | None = None
    sasl_oauthbearer_assertion_private_key_file: str | None = None
    sasl_oauthbearer_assertion_private_key_pem: Secret | None = None
    sasl_oauthbearer_assertion_private_key_passphrase: Secret | None = None
    sasl_oauthbearer_assertion_jwt_template_file: str | None = None
    sasl_oauthbearer_assertion_claim_aud: str | None = None
    sasl_oauthbearer_assertion_claim_iss: str | None = None
    sasl_oauthbearer_assertion_claim_sub: str | None = None
    sasl_oauthbearer_assertion_claim_exp_seconds: int = 300
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = 60
    sasl_oauthbearer_assertion_claim_jti_include: bool = False
    https_ca_location: str | None = None
    https_ca_pem: str | None = None
    sasl_kerberos_service_name: str | None = None
    sasl_kerberos_principal: str | None = None
    sasl_kerberos_keytab: str | None = None
    sasl_aws_region: str | None = None
