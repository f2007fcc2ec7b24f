//! A request to a process that owns pools, over a connection of its own, and the answer, read
//! incrementally.
//!
//! Above: `forward`. Below: hyper's client, on a runtime of the calling thread.
//!
//! Invariants:
//!   * a connection transfers bytes only while its caller waits in one of these functions, so an
//!     answer that is not read holds back its sender
//!   * there are no time limits: a command may run for days

use anyhow::{Context as _, Result, anyhow, bail};
use api::ErrorReply;
use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinHandle, spawn_blocking};

/// Maximum length of a line in an answer.
const LINE_BYTES: usize = 1 << 20;
/// Limit for the bytes that a connection buffers in each direction, and so for what is read at a
/// time.
const BUFFER_BYTES: usize = 256 << 10;
/// Limit for the bytes of a file that are sent at a time.
const FILE_READ_BYTES: usize = 256 << 10;

/// An answer, read incrementally.
pub struct Reply {
    /// Status code.
    pub status: u16,
    connection: Connection,
    body: Incoming,
    /// The part of the current line that was read so far.
    line: Vec<u8>,
    // Last: the connection uses it until it is closed.
    driver: Driver,
}

/// An open connection; `None` if the server closed it.
type Connection = Option<Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>>;

/// Runs connections on the calling thread.
struct Driver(Option<Runtime>);

/// Sends a request with a complete body, in JSON if it has one, and waits for the head of the
/// answer.
pub fn send(stream: UnixStream, method: &str, path: &str, body: &[u8]) -> Result<Reply> {
    exchange(stream, method, path, "application/json", Full::new(Bytes::copy_from_slice(body)))
}

/// Posts the bytes of a file until it ends or the answer arrives, and waits for the head of the
/// answer. No more is read from the file than is sent.
pub fn send_file(stream: UnixStream, path: &str, from: File) -> Result<Reply> {
    exchange(stream, "POST", path, "application/octet-stream", FileBody { from: Arc::new(from), reading: None })
}

fn exchange<B>(stream: UnixStream, method: &str, path: &str, kind: &str, body: B) -> Result<Reply>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let request = Request::builder().method(method).uri(path);
    let request = request.header(header::HOST, "weir").header(header::CONTENT_TYPE, kind).body(body)?;
    let runtime = Builder::new_current_thread().enable_io().build();
    let driver = Driver(Some(runtime.context("cannot wait for the daemon")?));
    stream.set_nonblocking(true)?;
    let begun = async {
        let stream = TokioIo::new(tokio::net::UnixStream::from_std(stream)?);
        let client = http1::Builder::new().max_buf_size(BUFFER_BYTES).handshake(stream).await;
        let (mut requests, connection) = client.map_err(failure)?;
        let mut connection: Connection = Some(Box::pin(connection));
        let answer = drive(&mut connection, requests.send_request(request)).await.map_err(failure)?;
        anyhow::Ok((connection, answer))
    };
    let (connection, answer) = driver.wait(begun)?;
    let status = answer.status().as_u16();
    Ok(Reply { status, connection, body: answer.into_body(), line: Vec::new(), driver })
}

/// Transfers bytes until `work` is done.
async fn drive<T>(connection: &mut Connection, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let step = |cx: &mut Context<'_>| {
        // Its errors are also those of the request and of the body.
        if connection.as_mut().is_some_and(|open| open.as_mut().poll(cx).is_ready()) {
            *connection = None;
        }
        work.as_mut().poll(cx)
    };
    poll_fn(step).await
}

/// What the failure of a connection means to its user.
fn failure(error: hyper::Error) -> anyhow::Error {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    match cause {
        _ if error.is_parse() => anyhow!(error).context("cannot parse the daemon's answer"),
        Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => {
            anyhow!(error).context("cannot parse the daemon's answer")
        }
        Some(io::ErrorKind::BrokenPipe) => anyhow!(error).context("the daemon does not listen"),
        _ => anyhow!("the process that owns the pools ended before the command did"),
    }
}

