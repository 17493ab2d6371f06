"""Share consumers (KIP-932): records are acquired for a limited time, and acknowledged one by one."""
