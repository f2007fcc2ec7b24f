//! One file as a client knows it: what is durable, and what may be present or not.

/// State of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    Unanswered,
    /// Acknowledged with this write verifier, but not durable.
    Unstable([u8; 8]),
    /// Sent again since, with the file's newer contents. The first one may have taken effect
    /// anyway.
    Ghost,
}

/// A write that is not known to be durable.
#[derive(Debug, Clone)]
pub struct Loose {
    pub offset: usize,
    pub data: Vec<u8>,
    pub sent: Sent,
}

impl Loose {
    fn end(&self) -> usize {
        self.offset + self.data.len()
    }
}

#[derive(Debug, Clone, Default)]
pub struct File {
    pub handle: Vec<u8>,
    /// Contents that were acknowledged as durable.
    pub stable: Vec<u8>,
    /// Contents that the client's programs see.
    pub now: Vec<u8>,
    /// Writes that are not known to be durable, in the order in which they were sent.
    pub loose: Vec<Loose>,
    /// New size of a SETATTR that was not answered yet.
    pub resizing: Option<usize>,
    /// Permission bits, and those of a SETATTR that was not answered yet.
    pub mode: (u32, Option<u32>),
    /// Recent operations, for error messages.
    pub history: std::collections::VecDeque<String>,
}

fn put(to: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if to.len() < end {
        to.resize(end, 0);
    }
    to[offset..end].copy_from_slice(data);
}

impl File {
    /// Adds to the history, which keeps the last 40 operations.
    pub fn note(&mut self, what: String) {
        if self.history.len() >= 40 {
            self.history.pop_front();
        }
        self.history.push_back(what);
    }

    /// A write is about to be sent.
    pub fn sends(&mut self, offset: usize, data: &[u8]) {
        self.note(format!("writes {offset}+{}", data.len()));
        put(&mut self.now, offset, data);
        self.loose.push(Loose { offset, data: data.to_vec(), sent: Sent::Unanswered });
    }

    /// The unanswered write at `offset` was answered.
    pub fn answered(&mut self, offset: usize, is_stable: bool, verifier: [u8; 8]) {
        let found = self.loose.iter().rposition(|l| l.offset == offset && l.sent == Sent::Unanswered);
        let Some(at) = found else { return };
        let len = self.loose[at].data.len();
        self.note(format!("wrote {offset}+{len}{}", if is_stable { ", stable" } else { "" }));
        if !is_stable {
            self.loose[at].sent = Sent::Unstable(verifier);
            return;
        }
        let written = self.loose.remove(at);
        put(&mut self.stable, written.offset, &written.data);
        // The old contents cannot come back unless this client sends them.
        let (from, to) = (written.offset, written.end());
        let cut = |l: Loose| {
            let (start, end) = (l.offset, l.end());
            let mut left = Vec::new();
            if start < from {
                let keep = end.min(from) - start;
                left.push(Loose { offset: start, data: l.data[..keep].to_vec(), sent: l.sent });
            }
            if end > to {
                let skip = to.max(start) - start;
                left.push(Loose { offset: start + skip, data: l.data[skip..].to_vec(), sent: l.sent });
            }
            left
        };
        self.loose = std::mem::take(&mut self.loose).into_iter().flat_map(cut).collect();
    }

    /// COMMIT was answered with this verifier. Fails with the offsets and lengths of writes that
    /// must be sent again, if there are any.
    pub fn committed(&mut self, verifier: [u8; 8]) -> Result<(), Vec<(usize, usize)>> {
        let again = self.lost(|sent| sent != Sent::Unstable(verifier));
        self.note(format!("committed, but {}", again.len()));
        if !again.is_empty() {
            return Err(again);
        }
        for loose in std::mem::take(&mut self.loose) {
            if loose.sent != Sent::Ghost {
                put(&mut self.stable, loose.offset, &loose.data);
            }
        }
        Ok(())
    }

    /// Offsets and lengths of writes that were not answered and must be sent again.
    pub fn unanswered(&self) -> Vec<(usize, usize)> {
        self.lost(|sent| sent == Sent::Unanswered)
    }

    fn lost(&self, is_lost: impl Fn(Sent) -> bool) -> Vec<(usize, usize)> {
        let lost = self.loose.iter().filter(|l| l.sent != Sent::Ghost && is_lost(l.sent));
        lost.map(|l| (l.offset, l.data.len())).collect()
    }

