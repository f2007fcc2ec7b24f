//! The recorder: every operation of the last minutes on disk, for retrospective queries.
//!
//! ```text
//! DIRECTORY/ops-0000000012   ┌ frame ┐┌ frame ┐ …   the oldest file is deleted at the size limit
//! frame = "WOP1" │ bytes │ events │ first │ last │ crc32 │ new names │ events as varints
//! ```
//!
//! Invariants:
//!   * a file contains the names of its numbers, so that a later process, whose numbers differ,
//!     reads it correctly
//!   * a torn or damaged frame ends its file; frames before it are used
//!   * a directory that cannot be written stops the recorder only, with one warning; it is retried
//!     later
//!   * nothing is synced: a power failure may lose some of the last seconds

mod wire;

use crate::column::{put, take};
use observe::event::{Event, Events};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::{decode, encode};

const MAGIC: [u8; 4] = *b"WOP1";
const HEADER: usize = 32;
/// Maximum number of events in a frame: the unit of reading.
const FRAME_EVENTS: usize = 8192;
/// Maximum size of a frame: 8192 events of at most 80 bytes, and names.
const FRAME_BYTES: usize = 8 << 20;
/// Number of files at the size limit, which is enforced by deleting whole files.
const FILES: u64 = 16;
/// How long to wait after an error before retrying.
const PAUSE: Duration = Duration::from_secs(10);
/// Maximum age of an incomplete frame before it is written.
const PATIENCE: Duration = Duration::from_secs(2);

/// Location of a frame.
#[derive(Clone)]
struct Frame {
    file: Arc<PathBuf>,
    at: u64,
    bytes: usize,
    events: u32,
    first: u64,
    last: u64,
}

/// Numbers in a file -> numbers in this process.
#[derive(Default, Clone)]
struct Numbers {
    clients: FxHashMap<u32, u32>,
    places: FxHashMap<u32, u32>,
}

struct Writing {
    file: File,
    path: Arc<PathBuf>,
    len: u64,
    clients: FxHashSet<u32>,
    places: FxHashSet<u32>,
}

struct State {
    frames: Vec<Frame>,
    numbers: FxHashMap<PathBuf, Arc<Numbers>>,
    open: Vec<Event>,
    open_since: Instant,
    writing: Option<Writing>,
    next: u64,
    broken: Option<Instant>,
    lost: u64,
}

/// The recorder of a process.
pub struct Ring {
    folder: PathBuf,
    limit: u64,
    names: Arc<Events>,
    state: Mutex<State>,
}

/// The extent of the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Completion of the oldest event in nanoseconds since 1970; 0 if there is none.
    pub first: u64,
    /// Completion of the newest event in nanoseconds since 1970.
    pub last: u64,
    /// Number of events, those in memory included.
    pub events: u64,
    /// Size on disk in bytes.
    pub bytes: u64,
    /// Number of events that could not be written.
    pub lost: u64,
}

/// The numbers that are not in `known`.
fn unknown(numbers: impl Iterator<Item = u32>, known: &FxHashSet<u32>) -> FxHashSet<u32> {
    let mut seen: Vec<u64> = Vec::new();
    let mut out = FxHashSet::default();
    for number in numbers {
        // A bit for each number already seen: numbers are small, and few among very many events.
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if word >= seen.len() {
            seen.resize(word + 1, 0);
        }
        if seen[word] & bit == 0 {
            seen[word] |= bit;
            if !known.contains(&number) {
                out.insert(number);
            }
        }
    }
    out
}