impl Driver {
    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.0.as_ref().expect("only dropping takes it").block_on(work)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // A thread may be reading from a terminal: its end cannot be awaited.
        self.0.take().expect("only dropping takes it").shutdown_background();
    }
}

impl Reply {
    /// The next bytes of the body; `None` at its end.
    pub fn piece(&mut self) -> Result<Option<Bytes>> {
        let Self { connection, body, driver, .. } = self;
        loop {
            let frame = driver.wait(drive(connection, poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx))));
            match frame.transpose().map_err(failure)?.map(Frame::into_data) {
                None => return Ok(None),
                Some(Ok(piece)) => return Ok(Some(piece)),
                // Trailers.
                Some(Err(_)) => {}
            }
        }
    }

    /// The next line of the body.
    pub fn line(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.line.iter().position(|b| *b == b'\n') {
                let rest = self.line.split_off(end + 1);
                return Ok(Some(std::mem::replace(&mut self.line, rest)));
            }
            if self.line.len() > LINE_BYTES {
                bail!("cannot parse the daemon's answer: a line without end");
            }
            match self.piece()? {
                Some(piece) => self.line.extend_from_slice(&piece),
                None => return Ok(None),
            }
        }
    }

    /// The rest of the body, of at most `limit` bytes.
    pub fn rest(&mut self, limit: usize) -> Result<Vec<u8>> {
        while let Some(piece) = self.piece()? {
            self.line.extend_from_slice(&piece);
            if self.line.len() > limit {
                bail!("the daemon's answer is longer than expected");
            }
        }
        Ok(std::mem::take(&mut self.line))
    }

    /// Message of an error answer.
    pub fn problem(&mut self) -> String {
        while self.line.len() < LINE_BYTES
            && let Ok(Some(piece)) = self.piece()
        {
            self.line.extend_from_slice(&piece);
        }
        match serde_json::from_slice::<ErrorReply>(&self.line) {
            Ok(reply) => reply.error.message,
            Err(_) => format!("the daemon answers {}: {}", self.status, String::from_utf8_lossy(&self.line).trim()),
        }
    }
}

