//! As much of HTTP/1.1 as a scraper needs: the head of a GET in, one answer out, and the connection is closed.
//!
//! Invariants:
//! 1. Nothing is read beyond [`METRICS_HEAD_BYTES_MAX`]; whatever comes, the outcome is a request, more bytes, or a refusal.
//! 2. Every answer says its length and that the connection ends.
//!
//! Source: RFC 9112, RFC 9110.

use pelton_model::limits::{METRICS_HEAD_BYTES_MAX, METRICS_HEADERS_MAX};

/// What has been received so far.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// The head is not whole.
    Partial,
    /// A request, without its query.
    Request {
        /// The path.
        path: String,
        /// Whether only the head of the answer is wanted.
        head_only: bool,
    },
    /// Answer this and close.
    Refused(Status),
}

/// The status of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Here it is.
    Ok,
    /// No HTTP.
    BadRequest,
    /// Nothing is there.
    NotFound,
    /// Only GET and HEAD are.
    MethodNotAllowed,
    /// The request did not come in time.
    RequestTimeout,
    /// The head is too long.
    HeadTooLarge,
    /// Not yet, or not any more.
    Unavailable,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::RequestTimeout => "408 Request Timeout",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::Unavailable => "503 Service Unavailable",
        }
    }
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: Status,
    pub(super) content_type: &'static str,
    pub(super) body: String,
}

impl Answer {
    /// A line of text.
    pub(super) fn text(status: Status, line: &str) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: format!("{line}\n"),
        }
    }

    /// An answer that only says its status.
    pub(super) fn of(status: Status) -> Self {
        Self::text(status, status.line())
    }

    /// The bytes on the wire.
    pub(super) fn encode(self, head_only: bool) -> String {
        let allow = if self.status == Status::MethodNotAllowed {
            "Allow: GET, HEAD\r\n"
        } else {
            ""
        };
        let mut text = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n{allow}Connection: close\r\n\r\n",
            self.status.line(),
            self.content_type,
            self.body.len(),
        );
        if !head_only {
            text.push_str(&self.body);
        }
        text
    }
}

/// Looks at what was received.
pub(super) fn parse(received: &[u8]) -> Head {
    let bytes = &received[..received.len().min(METRICS_HEAD_BYTES_MAX)];
    let mut headers = [httparse::EMPTY_HEADER; METRICS_HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if bytes.len() < METRICS_HEAD_BYTES_MAX => {
            return Head::Partial;
        }
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Head::Refused(Status::HeadTooLarge);
        }
        Err(_) => return Head::Refused(Status::BadRequest),
    }
    let head_only = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        Some(_) | None => return Head::Refused(Status::MethodNotAllowed),
    };
    let target = request.path.unwrap_or_default();
    let path = target.split(['?', '#']).next().unwrap_or_default();
    Head::Request {
        path: path.to_owned(),
        head_only,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str) -> Head {
        Head::Request {
            path: path.to_owned(),
            head_only: false,
        }
    }

    // Goal: what is served and what is refused. Method: a table of received bytes.
    #[test]
    fn heads() {
        fn check(received: &str, expected: Head) {
            assert_eq!(parse(received.as_bytes()), expected, "{received:?}");
        }
        let refused = Head::Refused;
        check("", Head::Partial);
        check("GET /metrics HTTP/1.1\r\nHost: a\r\n", Head::Partial);
        check("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", get("/metrics"));
        check("GET /a?b=c&d HTTP/1.0\r\n\r\n", get("/a"));
        check("GET /metrics HTTP/1.1\n\n", get("/metrics"));
        let head_only = Head::Request {
            path: "/".to_owned(),
            head_only: true,
        };
        check("HEAD / HTTP/1.1\r\n\r\n", head_only);
        check("POST / HTTP/1.1\r\n\r\n", refused(Status::MethodNotAllowed));
        check("get / HTTP/1.1\r\n\r\n", refused(Status::MethodNotAllowed));
        check("GET / HTTP/2.0\r\n\r\n", refused(Status::BadRequest));
        check("GET  HTTP/1.1\r\n\r\n", refused(Status::BadRequest));
        check("\0\0\0\x10\0\x12\0\x03", refused(Status::BadRequest));
        check(
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            refused(Status::BadRequest),
        );
        let many = format!(
            "GET / HTTP/1.1\r\n{}\r\n",
            "a: b\r\n".repeat(METRICS_HEADERS_MAX + 1)
        );
        check(&many, refused(Status::HeadTooLarge));
        let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(METRICS_HEAD_BYTES_MAX));
        check(&long, refused(Status::HeadTooLarge));
    }

    // Goal: however bytes are cut and bent, an outcome and no panic. Method: every prefix, and every byte changed.
    #[test]
    fn hostile_heads() {
        let whole = b"GET /metrics?x=1 HTTP/1.1\r\nHost: localhost:9644\r\nAccept: */*\r\n\r\n";
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), Head::Partial, "{end}");
            for byte in [0, b' ', b'\r', b'\n', 0x7f, 0x80, 0xff] {
                let mut bent = whole.to_vec();
                bent[end] = byte;
                drop(parse(&bent));
            }
        }
    }

    // Goal: an answer can be read by anybody. Method: the bytes of two.
    #[test]
    fn answers() {
        let text = Answer::text(Status::Unavailable, "no").encode(false);
        assert_eq!(
            text,
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\nCache-Control: no-store\r\nConnection: close\r\n\r\nno\n"
        );
        let head = Answer::of(Status::MethodNotAllowed).encode(true);
        assert!(head.contains("\r\nAllow: GET, HEAD\r\n") && head.ends_with("\r\n\r\n"));
    }
}
