//! Port that discards and never receives.
