"""Tests of others about what our broker does not offer yet. They are not run unless they are asked for by name.

When a feature arrives, its tests leave this list.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """Why a test is left out."""

    category: str
    because: str

    def __str__(self) -> str:
        return f"{self.category}: {self.because}"


SHARE_GROUPS = "share groups"
ACLS = "ACLs"
SASL = "SASL"
TLS = "TLS"

OUT_OF_SCOPE = {
    # librdkafka
    "0081_admin/CreateAcls": Reason(ACLS, "creates rules"),
    "0081_admin/DescribeAcls": Reason(ACLS, "creates and lists rules"),
    "0081_admin/DeleteAcls": Reason(ACLS, "creates and deletes rules"),
    "0081_admin/DescribeConsumerGroups_with_authorized_ops": Reason(ACLS, "denies operations with rules"),
    "0081_admin/UserScramCredentials": Reason(SASL, "stores passwords of users"),
    "0109_auto_create_topics": Reason(ACLS, "its second half denies a topic with kafka-acls.sh"),
    "0115_producer_auth": Reason(ACLS, "denies a topic with kafka-acls.sh"),
    "0119_consumer_auth": Reason(ACLS, "denies a topic with kafka-acls.sh"),
    "0126_oauthbearer_oidc": Reason(SASL, "authenticates with OAuth"),
    "0135_sasl_credentials": Reason(SASL, "changes the password of a client"),
    "0142_reauthentication": Reason(SASL, "authenticates again on a connection"),
    "0097_ssl_verify": Reason(TLS, "needs certificates"),
    "0170_share_consumer_subscription": Reason(SHARE_GROUPS, "subscribes"),
    "0171_share_consumer_consume": Reason(SHARE_GROUPS, "consumes"),
    "0172_share_consumer_acknowledge": Reason(SHARE_GROUPS, "acknowledges"),
    "0173_share_consumer_commit_async": Reason(SHARE_GROUPS, "acknowledges"),
    "0174_share_consumer_concurrency": Reason(SHARE_GROUPS, "consumes with many members"),
    "0175_share_consumer_groups": Reason(SHARE_GROUPS, "consumes with many groups"),
    "0176_share_consumer_commit_sync": Reason(SHARE_GROUPS, "acknowledges"),
    "0177_share_consumer_transactions": Reason(SHARE_GROUPS, "consumes what transactions wrote"),
    "0178_share_consumer_close": Reason(SHARE_GROUPS, "leaves the group"),
    "0179_share_consumer_destroy": Reason(SHARE_GROUPS, "leaves the group"),
    "0180_share_consumer_config": Reason(SHARE_GROUPS, "sets the configs of a group"),
    "0181_share_consumer_topic_delete": Reason(SHARE_GROUPS, "consumes a topic that is deleted"),
    "0184_share_consumer_topic_recreate": Reason(SHARE_GROUPS, "consumes a topic that is made anew"),
    "0185_share_consumer_max_poll_interval": Reason(SHARE_GROUPS, "is thrown out of the group"),
    # kafka-python
    "test_admin_integration.py::test_create_describe_delete_acls": Reason(ACLS, "creates, lists and deletes rules"),
}

# Of these files, every test.
FILES_OUT_OF_SCOPE = {
    "test_sasl_integration.py": Reason(SASL, "starts brokers with authentication"),
    "test_ssl_integration.py": Reason(TLS, "starts brokers with certificates"),
}


def is_out_of_scope(name: str) -> bool:
    return name in OUT_OF_SCOPE or name.split("::")[0] in FILES_OUT_OF_SCOPE