impl Ring {
    /// Opens the recorder in a directory, limited to `limit` bytes. `names` assigns numbers to
    /// clients and places.
    pub fn open(folder: &Path, limit: u64, names: Arc<Events>) -> io::Result<Self> {
        // The data contains names of files and users.
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut files: Vec<(u64, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|n| n.strip_prefix("ops-")).and_then(|n| n.parse().ok());
            files.extend(number.map(|n| (n, entry.path())));
        }
        files.sort();
        let next = files.last().map_or(0, |(n, _)| n + 1);
        let mut state = State {
            frames: Vec::new(),
            numbers: FxHashMap::default(),
            open: Vec::new(),
            open_since: Instant::now(),
            writing: None,
            next,
            broken: None,
            lost: 0,
        };
        for (_, path) in files {
            let path = Arc::new(path);
            let mut numbers = Numbers::default();
            let scanned = scan(&path, &names, &mut numbers);
            match scanned {
                Ok(frames) => state.frames.extend(frames),
                Err(error) => tracing::warn!(file = %path.display(), %error, "recorded operations cannot be read"),
            }
            state.numbers.insert(path.to_path_buf(), Arc::new(numbers));
        }
        Ok(Self { folder: folder.to_owned(), limit, names, state: Mutex::new(state) })
    }

    /// Adds events, in order of arrival. They are written when a frame is full, or by
    /// [`Self::flush`].
    pub fn append(&self, events: &[Event]) {
        let mut state = self.state.lock();
        if state.open.is_empty() {
            state.open_since = Instant::now();
        }
        let mut rest = events;
        if !state.open.is_empty() {
            let (first, after) = rest.split_at(rest.len().min(FRAME_EVENTS - state.open.len().min(FRAME_EVENTS)));
            state.open.extend_from_slice(first);
            rest = after;
            if state.open.len() >= FRAME_EVENTS {
                self.write_open(&mut state);
            }
        }
        // Whole frames are written directly from the slice.
        while let Some((frame, after)) = rest.split_at_checked(FRAME_EVENTS) {
            self.write(&mut state, frame);
            rest = after;
        }
        state.open.extend_from_slice(rest);
        if !state.open.is_empty() && state.open_since.elapsed() >= PATIENCE {
            self.write_open(&mut state);
        }
    }

    /// Writes the buffered events. The buffer keeps its memory.
    fn write_open(&self, state: &mut State) {
        let mut open = std::mem::take(&mut state.open);
        self.write(state, &open);
        open.clear();
        state.open = open;
    }

    /// Writes the buffered events.
    pub fn flush(&self) {
        let mut state = self.state.lock();
        if !state.open.is_empty() {
            self.write_open(&mut state);
        }
    }

    fn write(&self, state: &mut State, events: &[Event]) {
        state.open_since = Instant::now();
        if state.broken.is_some_and(|since| since.elapsed() < PAUSE) {
            state.lost += events.len() as u64;
            return;
        }
        match self.write_frame(state, events) {
            Ok(()) => state.broken = None,
            Err(error) => {
                if state.broken.is_none() {
                    let folder = self.folder.display();
                    tracing::warn!(%folder, %error, "operations are not recorded until this folder can be written");
                }
                state.lost += events.len() as u64;
                state.broken = Some(Instant::now());
                // A torn frame ends its file.
                state.writing = None;
            }
        }
    }

    fn write_frame(&self, state: &mut State, events: &[Event]) -> io::Result<()> {
        let share = self.limit / FILES;
        if state.writing.as_ref().is_some_and(|w| w.len >= share) {
            state.writing = None;
        }
        if state.writing.is_none() {
            let path = Arc::new(self.folder.join(format!("ops-{:010}", state.next)));
            let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&*path)?;
            state.next += 1;
            state.numbers.insert(path.to_path_buf(), Arc::default());
            let (clients, places) = Default::default();
            state.writing = Some(Writing { file, path, len: 0, clients, places });
            self.make_room(state)?;
        }
        let Some(writing) = &mut state.writing else { return Ok(()) };
        let mut body = Vec::with_capacity(events.len() * 32);
        let new_clients = unknown(events.iter().map(|e| e.client), &writing.clients);
        let new_places = unknown(events.iter().map(|e| e.note.place), &writing.places);
        for (numbers, names) in [(&new_clients, &self.names.clients), (&new_places, &self.names.places)] {
            let named: Vec<_> = numbers.iter().filter_map(|n| Some((*n, names.name(*n)?))).collect();
            put(&mut body, named.len() as u64);
            for (number, name) in named {
                put(&mut body, number.into());
                put(&mut body, name.len() as u64);
                body.extend_from_slice(name.as_bytes());
            }
        }
        let first = events.iter().map(|e| e.done).min().unwrap_or(0);
        let last = events.iter().map(|e| e.done).max().unwrap_or(0);
        let mut before = first;
        for event in events {
            encode(event, before, &mut body);
            before = event.done;
        }
        let mut frame = Vec::with_capacity(HEADER + body.len());
        frame.extend_from_slice(&MAGIC);
        frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
        frame.extend_from_slice(&(events.len() as u32).to_le_bytes());
        frame.extend_from_slice(&first.to_le_bytes());
        frame.extend_from_slice(&last.to_le_bytes());
        let crc = checksum(&frame, &body);
        frame.extend_from_slice(&crc.to_le_bytes());
        frame.append(&mut body);
        writing.file.seek(SeekFrom::Start(writing.len))?;
        writing.file.write_all(&frame)?;
        state.frames.push(Frame {
            file: writing.path.clone(),
            at: writing.len,
            bytes: frame.len(),
            events: events.len() as u32,
            first,
            last,
        });
        writing.len += frame.len() as u64;
        // Only after they are in the file.
        writing.clients.extend(new_clients.iter());
        writing.places.extend(new_places.iter());
        if let Some(numbers) = state.numbers.get_mut(&*writing.path).map(Arc::make_mut) {
            numbers.clients.extend(new_clients.iter().map(|n| (*n, *n)));
            numbers.places.extend(new_places.iter().map(|n| (*n, *n)));
        }
        Ok(())
    }

    /// Deletes the oldest files until there is room for a new one.
    fn make_room(&self, state: &mut State) -> io::Result<()> {
        let share = self.limit / FILES;
        loop {
            let bytes: u64 = state.frames.iter().map(|f| f.bytes as u64).sum();
            let Some(oldest) = state.frames.first().map(|f| f.file.clone()) else { return Ok(()) };
            if bytes + share <= self.limit {
                return Ok(());
            }
            match std::fs::remove_file(&*oldest) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            state.frames.retain(|f| f.file != oldest);
            state.numbers.remove(&*oldest);
        }
    }

    /// Measures what is recorded now.
    pub fn extent(&self) -> Extent {
        let state = self.state.lock();
        let done = || state.open.iter().map(|e| e.done);
        let first = state.frames.iter().map(|f| f.first).chain(done().min()).min();
        let last = state.frames.iter().map(|f| f.last).chain(done().max()).max();
        Extent {
            first: first.unwrap_or(0),
            last: last.unwrap_or(0),
            events: state.frames.iter().map(|f| u64::from(f.events)).sum::<u64>() + state.open.len() as u64,
            bytes: state.frames.iter().map(|f| f.bytes as u64).sum(),
            lost: state.lost,
        }
    }

    /// Calls `each` for all events that ended in `from..to` (nanoseconds since 1970), approximately
    /// sorted by completion.
    pub fn read(&self, from: u64, to: u64, mut each: impl FnMut(&Event)) -> io::Result<()> {
        let (frames, open) = {
            let state = self.state.lock();
            let wanted = |f: &&Frame| f.first < to && f.last >= from;
            let frames: Vec<_> = state
                .frames
                .iter()
                .filter(wanted)
                .map(|f| (f.clone(), state.numbers.get(&*f.file).cloned().unwrap_or_default()))
                .collect();
            (frames, state.open.clone())
        };
        let is_in = |e: &Event| from <= e.done && e.done < to;
        let mut last: Option<(Arc<PathBuf>, File)> = None;
        for (frame, numbers) in frames {
            if last.as_ref().is_none_or(|(path, _)| *path != frame.file) {
                match File::open(&*frame.file) {
                    Ok(file) => last = Some((frame.file.clone(), file)),
                    // Deleted in the meantime to make room.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                    Err(e) => return Err(e),
                }
            }
            let Some((_, file)) = &mut last else { continue };
            file.seek(SeekFrom::Start(frame.at))?;
            let mut bytes = vec![0; frame.bytes];
            file.read_exact(&mut bytes)?;
            let wrong =
                || io::Error::new(io::ErrorKind::InvalidData, format!("{} at {}", frame.file.display(), frame.at));
            let body = bytes.get(HEADER..).ok_or_else(wrong)?;
            let mut body = body;
            skip_names(&mut body).ok_or_else(wrong)?;
            let mut before = frame.first;
            for _ in 0..frame.events {
                let mut event = decode(&mut body, before).ok_or_else(wrong)?;
                before = event.done;
                if is_in(&event) {
                    event.client = numbers.clients.get(&event.client).copied().unwrap_or(0);
                    event.note.place = numbers.places.get(&event.note.place).copied().unwrap_or(0);
                    each(&event);
                }
            }
        }
        open.iter().filter(|e| is_in(e)).for_each(each);
        Ok(())
    }
}

