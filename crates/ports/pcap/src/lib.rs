//! libpcap, loaded at run time, as ports.
