//! Answers that keep their asker's turn until they are read: whoever does not read gets no others.
//! And how long their texts are.

use axum::body::{Body, HttpBody};
use axum::response::Response;
use hyper::body::{Bytes, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::OwnedSemaphorePermit;

/// Bytes that are given away at a time.
const PART_BYTES: usize = 64 * 1024;

struct Kept {
    /// What is not yet made.
    body: Body,
    /// What is made and not yet given away.
    rest: Bytes,
    _turn: OwnedSemaphorePermit,
}

/// The answer, with a turn that is over when its last part has been taken.
pub(crate) fn until_read(response: Response, turn: OwnedSemaphorePermit) -> Response {
    response.map(|body| Body::new(Kept { body, rest: Bytes::new(), _turn: turn }))
}

impl HttpBody for Kept {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                end => return Poll::Ready(end),
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            }
        }
        let bytes = self.rest.len().min(PART_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut all = SizeHint::new();
        all.set_lower(hint.lower() + rest);
        if let Some(upper) = hint.upper() {
            all.set_upper(upper + rest);
        }
        all
    }
}

/// The bytes of a text in JSON, which may be six times as many.
pub(crate) fn json_bytes(text: &str) -> usize {
    let escaped = |byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_in_json_are_those_that_it_has() {
        let all: String = (0..0x300).filter_map(char::from_u32).collect();
        assert_eq!(json_bytes(&all) + 2, serde_json::to_string(&all).unwrap().len());
    }
}
