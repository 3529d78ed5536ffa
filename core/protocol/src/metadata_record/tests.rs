//! Tests of the metadata records.
