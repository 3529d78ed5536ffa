//! Request and response headers.
//!
//! The client id is a two-byte-length string in every version, so that any broker can read any ApiVersions request.

use crate::api::{self, ApiRow};
use crate::codec::{DecodeError, Message, Reader, Str, Writer};

/// What precedes a request's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// The API's number.
    pub api_key: i16,
    /// The version of the body.
    pub api_version: i16,
    /// Chosen by the client, echoed in the response.
    pub correlation_id: i32,
    /// How the client names itself.
    pub client_id: Option<Str>,
}

impl RequestHeader {
    /// Reads a header of whatever version the API and its version call for. The body follows.
    ///
    /// # Errors
    /// `UnknownKey` for an API that is not served; others when the bytes are no header. The caller closes the connection.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let api_key = reader.int16()?;
        let api_version = reader.int16()?;
        let row = api::row(api_key).ok_or(DecodeError::UnknownKey { key: api_key })?;
        let correlation_id = reader.int32()?;
        let client_id = reader.str(false)?;
        if row.request_header_version(api_version) == 2 {
            reader.skip_tags()?;
        }
        Ok(Self {
            api_key,
            api_version,
            correlation_id,
            client_id,
        })
    }

    /// Writes the header of a request to the API of `row`.
    pub fn encode(&self, writer: &mut Writer, row: &ApiRow) {
        writer.int16(self.api_key);
        writer.int16(self.api_version);
        writer.int32(self.correlation_id);
        match &self.client_id {
            Some(client_id) => writer.string(client_id, false),
            None => writer.null_string(false),
        }
        if row.request_header_version(self.api_version) == 2 {
            writer.unsigned_varint(0);
        }
    }
}

/// What precedes a response's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHeader {
    /// The request's.
    pub correlation_id: i32,
}

impl ResponseHeader {
    /// Reads the header of a response to a request of `api_version` to the API of `row`. The body follows.
    ///
    /// # Errors
    /// When the bytes are no header.
    pub fn decode(
        reader: &mut Reader<'_>,
        row: &ApiRow,
        api_version: i16,
    ) -> Result<Self, DecodeError> {
        let correlation_id = reader.int32()?;
        if row.response_header_version(api_version) == 1 {
            reader.skip_tags()?;
        }
        Ok(Self { correlation_id })
    }

    /// Writes the header of a response to a request of `api_version` to the API of `row`.
    pub fn encode(self, writer: &mut Writer, row: &ApiRow, api_version: i16) {
        writer.int32(self.correlation_id);
        if row.response_header_version(api_version) == 1 {
            writer.unsigned_varint(0);
        }
    }
}

/// A whole response frame, ready to be sent by [`Writer::into_slices`] or [`Writer::into_bytes`].
///
/// # Panics
/// When `M` is no message of an API served, or `api_version` none of its versions: both were checked on the request.
#[must_use]
pub fn response_frame<M: Message>(correlation_id: i32, api_version: i16, response: &M) -> Writer {
    let row = api::row(M::KEY).expect("a response's key has a row");
    let mut writer = Writer::frame(RESPONSE_BYTES);
    ResponseHeader { correlation_id }.encode(&mut writer, row, api_version);
    response.encode(&mut writer, api_version);
    writer
}

/// A whole request frame, ready to be sent by [`Writer::into_slices`] or [`Writer::into_bytes`].
///
/// # Panics
/// When `M` is no message of an API served, or `api_version` none of its versions.
#[must_use]
pub fn request_frame<M: Message>(
    correlation_id: i32,
    client_id: Option<&Str>,
    api_version: i16,
    request: &M,
) -> Writer {
    let row = api::row(M::KEY).expect("a request's key has a row");
    let header = RequestHeader {
        api_key: M::KEY,
        api_version,
        correlation_id,
        client_id: client_id.cloned(),
    };
    let mut writer = Writer::frame(RESPONSE_BYTES);
    header.encode(&mut writer, row);
    request.encode(&mut writer, api_version);
    writer
}

/// Room made for a frame; most fit.
const RESPONSE_BYTES: usize = 252;