    /// A write is about to be sent again. Called no earlier, so that the remaining ones are still
    /// known if the server dies once more.
    pub fn sends_again(&mut self, offset: usize, len: usize) {
        let is_it = |l: &&mut Loose| l.sent != Sent::Ghost && (l.offset, l.data.len()) == (offset, len);
        if let Some(loose) = self.loose.iter_mut().find(is_it) {
            loose.sent = Sent::Ghost;
        }
    }

    /// The size was changed. All writes were durable before.
    pub fn resized(&mut self, len: usize) {
        self.resizing = None;
        self.note(format!("is {len} long"));
        self.stable.resize(len, 0);
        self.now.resize(len, 0);
    }

    /// Continues with what was found, and checked, after a restart of the server.
    pub fn adopt(&mut self, found: Vec<u8>) {
        self.note(format!("another life, {} bytes", found.len()));
        self.loose.clear();
        self.resizing = None;
        self.now.clone_from(&found);
        self.stable = found;
    }

    /// Compares what was found after a restart of the server with what is allowed.
    pub fn judge(&self, found: &[u8]) -> Result<(), String> {
        if let Some(len) = self.resizing {
            let mut resized = self.stable.clone();
            resized.resize(len, 0);
            if found == resized {
                return Ok(());
            }
        }
        let size = found.len();
        if size != self.stable.len() && !(size > self.stable.len() && self.loose.iter().any(|l| l.end() == size)) {
            let ends: Vec<usize> = self.loose.iter().map(Loose::end).collect();
            return Err(format!("it has {size} bytes; {} are safe, further writes end at {ends:?}", self.stable.len()));
        }
        let mut at = 0;
        while at < size {
            // Most of it is durable contents.
            let step = (size - at).min(4096);
            if self.stable.get(at..at + step) == Some(&found[at..at + step]) {
                at += step;
                continue;
            }
            for (place, byte) in found.iter().enumerate().skip(at).take(step) {
                let is_safe = self.stable.get(place).copied().unwrap_or(0) == *byte;
                let is_loose = |l: &Loose| place.checked_sub(l.offset).and_then(|i| l.data.get(i)) == Some(byte);
                if !is_safe && !self.loose.iter().any(is_loose) {
                    let near: Vec<(usize, usize, Sent)> = self
                        .loose
                        .iter()
                        .filter(|l| l.offset <= place && place < l.end())
                        .map(|l| (l.offset, l.data.len(), l.sent))
                        .collect();
                    return Err(format!(
                        "byte {place} of {size} is {:#04x}, safe is {:?} of {}; writes there that may be missing: {near:?}",
                        byte,
                        self.stable.get(place),
                        self.stable.len()
                    ));
                }
            }
            at += step;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durable_data_must_exist_and_the_rest_may() {
        let mut file = File::default();
        file.sends(0, &[1; 10]);
        file.answered(0, true, [0; 8]);
        file.sends(5, &[2; 10]);
        file.answered(5, false, [7; 8]);
        assert!(file.judge(&[1; 10]).is_ok());
        assert!(file.judge(&[&[1; 5][..], &[2; 10]].concat()).is_ok());
        assert!(file.judge(&[1; 9]).is_err(), "too short");
        assert!(file.judge(&[1; 12]).is_err(), "a length that was never written");
        assert!(file.judge(&[&[2; 5][..], &[1; 5]].concat()).is_err(), "a byte that was never there");
        assert_eq!(file.committed([8; 8]), Err(vec![(5, 10)]), "the server forgot");
        assert_eq!(file.committed([8; 8]), Err(vec![(5, 10)]), "it was not sent again yet");
        file.sends_again(5, 10);
        file.sends(5, &[2; 10]);
        file.answered(5, false, [8; 8]);
        assert_eq!(file.committed([8; 8]), Ok(()));
        assert!(file.judge(&[1; 10]).is_err(), "it was safe");
        assert_eq!(file.stable, file.now);
    }

    #[test]
    fn a_stable_write_resolves_uncertain_data_below_it() {
        let mut file = File::default();
        file.sends(0, &[1; 30]);
        file.answered(0, false, [7; 8]);
        file.sends(10, &[2; 10]);
        file.answered(10, true, [7; 8]);
        assert!(file.judge(&[&[1; 10][..], &[2; 10], &[1; 10]].concat()).is_ok());
        assert!(file.judge(&[&[0; 10][..], &[2; 10]].concat()).is_ok());
        assert!(file.judge(&[1; 30]).is_err(), "durable data is missing");
        assert_eq!(file.committed([7; 8]), Ok(()));
        assert_eq!(file.stable, [&[1; 10][..], &[2; 10], &[1; 10]].concat());
    }
}
