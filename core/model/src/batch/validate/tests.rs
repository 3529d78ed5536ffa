//! Tests of the validation; see below.
