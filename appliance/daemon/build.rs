//! Embeds the web page into the program: every file of `ui/dist`, if it was built (`make ui`). Node
//! is not run here.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../ui");
    let dist = root.join("dist");
    println!("cargo:rerun-if-changed=build.rs");
    // Also when `dist` is created later: its parent directory always exists.
    println!("cargo:rerun-if-changed={}", if dist.exists() { &dist } else { &root }.display());
    let mut files = Vec::new();
    collect(&dist, &mut files);
    files.sort();
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("page.rs");
    let mut out = fs::File::create(out).expect("OUT_DIR can be written");
    writeln!(out, "/// Files of the page, by path.\nstatic FILES: &[(&str, &[u8])] = &[").expect("written");
    for path in files {
        println!("cargo:rerun-if-changed={}", path.display());
        let name = path.strip_prefix(&dist).expect("it is below").to_str().expect("names are text").to_owned();
        let path = path.canonicalize().expect("it is there");
        writeln!(out, "    ({name:?}, include_bytes!({:?})),", path.to_str().expect("paths are text"))
            .expect("written");
    }
    writeln!(out, "];").expect("written");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.filter_map(Result::ok).map(|e| e.path()) {
        match path.is_dir() {
            true => collect(&path, files),
            false => files.push(path),
        }
    }
}
