//! HTTP/1.1 messages (RFC 9112) as both ends read them: heads by `httparse`, bodies by their three ways to end.

mod body;
mod head;
mod malformed;
mod partial;

pub use body::{Body, Step};
pub use head::{RequestHead, ResponseHead, request_head, response_head};
pub use malformed::Malformed;
pub use partial::Partial;
