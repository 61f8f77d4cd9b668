//! What `linerate ofswitch` and `linerate ofswitch ctl` show.

pub mod text;
