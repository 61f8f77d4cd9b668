//! What `linerate switch` and `linerate switch ctl` show.
//!
//! ```text
//! text.rs    tables of documents for people          progress.rs   a line a second
//! ```

pub mod progress;
pub mod text;