/// The bytes of a file or pipe. It is read in another thread, when the connection can take more.
struct FileBody {
    from: Arc<File>,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

fn read(mut from: &File) -> io::Result<Bytes> {
    let mut piece = vec![0; FILE_READ_BYTES];
    let length = from.read(&mut piece)?;
    piece.truncate(length);
    Ok(piece.into())
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let from = self.from.clone();
        let reading = self.reading.get_or_insert_with(|| spawn_blocking(move || read(&from)));
        let piece = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        Poll::Ready(match piece.map_err(io::Error::other).flatten() {
            Ok(piece) if piece.is_empty() => None,
            piece => Some(piece.map(Frame::data)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::thread::{JoinHandle, spawn};

    /// A connection to a server that reads the head of a request, then sends `answer` and closes
    /// the connection.
    fn server(answer: &str) -> (UnixStream, JoinHandle<Vec<u8>>) {
        let (client, mut server) = UnixStream::pair().expect("a pair");
        let answer = answer.to_owned();
        let serve = move || {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                server.read_exact(&mut byte).expect("the request's head");
                head.push(byte[0]);
            }
            server.write_all(answer.as_bytes()).expect("the answer fits the buffer");
            head
        };
        (client, spawn(serve))
    }

    fn reply(answer: &str) -> Result<Reply> {
        send(server(answer).0, "GET", "/", &[])
    }

    fn lines(answer: &str) -> Result<Vec<String>> {
        let mut reply = reply(answer)?;
        let mut lines = Vec::new();
        while let Some(line) = reply.line()? {
            lines.push(String::from_utf8(line)?);
        }
        Ok(lines)
    }

    #[test]
    fn answers_in_pieces_are_put_together() {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let text = format!("{head}3\r\na\nb\r\n2;x=y\r\nc\n\r\n0\r\n\r\n");
        assert_eq!(lines(&text).expect("whole"), ["a\n", "bc\n"]);
        assert_eq!(lines("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na\nb\nmore").expect("whole"), ["a\n", "b\n"]);
        let problem =
            "HTTP/1.1 503 X\r\nContent-Length: 48\r\n\r\n{\"error\":{\"code\":\"unavailable\",\"message\":\"why\"}}";
        assert_eq!(reply(problem).expect("whole").problem(), "why");
    }

    #[test]
    fn an_answer_that_breaks_off_or_is_no_http_is_an_error_that_says_so() {
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let ended = "the process that owns the pools ended before the command did";
        let unclear = "cannot parse the daemon's answer";
        for (answer, message) in [
            ("", ended),
            ("HTTP/1.1 200", ended),
            (&format!("{chunked}5\r\na\nb"), ended),
            ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na\nb", ended),
            ("SSH-2.0-OpenSSH\r\n\r\n", unclear),
            (&format!("{chunked}zz\r\na\nb\r\n"), unclear),
        ] {
            assert_eq!(lines(answer).expect_err(answer).to_string(), message, "{answer:?}");
        }
    }

    #[test]
    fn a_file_is_sent_as_it_comes_and_refused_before_its_end() {
        let (from, mut to) = std::io::pipe().expect("a pipe");
        let (client, mut server) = UnixStream::pair().expect("a pair");
        let from = File::from(std::os::fd::OwnedFd::from(from));
        let sent = spawn(move || send_file(client, "/bytes?id=1", from).map(|reply| reply.status));
        let mut expect = |text: &str| {
            let mut got = vec![0; text.len()];
            server.read_exact(&mut got).expect("all of it");
            assert_eq!(String::from_utf8_lossy(&got), text);
        };
        expect("POST /bytes?id=1 HTTP/1.1\r\nhost: weir\r\n");
        expect("content-type: application/octet-stream\r\ntransfer-encoding: chunked\r\n\r\n");
        for piece in ["first", "later"] {
            to.write_all(piece.as_bytes()).expect("it is read");
            expect(&format!("5\r\n{piece}\r\n"));
        }
        // The pipe stays open and has no more: the answer must be noticed without it.
        server.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").expect("sent");
        assert_eq!(sent.join().expect("no panic").expect("an answer"), 404);
    }

    #[test]
    fn a_file_is_not_read_faster_than_it_is_taken() {
        let (from, to) = std::io::pipe().expect("a pipe");
        let (client, server) = UnixStream::pair().expect("a pair");
        let from = File::from(std::os::fd::OwnedFd::from(from));
        let sent = spawn(move || send_file(client, "/", from).map(|reply| reply.status));
        rustix::io::ioctl_fionbio(&to, true).expect("a pipe can be made not to wait");
        // Fills the pipe until nothing takes more.
        let (mut written, mut still) = (0, 0);
        while still < 50 {
            match (&to).write(&[7; 1 << 16]) {
                Ok(bytes) => (written, still) = (written + bytes, 0),
                Err(_) => {
                    still += 1;
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
            }
        }
        assert!(written < 2 << 20, "{written} bytes are on their way");
        drop(to);
        let answered = spawn(move || {
            let mut body = Vec::new();
            let mut server = server;
            while !body.ends_with(b"\r\n0\r\n\r\n") {
                let mut piece = [0; 1 << 16];
                let read = server.read(&mut piece).expect("more");
                body.extend_from_slice(&piece[..read]);
            }
            server.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("sent");
            body.iter().filter(|byte| **byte == 7).count()
        });
        assert_eq!(sent.join().expect("no panic").expect("an answer"), 204);
        assert_eq!(answered.join().expect("no panic"), written);
    }
}
