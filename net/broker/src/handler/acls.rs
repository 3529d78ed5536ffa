//! DescribeAcls, CreateAcls, DeleteAcls: there is no authorizer, and that is what each of them answers, as a Kafka without one does.
//!
//! Consoles ask so to find out whether to show ACLs. Source: KIP-140.

use pelton_model::ErrorCode;
use pelton_protocol::codec::Str;
use pelton_protocol::message::create_acls::{
    AclCreationResult, CreateAclsRequest, CreateAclsResponse,
};
use pelton_protocol::message::delete_acls::{
    DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse,
};
use pelton_protocol::message::describe_acls::{DescribeAclsRequest, DescribeAclsResponse};

use super::Handled;
use crate::dispatch::Request;

const TEXT: &str = "No Authorizer is configured.";
/// What Kafka's enumerations call UNKNOWN; a request that has it closes its connection there, too.
const UNKNOWN: i8 = 0;

fn check_known(fields: [i8; 4]) -> Result<(), String> {
    if fields.contains(&UNKNOWN) {
        return Err("an ACL of an unknown kind".to_owned());
    }
    Ok(())
}

/// Answers DescribeAcls.
pub(crate) fn describe(request: &Request) -> Handled {
    let asked: DescribeAclsRequest = request.body()?;
    check_known([
        asked.resource_type_filter,
        asked.pattern_type_filter,
        asked.operation,
        asked.permission_type,
    ])?;
    Ok(request.respond(&DescribeAclsResponse {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some(Str::from(TEXT)),
        ..DescribeAclsResponse::default()
    }))
}

/// Answers CreateAcls.
pub(crate) fn create(request: &Request) -> Handled {
    let asked: CreateAclsRequest = request.body()?;
    for acl in &asked.creations {
        check_known([
            acl.resource_type,
            acl.resource_pattern_type,
            acl.operation,
            acl.permission_type,
        ])?;
    }
    let result = AclCreationResult {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some(Str::from(TEXT)),
    };
    Ok(request.respond(&CreateAclsResponse {
        results: vec![result; asked.creations.len()],
        ..CreateAclsResponse::default()
    }))
}

/// Answers DeleteAcls.
pub(crate) fn delete(request: &Request) -> Handled {
    let asked: DeleteAclsRequest = request.body()?;
    for filter in &asked.filters {
        check_known([
            filter.resource_type_filter,
            filter.pattern_type_filter,
            filter.operation,
            filter.permission_type,
        ])?;
    }
    let result = DeleteAclsFilterResult {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some(Str::from(TEXT)),
        matching_acls: Vec::new(),
    };
    Ok(request.respond(&DeleteAclsResponse {
        filter_results: vec![result; asked.filters.len()],
        ..DeleteAclsResponse::default()
    }))
}
