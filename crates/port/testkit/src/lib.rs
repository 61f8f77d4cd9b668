//! The conformance suite that every port passes.
