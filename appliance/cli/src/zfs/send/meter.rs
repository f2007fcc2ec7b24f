//! The progress of a send, for `-v`.

use super::options::Asked;
use crate::number::nice_bytes;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Counts the bytes written, and prints the progress each second with `-v`.
pub(super) struct Meter<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    asked: &'a Asked,
    name: String,
    bytes: u64,
    next: Instant,
}

impl<'a> Meter<'a> {
    pub fn new(out: &'a mut dyn Write, err: &'a mut dyn Write, asked: &'a Asked) -> Self {
        Self { out, err, asked, name: String::new(), bytes: 0, next: Instant::now() }
    }

    pub fn begin(&mut self, name: &str) {
        (self.name, self.bytes, self.next) = (name.to_owned(), 0, Instant::now() + Duration::from_secs(1));
        if self.asked.progress && !self.asked.parsable {
            let _ = writeln!(self.err, "TIME        SENT   SNAPSHOT {name}");
        }
    }

    fn tell(&mut self) {
        self.next += Duration::from_secs(1);
        let time = jiff::Zoned::now().strftime("%H:%M:%S").to_string();
        let _ = match self.asked.parsable {
            true => writeln!(self.err, "{time}\t{}\t{}", self.bytes, self.name),
            false => writeln!(self.err, "{time}   {:>5}   {}", nice_bytes(self.bytes), self.name),
        };
    }
}

impl Write for Meter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.bytes += n as u64;
        if self.asked.progress && Instant::now() >= self.next {
            self.tell();
        }
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
