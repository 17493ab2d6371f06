"""Members of share groups (KIP-932): records are acquired for a while, and acknowledged one by one."""
