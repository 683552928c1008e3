//! A client's end of a WebSocket, as bytes that a test knows.

use crate::support::WEB_SOCKET_REQUEST;
use std::io::{self, Read, Write};

/// What is written is a frame for each call, masked by zeros.
pub(crate) struct WebSocket<S> {
    stream: S,
    /// Of the frame that has begun.
    left: u64,
}

impl<S: Read + Write> WebSocket<S> {
    /// Over a stream on which nothing was said.
    pub(crate) fn open(mut stream: S) -> Self {
        stream.write_all(WEB_SOCKET_REQUEST.as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 101 "), "{answer:?}");
        Self { stream, left: 0 }
    }
}

impl<S: Read> Read for WebSocket<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 {
            let mut head = [0; 2];
            self.stream.read_exact(&mut head)?;
            assert_eq!(head[0], 0x82, "whole and binary");
            let mut length = vec![
                0;
                match head[1] {
                    126 => 2,
                    127 => 8,
                    _ => 0,
                }
            ];
            self.stream.read_exact(&mut length)?;
            let long = length.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            self.left = if length.is_empty() { head[1].into() } else { long };
        }
        let room = into.len().min(self.left as usize);
        let read = self.stream.read(&mut into[..room])?;
        self.left -= read as u64;
        Ok(read)
    }
}

impl<S: Write> Write for WebSocket<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut frame = vec![0x82, 0x80 | 126];
        let some = &bytes[..bytes.len().min(0xFFFF)];
        frame.extend((some.len() as u16).to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(some);
        self.stream.write_all(&frame)?;
        Ok(some.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
