//! AF_XDP sockets as ports.