/// Checksum over header and body.
fn checksum(header: &[u8], body: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(header);
    crc.update(body);
    crc.finalize()
}

fn skip_names(body: &mut &[u8]) -> Option<()> {
    each_name(body, |_, _, _| ())
}

/// Calls `each` for the names at the front of a frame: whether it is a client, number, text.
fn each_name(body: &mut &[u8], mut each: impl FnMut(bool, u32, &str)) -> Option<()> {
    for is_client in [true, false] {
        for _ in 0..take(body)? {
            let number = u32::try_from(take(body)?).ok()?;
            let len = usize::try_from(take(body)?).ok()?;
            let (text, rest) = body.split_at_checked(len)?;
            each(is_client, number, std::str::from_utf8(text).ok()?);
            *body = rest;
        }
    }
    Some(())
}

/// Finds the frames of a file, up to its end or the first invalid one.
fn scan(path: &Arc<PathBuf>, names: &Events, numbers: &mut Numbers) -> io::Result<Vec<Frame>> {
    let mut file = io::BufReader::with_capacity(1 << 20, File::open(&**path)?);
    let mut frames = Vec::new();
    let mut at = 0;
    let mut header = [0; HEADER];
    loop {
        match file.read_exact(&mut header) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(frames),
            done => done?,
        }
        let mut rest = header.as_slice();
        let mut part = |n: usize| {
            let (part, tail) = rest.split_at_checked(n).unwrap_or_default();
            rest = tail;
            let mut out = [0; 8];
            out.iter_mut().zip(part).for_each(|(o, p)| *o = *p);
            u64::from_le_bytes(out)
        };
        let magic = part(4);
        let (bytes, events, first, last, crc) = (part(4) as usize, part(4) as u32, part(8), part(8), part(4) as u32);
        if magic != u64::from(u32::from_le_bytes(MAGIC)) || bytes > FRAME_BYTES || events as usize > FRAME_EVENTS {
            return Ok(frames);
        }
        let mut body = vec![0; bytes];
        match file.read_exact(&mut body) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(frames),
            done => done?,
        }
        if crc != checksum(header.get(..HEADER - 4).unwrap_or_default(), &body) {
            return Ok(frames);
        }
        let mut rest = body.as_slice();
        let named = each_name(&mut rest, |is_client, number, text| {
            if is_client {
                numbers.clients.insert(number, names.clients.number(text));
            } else {
                numbers.places.insert(number, names.places.number(text));
            }
        });
        if named.is_none() {
            return Ok(frames);
        }
        frames.push(Frame { file: path.clone(), at, bytes: HEADER + bytes, events, first, last });
        at += (HEADER + bytes) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::tests::events;
    use proptest::prelude::*;

    fn names() -> Arc<Events> {
        let names = Arc::new(Events::new(1, 1));
        for n in 0..10 {
            names.clients.number(&format!("client {n}"));
            names.places.number(&format!("place {n}"));
        }
        names
    }

    fn all(ring: &Ring) -> Vec<Event> {
        let mut out = Vec::new();
        ring.read(0, u64::MAX, |e| out.push(*e)).expect("read");
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn recordings_are_readable_by_a_process_with_other_numbers(events in events(200), cut in 0usize..200) {
            let folder = tempfile::tempdir().expect("a folder");
            let first = names();
            let ring = Ring::open(folder.path(), 1 << 20, first.clone()).expect("opened");
            let (before, after) = events.split_at(cut.min(events.len()));
            ring.append(before);
            ring.flush();
            ring.append(after);
            prop_assert_eq!(&all(&ring), &events);
            ring.flush();
            prop_assert_eq!(&all(&ring), &events);
            drop(ring);
            let second = Arc::new(Events::new(1, 1));
            second.clients.number("another");
            let ring = Ring::open(folder.path(), 1 << 20, second.clone()).expect("opened");
            let called = |names: &Events, e: &Event| (names.clients.name(e.client), names.places.name(e.note.place));
            let read = all(&ring);
            prop_assert_eq!(read.len(), events.len());
            for (old, new) in events.iter().zip(&read) {
                prop_assert_eq!(called(&first, old), called(&second, new));
                let mut same = *new;
                (same.client, same.note.place) = (old.client, old.note.place);
                prop_assert_eq!(&same, old);
            }
        }

        #[test]
        fn a_damaged_file_is_readable_up_to_the_damage(events in events(300), at in any::<prop::sample::Index>(), to in any::<u8>()) {
            let folder = tempfile::tempdir().expect("a folder");
            let ring = Ring::open(folder.path(), 1 << 20, names()).expect("opened");
            for part in events.chunks(20) {
                ring.append(part);
                ring.flush();
            }
            drop(ring);
            let path = folder.path().join("ops-0000000000");
            let Ok(mut bytes) = std::fs::read(&path) else { return Ok(()) };
            let at = at.index(bytes.len());
            bytes[at] = to;
            std::fs::write(&path, bytes).expect("written");
            let ring = Ring::open(folder.path(), 1 << 20, names()).expect("opened");
            let read = all(&ring);
            prop_assert_eq!(&read[..], &events[..read.len()]);
            prop_assert!(read.len().is_multiple_of(20) || read.len() == events.len());
        }
    }

    #[test]
    fn the_limit_is_kept_by_dropping_the_oldest() {
        let folder = tempfile::tempdir().expect("a folder");
        let ring = Ring::open(folder.path(), 256 << 10, names()).expect("opened");
        for n in 0..60_000u64 {
            ring.append(&[Event { done: n, latency: n * 1000, client: 1, ..Event::default() }]);
        }
        ring.flush();
        let extent = ring.extent();
        assert!(extent.bytes <= 256 << 10 && extent.bytes > 128 << 10, "{extent:?}");
        assert_eq!((extent.last, extent.events), (59_999, 60_000 - extent.first));
        let on_disk: u64 = std::fs::read_dir(folder.path())
            .expect("there")
            .map(|e| e.expect("one").metadata().expect("one").len())
            .sum();
        assert_eq!(on_disk, extent.bytes);
        let mut seen = Vec::new();
        ring.read(59_000, 59_010, |e| seen.push(e.done)).expect("read");
        assert_eq!(seen, (59_000..59_010).collect::<Vec<_>>());
        drop(ring);
        let again = Ring::open(folder.path(), 256 << 10, names()).expect("opened");
        assert_eq!(again.extent(), extent);
    }

    #[test]
    fn a_folder_that_cannot_be_written_costs_the_record_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let ring = Ring::open(folder.path(), 1 << 20, names()).expect("opened");
        std::fs::remove_dir(folder.path()).expect("removed");
        ring.append(&[Event::default()]);
        ring.flush();
        assert_eq!(ring.extent().lost, 1);
        std::fs::create_dir(folder.path()).expect("made");
        ring.append(&[Event::default()]);
        ring.flush();
        assert_eq!(ring.extent().lost, 2, "it waits a while before it tries again");
    }
}
