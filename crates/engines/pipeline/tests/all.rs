//! The tests that can share a process, a module each: one program to link.

mod hostile_packet;
mod machine;
mod os_ken_suite;
mod packet_actions;
mod packet_build;
mod packet_decode;
mod packet_key;
mod packet_reassembly;
mod packet_scapy;
mod packets;
mod python;
