//! One file per API: its request, its response, and what they consist of.

pub mod api_versions;
