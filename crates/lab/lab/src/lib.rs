//! Topologies, DUTs, trials, ledger, environment record.
