#!/bin/sh
# The OpenFlow switch under traffic with random changes, ports that go and come, and controllers that do, for SECONDS (600):
# crates/apps/ofswitch/tests/soak.rs in release. It says what was sent and probed; a sum that does not balance, memory that grows, or a
# packet on an old way ends it with status 101.
#     benches/ofswitch-soak.sh [SECONDS]
set -eu
export LINERATE_SOAK_SECONDS="${1:-600}"
exec cargo test --release -p linerate-ofswitch --test soak -- --nocapture
