//! The web page: the files in `ui/dist` when the program was built.
//!
//! Invariants:
//!   * files named by their contents (`assets/`) are cached for a year; all others are revalidated,
//!     and answered by 304 if unchanged
//!   * a path that is neither a file nor part of the interface leads to the page, which handles it
//!   * without built files there is a page that says how to build them

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::LazyLock;

include!(concat!(env!("OUT_DIR"), "/page.rs"));

const ABSENT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Weir</title>\
    <h1>Weir is running without its web page</h1>\
    <p>This program was built without the files of the web page. With Node installed, <code>make ui</code> builds them, and \
    <code>make build</code> builds the program with them. Until then: the interface is under <code>/v1/</code>, and \
    <code>weir zpool</code> and <code>weir zfs</code> work as ever.</p></html>\n";

/// Content security policy of the page: it loads only from here, and cannot be framed.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The same for pages that may be framed. They show graphs to holders of a token, and nothing to a
/// session: `SameSite` keeps cookies from frames on other sites, so clickjacking is not possible.
pub const EMBEDDED: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors *";

/// Path of these pages.
pub const EMBED: &str = "/embed/";

/// A file, with its compressed forms.
struct File {
    plain: &'static [u8],
    gzip: Option<&'static [u8]>,
    brotli: Option<&'static [u8]>,
    tag: HeaderValue,
    kind: &'static str,
}

static ALL: LazyLock<HashMap<&'static str, File>> = LazyLock::new(|| gather(FILES));

fn gather(files: &[(&'static str, &'static [u8])]) -> HashMap<&'static str, File> {
    let find = |name: String| files.iter().find(|(n, _)| **n == name).map(|(_, bytes)| *bytes);
    let plain = files.iter().filter(|(name, _)| !name.ends_with(".gz") && !name.ends_with(".br"));
    let file = |(name, plain): &(&'static str, &'static [u8])| {
        let tag: String = Sha256::digest(plain).iter().take(12).map(|b| format!("{b:02x}")).collect();
        let tag = HeaderValue::from_str(&format!("\"{tag}\"")).expect("hexadecimal digits are allowed");
        let (gzip, brotli) = (find(format!("{name}.gz")), find(format!("{name}.br")));
        (*name, File { plain, gzip, brotli, tag, kind: kind(name) })
    };
    plain.map(file).collect()
}

fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

fn takes(headers: &HeaderMap, encoding: &str) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|part| {
        let mut words = part.split(';').map(str::trim);
        words.next() == Some(encoding) && !words.any(|q| matches!(q, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

/// Answers requests for anything that is not part of the interface.
pub async fn page(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    answer(&ALL, &method, uri.path(), &headers)
}

fn answer(all: &HashMap<&'static str, File>, method: &Method, path: &str, headers: &HeaderMap) -> Response {
    if *method != Method::GET && *method != Method::HEAD {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let path = path.trim_start_matches('/');
    let lasting = path.starts_with("assets/");
    let file = all.get(path).or_else(|| if lasting { None } else { all.get("index.html") });
    let Some(file) = file else {
        return match all.is_empty() {
            true => ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], ABSENT).into_response(),
            false => StatusCode::NOT_FOUND.into_response(),
        };
    };
    let keep = if lasting { "public, max-age=31536000, immutable" } else { "no-cache" };
    let common = [
        (header::ETAG, file.tag.clone()),
        (header::CACHE_CONTROL, HeaderValue::from_static(keep)),
        (header::VARY, HeaderValue::from_static("Accept-Encoding")),
    ];
    let known = headers.get(header::IF_NONE_MATCH).and_then(|v| v.to_str().ok()).unwrap_or_default();
    if known.split(',').any(|tag| tag.trim().trim_start_matches("W/").as_bytes() == file.tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    let (bytes, encoding) = match (file.brotli, file.gzip) {
        (Some(bytes), _) if takes(headers, "br") => (bytes, Some("br")),
        (_, Some(bytes)) if takes(headers, "gzip") => (bytes, Some("gzip")),
        _ => (file.plain, None),
    };
    let mut response = (common, [(header::CONTENT_TYPE, file.kind)], Bytes::from_static(bytes)).into_response();
    if let Some(encoding) = encoding {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT: &[(&str, &[u8])] = &[
        ("index.html", b"<page>"),
        ("assets/app-1.js", b"code"),
        ("assets/app-1.js.br", b"br"),
        ("assets/app-1.js.gz", b"gz"),
    ];

    fn get(files: &[(&'static str, &'static [u8])], path: &str, headers: &[(header::HeaderName, &str)]) -> Response {
        let headers = headers.iter().map(|(n, v)| (n.clone(), HeaderValue::from_str(v).expect("plain"))).collect();
        answer(&gather(files), &Method::GET, path, &headers)
    }

    fn header_of(response: &Response, name: header::HeaderName) -> &str {
        response.headers().get(name).map_or("", |v| v.to_str().expect("plain"))
    }

    #[test]
    fn assets_are_cached_and_the_page_is_revalidated() {
        let asset = get(BUILT, "/assets/app-1.js", &[]);
        assert_eq!(header_of(&asset, header::CACHE_CONTROL), "public, max-age=31536000, immutable");
        assert_eq!(header_of(&asset, header::CONTENT_TYPE), "text/javascript; charset=utf-8");
        let page = get(BUILT, "/pools/tank", &[]);
        assert_eq!((page.status(), header_of(&page, header::CACHE_CONTROL)), (StatusCode::OK, "no-cache"));
        let tag = header_of(&page, header::ETAG).to_owned();
        assert_eq!(get(BUILT, "/", &[(header::IF_NONE_MATCH, &tag)]).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(get(BUILT, "/", &[(header::IF_NONE_MATCH, "\"x\"")]).status(), StatusCode::OK);
        assert_eq!(get(BUILT, "/assets/gone.js", &[]).status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn the_smallest_form_that_the_client_takes_is_sent() {
        for (accepts, encoding) in [("gzip, br", "br"), ("gzip", "gzip"), ("br;q=0, gzip", "gzip"), ("", "")] {
            let asset = get(BUILT, "/assets/app-1.js", &[(header::ACCEPT_ENCODING, accepts)]);
            assert_eq!(header_of(&asset, header::CONTENT_ENCODING), encoding, "{accepts}");
        }
    }

    #[test]
    fn without_built_files_the_page_explains_how_to_build_them() {
        let page = get(&[], "/", &[]);
        assert_eq!(
            (page.status(), header_of(&page, header::CONTENT_TYPE)),
            (StatusCode::OK, "text/html; charset=utf-8")
        );
        assert_eq!(
            answer(&gather(BUILT), &Method::POST, "/", &HeaderMap::new()).status(),
            StatusCode::METHOD_NOT_ALLOWED
        );
    }
}
