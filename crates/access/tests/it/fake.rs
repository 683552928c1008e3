//! A server of HTTP that does what a test says.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Came {
    /// Method and target.
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// What it does with a request.
pub(crate) enum Act {
    Say(u16, String),
    /// These bytes and nothing else.
    Raw(Vec<u8>),
    /// Nothing, and the connection stays.
    Wait,
}

pub(crate) fn json(text: &str) -> Act {
    Act::Say(200, text.into())
}

pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    pub(crate) came: Arc<Mutex<Vec<Came>>>,
    /// The most connections at a time.
    pub(crate) open_max: Arc<AtomicUsize>,
    stopped: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Fake {
    pub(crate) fn start(act: impl Fn(&Came) -> Act + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0", act).unwrap()
    }

    pub(crate) fn at(
        address: &str,
        act: impl Fn(&Came) -> Act + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let fake = Self {
            address: listener.local_addr()?,
            came: Arc::default(),
            open_max: Arc::default(),
            stopped: Arc::default(),
            streams: Arc::default(),
        };
        let (came, stopped, streams) =
            (Arc::clone(&fake.came), Arc::clone(&fake.stopped), Arc::clone(&fake.streams));
        let (open, open_max, act) =
            (Arc::<AtomicUsize>::default(), Arc::clone(&fake.open_max), Arc::new(act));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let stream = stream.unwrap();
                streams.lock().unwrap().push(stream.try_clone().unwrap());
                let (came, act) = (Arc::clone(&came), Arc::clone(&act));
                let (open, open_max) = (Arc::clone(&open), Arc::clone(&open_max));
                std::thread::spawn(move || {
                    let now = open.fetch_add(1, Ordering::SeqCst) + 1;
                    open_max.fetch_max(now, Ordering::SeqCst);
                    // Whoever asks may go at any time.
                    let _ = serve(&stream, &came, &*act);
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Ok(fake)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Came> {
        self.came.lock().unwrap().clone()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // It waits for one more.
        let _ = TcpStream::connect(self.address);
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn serve(
    stream: &TcpStream,
    came: &Mutex<Vec<Came>>,
    act: &dyn Fn(&Came) -> Act,
) -> std::io::Result<()> {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    while let Some(request) = read(&mut reader)? {
        came.lock().unwrap().push(request.clone());
        match act(&request) {
            Act::Say(status, body) => {
                let length = body.len();
                write!(writer, "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}")?;
            }
            Act::Raw(bytes) => {
                writer.write_all(&bytes)?;
                return stream.shutdown(Shutdown::Both);
            }
            Act::Wait => {}
        }
    }
    Ok(())
}

pub(crate) fn read(reader: &mut impl BufRead) -> std::io::Result<Option<Came>> {
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
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
    reader.read_exact(&mut body)?;
    let line = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    Ok(Some(Came { line, head, body: String::from_utf8(body).unwrap() }))
}
