"""PostgreSQL as a source: its log, read through logical replication with the plugin pgoutput."""
