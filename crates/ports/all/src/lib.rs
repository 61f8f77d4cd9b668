//! Port spec text to open port: the only crate that names backends.
