//! Results: the versioned document, terminal tables, storage.
