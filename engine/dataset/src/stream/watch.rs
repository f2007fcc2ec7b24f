//! Watchers of a stream.

use errors::Result;
use ondisk::send_record::Body;

/// Is notified of each record after it has passed completely.
pub trait Watch: Send {
    /// A record with its payload passed: `bytes` bytes of the stream. An error ends the stream.
    fn passed(&mut self, body: &Body, bytes: u64) -> Result<()>;
}

/// Object and offset that a record refers to; zeros if it refers to none.
pub fn place_of(body: &Body) -> (u64, u64) {
    match body {
        Body::Begin(_) | Body::End { .. } => (0, 0),
        Body::Object(record) => (record.object, 0),
        Body::FreeObjects { first, .. } | Body::ObjectRange { first, .. } => (*first, 0),
        Body::Write(record) => (record.object, record.offset),
        Body::Free { object, offset, .. } | Body::Redact { object, offset, .. } => (*object, *offset),
        Body::WriteByRef(record) => (record.object, record.offset),
        Body::Spill(record) => (record.object, 0),
        Body::WriteEmbedded(record) => (record.object, record.offset),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::VerifyingReader;
    use crate::stream::{Writer, begin, kind_name};
    use ondisk::Endian;
    use ondisk::send_record::Begin;
    use parking_lot::Mutex;
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<(u8, u64, u64)>>>);

    impl Watch for Seen {
        fn passed(&mut self, body: &Body, bytes: u64) -> Result<()> {
            self.0.lock().push((body.kind(), place_of(body).0, bytes));
            match self.0.lock().len() {
                5.. => Err(errors::Error::invalid("", "enough")),
                _ => Ok(()),
            }
        }
    }

    fn write(seen: &Seen) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), Endian::Little).watched(Some(Box::new(seen.clone())));
        writer.record(begin(Begin::STREAM), b"a list of pairs!").unwrap();
        writer.record(Body::FreeObjects { first: 9, count: 2, to_guid: 7 }, &[]).unwrap();
        writer.end(7).unwrap();
        assert_eq!(writer.bytes(), seen.0.lock().iter().map(|(.., bytes)| bytes).sum::<u64>());
        writer.into_inner()
    }

    #[test]
    fn every_byte_of_a_stream_is_reported_once_on_both_ends() {
        let (sent, received) = (Seen::default(), Seen::default());
        let stream = write(&sent);
        let mut checked = VerifyingReader::new(&stream[..]).watched(Some(Box::new(received.clone())));
        while checked.next_record().unwrap().is_some() {}
        let expected = [(0, 0, 328), (2, 9, 312), (5, 0, 312)];
        assert_eq!((&sent.0.lock()[..], &received.0.lock()[..]), (&expected[..], &expected[..]));
        let layer = observe::Layer::Send;
        let name = kind_name(&Body::FreeObjects { first: 0, count: 0, to_guid: 0 });
        assert_eq!(layer.operation(2), name.to_lowercase());
    }

    #[test]
    fn an_observer_can_end_a_stream() {
        let seen = Seen::default();
        let two = [write(&seen), write(&Seen::default())].concat();
        let mut checked = VerifyingReader::new(&two[..]).watched(Some(Box::new(seen.clone())));
        let error = std::iter::from_fn(|| checked.next_record().transpose()).find_map(|r| r.err());
        assert!(error.is_some_and(|e| e.to_string().contains("enough")));
    }
}
