//! Webhooks: each selected event is posted to a URL, in order.

use super::TURN;
use super::environment::document;
use crate::outgoing;
use block::zevent::{Event, Queue};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time limit for one request.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pauses before a retry, in seconds; then the event is given up. Later events wait in the queue.
const PAUSES: [u64; 3] = [1, 5, 30];

/// A URL, and the events selected for it.
pub struct Hook {
    pub url: String,
    /// Classes, complete or the part after the third dot; `all`.
    pub classes: Vec<String>,
}

impl Hook {
    fn wants(&self, event: &Event) -> bool {
        self.classes.iter().any(|class| class == "all" || *class == event.class || class == event.subclass())
    }

    /// Posts events until the process stops.
    pub fn run(&self, queue: &Arc<Queue>, ended: &AtomicBool) {
        let mut seen = 0;
        while !ended.load(Ordering::Acquire) {
            let news = queue.wait_after(seen, TURN);
            if news.dropped > 0 && seen > 0 {
                tracing::warn!(
                    url = self.url,
                    missed = news.dropped,
                    "the webhook is too slow: events were not posted"
                );
            }
            for event in &news.events {
                seen = event.id;
                if self.wants(event) && !ended.load(Ordering::Acquire) {
                    self.post(event, ended);
                }
            }
        }
    }

    fn post(&self, event: &Event, ended: &AtomicBool) {
        let body = document(event, &host::name()).to_string().into_bytes();
        let mut pauses = PAUSES.iter();
        loop {
            let Err(error) = outgoing::post(&self.url, "application/json", &[], &body, PATIENCE) else { return };
            let Some(pause) = pauses.next() else {
                tracing::warn!(url = self.url, event = event.id, class = event.class, error, "cannot post an event");
                return;
            };
            let until = Instant::now() + Duration::from_secs(*pause);
            while Instant::now() < until {
                if ended.load(Ordering::Acquire) {
                    return;
                }
                std::thread::sleep(TURN.min(until.saturating_duration_since(Instant::now())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::environment::sample;
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn selected_events_are_posted_in_order_and_retried() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let url = format!("http://{}/hook", server.local_addr().expect("bound"));
        let queue = Arc::<Queue>::default();
        for class in ["sysevent.fs.zfs.history_event", "ereport.fs.zfs.io", "resource.fs.zfs.statechange"] {
            queue.post(class.to_owned(), |list| list.put("pool", "tank"));
        }
        let hook = Hook { url, classes: vec!["io".into(), "resource.fs.zfs.statechange".into()] };
        let ended = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (queue, ended) = (queue.clone(), ended.clone());
            move || hook.run(&queue, &ended)
        });
        let mut answers = ["500 Oops", "200 OK", "204 No Content"].iter();
        let mut got = Vec::new();
        while got.len() < 3 {
            let (mut stream, _) = server.accept().expect("a caller");
            let (mut text, mut part) = (String::new(), [0; 4096]);
            while !text.contains("}}") {
                let count = stream.read(&mut part).expect("read");
                assert!(count > 0, "{text}");
                text += &String::from_utf8_lossy(&part[..count]);
            }
            let answer = answers.next().expect("three at most");
            stream
                .write_all(format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes())
                .expect("answered");
            got.push(text.contains("\"class\":\"ereport.fs.zfs.io\""));
        }
        ended.store(true, Ordering::Release);
        thread.join().expect("it ends");
        assert_eq!(got, [true, true, false], "the first one twice, then the second");
        assert!(!Hook { url: String::new(), classes: vec!["io".into()] }.wants(&sample("ereport.fs.zfs.data")));
    }
}
