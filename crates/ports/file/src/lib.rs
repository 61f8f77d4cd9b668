//! pcap and pcapng files as ports.
