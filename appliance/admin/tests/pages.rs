//! Pages of lists: together they are the whole list, whatever the names, and reflect changes since
//! the last page.
//!
//! `WEIR_DATASETS=100000` creates as many datasets as a large filer has, and prints the time per
//! page.

use admin::create::{CreateRequest, create};
use admin::layout::Layout;
use admin::write::{WritablePool, maker};
use dataset::ListOptions;
use dataset::pages::{Names, Part};
use dataset::write::NewDataset;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

fn make(pool: &WritablePool, name: &str) {
    let new = NewDataset { name: name.to_owned(), ..NewDataset::default() };
    dataset::write::create(&pool.live, &new, maker()).unwrap_or_else(|e| panic!("{name}: {e}"));
}

/// All names, page by page.
fn paged(pool: &WritablePool, names: &Names, root: &str, options: &ListOptions, limit: usize) -> Vec<String> {
    let datasets = pool.live.synced().expect("datasets");
    let mut found: Vec<String> = Vec::new();
    loop {
        let after = found.last().cloned();
        let part = Part { options, after: after.as_deref(), search: "", limit };
        let page = names.page(&datasets, root, &part).expect("a page");
        assert!(page.errors.is_empty() && page.entries.len() <= limit);
        found.extend(page.entries.iter().map(|entry| entry.name().to_owned()));
        if !page.more {
            return found;
        }
        assert_eq!(page.entries.len(), limit);
    }
}

fn whole(pool: &WritablePool, root: &str, options: &ListOptions) -> Vec<String> {
    let listing = pool.live.synced().expect("datasets").list(&[root], options).expect("a list");
    listing.entries.iter().map(|entry| entry.name().to_owned()).collect()
}

#[test]
fn pages_are_the_whole_list_cut_after_every_change() {
    let dir = tempfile::tempdir().expect("a folder");
    let count = std::env::var("WEIR_DATASETS").ok().and_then(|n| n.parse().ok()).unwrap_or(3_000);
    let disk = dir.path().join("disk");
    std::fs::File::create(&disk)
        .and_then(|f| f.set_len((1 << 30) + count as u64 * (128 << 10)))
        .expect("an image file");
    let layout = Layout::parse(&[disk.display().to_string()]).expect("a layout");
    let pool = create(&CreateRequest { name: "tank".to_owned(), layout, ..CreateRequest::default() }).expect("a pool");
    for name in ["a", "a b", "a-x", "a-x/c", "a/b", "a/b-1", "a/b/c", "a.b", "b", "a:c", "a_", "many", "zz"] {
        make(&pool, &format!("tank/{name}"));
    }
    let (names, heads) = (Names::default(), ListOptions::heads());
    for limit in [1, 2, 3, 100] {
        assert_eq!(paged(&pool, &names, "tank", &heads, limit), whole(&pool, "tank", &heads), "{limit} a page");
        assert_eq!(paged(&pool, &names, "tank/a", &heads, limit), whole(&pool, "tank/a", &heads), "{limit} a page");
    }
    let near = ListOptions { depth: Some(1), ..heads };
    assert_eq!(paged(&pool, &names, "tank", &near, 2), whole(&pool, "tank", &near));
    let volumes = ListOptions { filesystems: false, ..heads };
    assert_eq!(paged(&pool, &names, "tank", &volumes, 2), Vec::<String>::new());

    // Many parallel creations share txgs.
    let (begun, next) = (Instant::now(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= count {
                        return;
                    }
                    make(&pool, &format!("tank/many/d{:06}", i * 7919 % count.max(1)));
                }
            });
        }
    });
    println!("{count} datasets in {:.1} s", begun.elapsed().as_secs_f64());
    let all = whole(&pool, "tank", &heads);
    assert_eq!(paged(&pool, &names, "tank", &heads, 1000), all);
    // A page from the middle, without changes.
    let datasets = pool.live.synced().expect("datasets");
    let after = all.iter().rev().nth(all.len() / 2).cloned();
    let page = || {
        let part = Part { options: &heads, after: after.as_deref(), search: "", limit: 100 };
        let begun = Instant::now();
        let page = names.page(&datasets, "tank", &part).expect("a page");
        assert_eq!(page.entries.len(), 100);
        begun.elapsed()
    };
    let (first, second) = (page(), page());
    println!("a page of 100 of {}: {first:?}, then {second:?}", all.len());

    // A created or destroyed dataset shows in the next page.
    make(&pool, "tank/many/d000000x");
    let part = Part { options: &heads, after: Some("tank/many/d000000"), search: "", limit: 1 };
    let page = names.page(&pool.live.synced().expect("datasets"), "tank", &part).expect("a page");
    assert_eq!(page.entries[0].name(), "tank/many/d000000x");
    pool.close_dataset("tank/many/d000000x").expect("closed");
    dataset::write::destroy(&pool.live, "tank/many/d000000x").expect("destroyed");
    let page = names.page(&pool.live.synced().expect("datasets"), "tank", &part).expect("a page");
    assert_eq!(page.entries[0].name(), "tank/many/d000001");
    let search = Part { options: &heads, after: None, search: "d00001", limit: 100 };
    let page = names.page(&pool.live.synced().expect("datasets"), "tank", &search).expect("a page");
    assert_eq!((page.entries.len(), page.more), (10, false));
    assert_eq!(
        names.child_count(&datasets, &datasets.dir("tank/many").expect("there")).expect("a count"),
        count as u64
    );

    // Snapshots, oldest first; taken, renamed and destroyed ones show in the next page.
    let count = std::env::var("WEIR_SNAPSHOTS").ok().and_then(|n| n.parse().ok()).unwrap_or(70);
    let take = |name: String| dataset::write::snapshot(&pool.live, &[name], &[]).expect("taken");
    (0..count).for_each(|i| take(format!("tank/a@s{:06}", i * 7919 % count)));
    take("tank/a/b@below".to_owned());
    let own = ListOptions { filesystems: false, volumes: false, snapshots: true, ..heads };
    for limit in [1, 7, 1000] {
        assert_eq!(paged(&pool, &names, "tank/a", &own, limit), whole(&pool, "tank/a", &own), "{limit} a page");
    }
    let alone = ListOptions { depth: Some(0), ..own };
    assert_eq!(paged(&pool, &names, "tank/a", &alone, 7).len(), count);
    let rename = |from: &str, to: &str| dataset::write::rename_snapshot(&pool.live, from, to, false).expect("renamed");
    rename("tank/a@s000003", "tank/a@zebra");
    dataset::write::destroy_snapshots(&pool.live, &["tank/a@s000004".to_owned()], false).expect("destroyed");
    take("tank/a@newest".to_owned());
    let all = paged(&pool, &names, "tank/a", &alone, 7);
    assert_eq!((all.len(), all.last().map(String::as_str)), (count, Some("tank/a@newest")));
    assert_eq!(all, whole(&pool, "tank/a", &ListOptions { depth: Some(1), ..own })[..count]);
    let search = Part { options: &alone, after: None, search: "@zeb", limit: 100 };
    let datasets = pool.live.synced().expect("datasets");
    let begun = Instant::now();
    let page = names.page(&datasets, "tank/a", &search).expect("a page");
    assert_eq!((page.entries.len(), page.entries[0].name()), (1, "tank/a@zebra"));
    println!("one of {count} snapshots found in {:?}", begun.elapsed());
    pool.close().expect("closed");
}
