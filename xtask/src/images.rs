//! Unpacks the pools of `testing/images` as sparse files.

use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Runs of zeros of this size become holes.
const PIECE_BYTES: usize = 64 << 10;

/// Unpacks every `SCENARIO/DEVICE.zst` below `from` to `to/SCENARIO/DEVICE`, unless that is newer.
pub fn unpack(from: &Path, to: &Path) -> Result<usize> {
    let mut count = 0;
    for scenario in sorted(from)? {
        if !scenario.is_dir() {
            continue;
        }
        let name = scenario.file_name().context("a folder without a name")?;
        for file in sorted(&scenario)? {
            let stem = file.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".zst"));
            let Some(stem) = stem.filter(|s| !s.contains(".zsend")) else { continue };
            let target = to.join(name).join(stem);
            count += 1;
            if is_newer(&target, &file) {
                continue;
            }
            fs::create_dir_all(to.join(name))?;
            unpack_one(&file, &target).with_context(|| file.display().to_string())?;
        }
    }
    Ok(count)
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries.map(|e| Ok(e?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn is_newer(target: &Path, source: &Path) -> bool {
    let modified = |p: &Path| fs::metadata(p).and_then(|m| m.modified());
    matches!((modified(target), modified(source)), (Ok(t), Ok(s)) if t >= s)
}

fn unpack_one(source: &Path, target: &Path) -> Result<()> {
    let mut packed = Vec::new();
    File::open(source)?.read_to_end(&mut packed)?;
    // Written under a temporary name, so that an interrupted run does not leave half an image.
    let partial = target.with_extension("partial");
    let out = File::create(&partial)?;
    let mut context = zstd_safe::DCtx::create();
    let mut input = zstd_safe::InBuffer::around(&packed);
    let mut buffer = vec![0; PIECE_BYTES];
    let mut at = 0u64;
    loop {
        let (written, more) = {
            let mut output = zstd_safe::OutBuffer::around(&mut buffer[..]);
            let more = context
                .decompress_stream(&mut output, &mut input)
                .map_err(|code| anyhow::anyhow!("zstd: {}", zstd_safe::get_error_name(code)))?;
            (output.pos(), more)
        };
        if buffer[..written].iter().any(|b| *b != 0) {
            out.write_all_at(&buffer[..written], at)?;
        }
        at += written as u64;
        if more == 0 {
            break;
        }
        if written == 0 && input.pos == packed.len() {
            bail!("the file ends in the middle");
        }
    }
    out.set_len(at)?;
    (&out).flush()?;
    fs::rename(partial, target)?;
    Ok(())
}
