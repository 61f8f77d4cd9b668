//! AF_PACKET rings as ports.
