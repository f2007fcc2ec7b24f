//! The pool that is measured, and the data written to it.

use dataset::write::{Bootstrap, FileSystemMaker, bootstrap};
use dataset::{KeyStore, LiveDataset, LiveDatasets};
use errors::Result;
use host::device::FileDevice;
use object::zap::{Zap, ZapSpec};
use object::{NewObject, Object, ObjectSet, Tx};
use ondisk::ObjectType;
use pool::writer::{CreatePool, NewVdev, WriteOptions, default_features};
use pool::{OpenOptions, Writer};
use std::path::Path;
use std::sync::Arc;

fn fill(set: &Arc<ObjectSet>, tx: &Tx, _: &dataset::write::FileSystemTraits, _: (u32, u32)) -> Result<()> {
    Zap::create(set, tx, &ZapSpec { id: Some(1), ..ZapSpec::new(ObjectType::MASTER_NODE) })?
        .update_u64(tx, "VERSION", 5)
}

/// A pool on new sparse images, with one file.
pub struct Bench {
    pub writer: Arc<Writer>,
    live: Arc<LiveDatasets>,
    dataset: Arc<LiveDataset>,
    pub object: Object,
}

impl Bench {
    pub fn make(
        images: &[String],
        image_bytes: u64,
        record_bytes: usize,
        cache_bytes: u64,
        without: &[&str],
    ) -> Result<Self> {
        let top = |image: &String| -> Result<NewVdev> {
            let io = |e| errors::Error::io(image, e);
            std::fs::File::create(image).and_then(|f| f.set_len(image_bytes)).map_err(io)?;
            let device = Arc::new(FileDevice::open_for_writing(Path::new(image)).map_err(io)?);
            Ok(NewVdev {
                kind: "file",
                parity: 0,
                draid: None,
                class: block::Class::Normal,
                leaf: Some((image.clone(), device)),
                ashift: 12,
                children: Vec::new(),
            })
        };
        let tops = images.iter().map(top).collect::<Result<_>>()?;
        let features = default_features().filter(|f| !without.contains(f)).map(str::to_owned).collect();
        let new =
            CreatePool { version: 5000, name: "bench".into(), tops, features, comment: None, compatibility: None };
        let maker = FileSystemMaker { fill, owners_of: |_, _| Ok(None) };
        let open = OpenOptions { cache_bytes, ..OpenOptions::default() };
        let writer = Writer::create(&new, &open, &WriteOptions::default(), |cx| {
            bootstrap(cx, &Bootstrap { properties: Vec::new(), key: None, keys: &KeyStore::new(), maker })
        })?;
        let live = LiveDatasets::new(writer.clone(), Arc::new(KeyStore::new()));
        let dataset = live.open("bench", Some(maker.owners_of))?;
        let tx = dataset.begin(record_bytes as u64)?;
        let new = NewObject::new(ObjectType::PLAIN_FILE_CONTENTS, record_bytes as u32);
        let object: Object = dataset.objset().create_object(&tx, &new)?;
        drop(tx);
        Ok(Self { writer, live, dataset, object })
    }

    pub fn write(&self, at: u64, piece: &[u8]) -> Result<()> {
        let tx = self.dataset.begin(piece.len() as u64)?;
        self.object.write_at(&tx, at, piece)
    }

    pub fn end(self) -> Result<()> {
        self.live.close_all()?;
        self.writer.export()
    }
}

/// Every second run of 512 bytes is random.
pub fn half_random(bytes: usize) -> Vec<u8> {
    let (mut data, mut x) = (vec![0; bytes], 1u64);
    for (i, word) in data.chunks_exact_mut(8).enumerate() {
        // xorshift
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if i / 64 % 2 == 0 {
            word.copy_from_slice(&x.to_le_bytes());
        }
    }
    data
}
