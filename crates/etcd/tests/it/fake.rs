//! A gateway that says what a test wants.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Came {
    pub(crate) path: String,
    /// In small letters.
    pub(crate) head: String,
    pub(crate) body: String,
}

/// What it does with a request.
pub(crate) enum Act {
    Say(u16, String),
    /// These pieces, one at a time, and then nothing; the connection stays.
    Stream(Vec<String>),
    /// Nothing, and the connection stays.
    Wait,
}

pub(crate) fn ok(body: &str) -> Act {
    Act::Say(200, body.into())
}

pub(crate) struct Fake {
    pub(crate) url: String,
    pub(crate) came: Receiver<Came>,
    stopped: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Fake {
    pub(crate) fn start(act: impl Fn(&Came) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (to, came) = channel();
        let fake = Self { url, came, stopped: Arc::default(), streams: Arc::default() };
        let (stopped, streams) = (Arc::clone(&fake.stopped), Arc::clone(&fake.streams));
        let act = Arc::new(act);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let stream = stream.unwrap();
                streams.lock().unwrap().push(stream.try_clone().unwrap());
                let (to, act) = (to.clone(), Arc::clone(&act));
                // Whoever asks may go at any time.
                std::thread::spawn(move || {
                    serve(&stream, |came| {
                        let _ = to.send(came.clone());
                        act(came)
                    })
                });
            }
        });
        fake
    }

    /// The next request for `path`.
    pub(crate) fn request(&self, path: &str) -> Came {
        loop {
            let came = self.came.recv().unwrap();
            if came.path == path {
                return came;
            }
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // It waits for one more.
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn serve(stream: &TcpStream, act: impl Fn(&Came) -> Act) -> std::io::Result<()> {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    while let Some(came) = read(&mut reader)? {
        match act(&came) {
            Act::Say(status, body) => {
                let length = body.len();
                write!(writer, "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}")?;
            }
            Act::Stream(pieces) => {
                writer.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                for piece in pieces {
                    write!(writer, "{:x}\r\n{piece}\r\n", piece.len())?;
                }
            }
            Act::Wait => {}
        }
    }
    Ok(())
}

fn read(reader: &mut impl BufRead) -> std::io::Result<Option<Came>> {
    let (mut line, mut head) = (String::new(), String::new());
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    loop {
        let at = head.len();
        if reader.read_line(&mut head)? == 0 || head[at..].trim().is_empty() {
            break;
        }
    }
    let small = head.to_ascii_lowercase();
    let length = small.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
    reader.read_exact(&mut body)?;
    let path = line.split(' ').nth(1).unwrap().to_owned();
    Ok(Some(Came { path, head, body: String::from_utf8(body).unwrap() }))
}
