//! The dashboard: static files for browsers, and the settings that its pages need before a user signs in.
//!
//! The pages are nothing but a client of the API, and this file knows nothing of what they show. `ui/` has them as
//! browsers get them: ES modules without a build step, and the vendored libraries that `scripts/vendor-ui` fetches.
//! This file compiles all of them into the binary and serves them without a token; they contain no data.
//! Texts are English in the code, and Chinese in `js/zh.js`; `js/language.js` says how to write one.
//! `js/api.js` makes the calls, `js/poll.js` repeats them, `js/pages/` has a file for each page, `js/changes.js`
//! makes changes and `js/asking.js` opens dialogs; `js/timeline.js` computes what `js/drawing.js` draws for
//! `js/chart.js`. A new page is a file in
//! `js/pages/`, a line in `pageOf` of `js/main.js`, and a line in the list below.
//!
//! The content security policy forbids all scripts but these files and all markup from strings, so text from jobs
//! stays text. The body of a job is cut out of the response as it is (`js/rawjson.js`), because `JSON.parse` would
//! change large numbers, and `js/payload.js` shows it as what it is. Times follow the server's clock, estimated from the
//! `Date` headers (`js/clock.js`).

use std::sync::LazyLock;

use super::{
    accept,
    app::App,
    entity_tag::{self, KnownTags},
    errors::Problem,
    json, unknown_path,
};
use axum::{
    extract::{Path, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};

/// Every file below `ui/`. A test compares this list with the folder.
const FILES: &[(&str, &[u8])] = &[
    ("app.css", include_bytes!("../../ui/app.css")),
    ("favicon.svg", include_bytes!("../../ui/favicon.svg")),
    ("index.html", include_bytes!("../../ui/index.html")),
    ("js/addjob.js", include_bytes!("../../ui/js/addjob.js")),
    ("js/address.js", include_bytes!("../../ui/js/address.js")),
    ("js/api.js", include_bytes!("../../ui/js/api.js")),
    ("js/asking.js", include_bytes!("../../ui/js/asking.js")),
    ("js/bulk.js", include_bytes!("../../ui/js/bulk.js")),
    ("js/cause.js", include_bytes!("../../ui/js/cause.js")),
    ("js/changes.js", include_bytes!("../../ui/js/changes.js")),
    ("js/chart.js", include_bytes!("../../ui/js/chart.js")),
    ("js/clock.js", include_bytes!("../../ui/js/clock.js")),
    ("js/cron.js", include_bytes!("../../ui/js/cron.js")),
    ("js/curl.js", include_bytes!("../../ui/js/curl.js")),
    ("js/dialog.js", include_bytes!("../../ui/js/dialog.js")),
    ("js/drawing.js", include_bytes!("../../ui/js/drawing.js")),
    ("js/due.js", include_bytes!("../../ui/js/due.js")),
    ("js/durability.js", include_bytes!("../../ui/js/durability.js")),
    ("js/filter.js", include_bytes!("../../ui/js/filter.js")),
    ("js/first.js", include_bytes!("../../ui/js/first.js")),
    ("js/format.js", include_bytes!("../../ui/js/format.js")),
    ("js/history.js", include_bytes!("../../ui/js/history.js")),
    ("js/joblist.js", include_bytes!("../../ui/js/joblist.js")),
    ("js/keylist.js", include_bytes!("../../ui/js/keylist.js")),
    ("js/keys.js", include_bytes!("../../ui/js/keys.js")),
    ("js/language.js", include_bytes!("../../ui/js/language.js")),
    ("js/lib.js", include_bytes!("../../ui/js/lib.js")),
    ("js/life.js", include_bytes!("../../ui/js/life.js")),
    ("js/main.js", include_bytes!("../../ui/js/main.js")),
    ("js/menu.js", include_bytes!("../../ui/js/menu.js")),
    ("js/next.js", include_bytes!("../../ui/js/next.js")),
    ("js/order.js", include_bytes!("../../ui/js/order.js")),
    ("js/pages/audit.js", include_bytes!("../../ui/js/pages/audit.js")),
    ("js/pages/bulk.js", include_bytes!("../../ui/js/pages/bulk.js")),
    ("js/pages/callbacks.js", include_bytes!("../../ui/js/pages/callbacks.js")),
    ("js/pages/dead.js", include_bytes!("../../ui/js/pages/dead.js")),
    ("js/pages/job.js", include_bytes!("../../ui/js/pages/job.js")),
    ("js/pages/jobs.js", include_bytes!("../../ui/js/pages/jobs.js")),
    ("js/pages/overview.js", include_bytes!("../../ui/js/pages/overview.js")),
    ("js/pages/schedules.js", include_bytes!("../../ui/js/pages/schedules.js")),
    ("js/pages/server.js", include_bytes!("../../ui/js/pages/server.js")),
    ("js/pages/signin.js", include_bytes!("../../ui/js/pages/signin.js")),
    ("js/pages/topic.js", include_bytes!("../../ui/js/pages/topic.js")),
    ("js/pages/workers.js", include_bytes!("../../ui/js/pages/workers.js")),
    ("js/parts.js", include_bytes!("../../ui/js/parts.js")),
    ("js/place.js", include_bytes!("../../ui/js/place.js")),
    ("js/problems.js", include_bytes!("../../ui/js/problems.js")),
    ("js/poll.js", include_bytes!("../../ui/js/poll.js")),
    ("js/preferences.js", include_bytes!("../../ui/js/preferences.js")),
    ("js/payload.js", include_bytes!("../../ui/js/payload.js")),
    ("js/rawjson.js", include_bytes!("../../ui/js/rawjson.js")),
    ("js/schedule.js", include_bytes!("../../ui/js/schedule.js")),
    ("js/session.js", include_bytes!("../../ui/js/session.js")),
    ("js/shell.js", include_bytes!("../../ui/js/shell.js")),
    ("js/table.js", include_bytes!("../../ui/js/table.js")),
    ("js/timeline.js", include_bytes!("../../ui/js/timeline.js")),
    ("js/timetables.js", include_bytes!("../../ui/js/timetables.js")),
    ("js/topicchoice.js", include_bytes!("../../ui/js/topicchoice.js")),
    ("js/topicdialogs.js", include_bytes!("../../ui/js/topicdialogs.js")),
    ("js/zh.js", include_bytes!("../../ui/js/zh.js")),
    ("vendor/LICENSE-htm.txt", include_bytes!("../../ui/vendor/LICENSE-htm.txt")),
    ("vendor/LICENSE-preact.txt", include_bytes!("../../ui/vendor/LICENSE-preact.txt")),
    ("vendor/hooks.mjs", include_bytes!("../../ui/vendor/hooks.mjs")),
    ("vendor/htm.mjs", include_bytes!("../../ui/vendor/htm.mjs")),
    ("vendor/preact.mjs", include_bytes!("../../ui/vendor/preact.mjs")),
];

/// The name of the file that is made from the settings.
const SETTINGS: &str = "settings.json";

/// The modules that are loaded a little later than the first page, when they are shown, or in one language only.
const LOADED_LATER: [&str; 25] = [
    "js/addjob.js",
    "js/bulk.js",
    "js/cron.js",
    "js/curl.js",
    "js/due.js",
    "js/filter.js",
    "js/history.js",
    "js/joblist.js",
    "js/keylist.js",
    "js/life.js",
    "js/next.js",
    "js/pages/audit.js",
    "js/pages/bulk.js",
    "js/pages/callbacks.js",
    "js/pages/dead.js",
    "js/pages/job.js",
    "js/pages/jobs.js",
    "js/pages/schedules.js",
    "js/pages/server.js",
    "js/pages/workers.js",
    "js/schedule.js",
    "js/table.js",
    "js/topicchoice.js",
    "js/topicdialogs.js",
    TEXTS,
];

/// Has browsers load all other modules at once, not each after the one that imports it. The addresses are relative to the page.
static PRELOADS: LazyLock<HeaderValue> = LazyLock::new(|| {
    let is_loaded =
        |name: &str| name.ends_with("js") && name != CLASSIC_SCRIPT && !LOADED_LATER.contains(&name);
    let modules = FILES.iter().filter(|(name, _)| is_loaded(name));
    let links: Vec<_> = modules.map(|(name, _)| format!("<{name}>; rel=modulepreload")).collect();
    HeaderValue::try_from(links.join(", ")).expect("names of files are printable ASCII")
});

/// The script that is not a module: it runs before the first paint.
const CLASSIC_SCRIPT: &str = "js/first.js";

/// The texts in the other language, which a page loads only in that language.
const TEXTS: &str = "js/zh.js";

/// Scripts and styles come from this server only, no script may write markup, no other page may frame these, and no link
/// tells other servers where it was followed.
const HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
         trusted-types 'none'",
    ),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::REFERRER_POLICY, "same-origin"),
];

struct UiFile {
    name: &'static str,
    media_type: &'static str,
    content: &'static [u8],
    tag: HeaderValue,
}

static UI_FILES: LazyLock<Vec<UiFile>> = LazyLock::new(|| {
    let files = FILES.iter().map(|&(name, content)| UiFile {
        name,
        media_type: media_type(name),
        content,
        tag: entity_tag::tag_of(content),
    });
    files.collect()
});

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

/// Sends `/ui` to `/ui/`, by a relative address: a proxy may serve the dashboard below another path.
pub async fn redirect(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    check_enabled(&app, &uri)?;
    Ok((StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, "ui/")]).into_response())
}

/// Sends a browser to the dashboard. To programs `/` is an unknown path.
pub async fn root(State(app): State<App>, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    if app.ui.enabled && accept::names_html(&headers) {
        return Ok((StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, "ui/")]).into_response());
    }
    Err(no_route(&app, &uri))
}

/// The page itself.
pub async fn index(State(app): State<App>, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let mut response = respond(&app, "index.html", &uri, &headers)?;
    response.headers_mut().insert(header::LINK, PRELOADS.clone());
    Ok(response)
}

/// Any other file.
pub async fn file(
    State(app): State<App>,
    Path(name): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    respond(&app, &name, &uri, &headers)
}

fn check_enabled(app: &App, uri: &Uri) -> Result<(), Problem> {
    if app.ui.enabled { Ok(()) } else { Err(no_route(app, uri)) }
}

fn no_route(app: &App, uri: &Uri) -> Problem {
    Problem::no_route(unknown_path::detail(uri.path(), app.ui.enabled))
}

fn respond(app: &App, name: &str, uri: &Uri, headers: &HeaderMap) -> Result<Response, Problem> {
    check_enabled(app, uri)?;
    let mut response = if name == SETTINGS {
        json::object_response(|object| {
            object.text("title", &app.ui.title);
            object.flag("hide_bodies", app.ui.hide_bodies);
        })
    } else {
        let file = UI_FILES.iter().find(|file| file.name == name);
        file.ok_or_else(|| no_route(app, uri))?.respond(headers)
    };
    let pairs = HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(pairs);
    Ok(response)
}

impl UiFile {
    /// Browsers may keep a file, and ask each time whether it is still the same: an update replaces all files at once.
    fn respond(&self, headers: &HeaderMap) -> Response {
        let caching =
            [(header::ETAG, self.tag.clone()), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
        if KnownTags::sent_in(headers).contains(&self.tag) {
            return (StatusCode::NOT_MODIFIED, caching).into_response();
        }
        (caching, [(header::CONTENT_TYPE, self.media_type)], self.content).into_response()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        fs,
        io::Write,
        path::{Path, PathBuf},
    };

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    /// Longest file that is neither vendored nor a table of texts, in lines.
    const MAX_LINES: usize = 450;
    /// Most bytes of all files together that are loaded before the page shows anything, compressed.
    const MAX_BYTES: usize = 90_000;

    fn folder() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("ui")
    }

    /// The files of the folder, by their paths below it.
    fn found() -> BTreeSet<String> {
        let (mut folders, mut files) = (vec![folder()], BTreeSet::new());
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(next).expect("a folder") {
                let path = entry.expect("readable").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(folder()).expect("is below it");
                    files.insert(name.to_str().expect("is text").to_owned());
                }
            }
        }
        files
    }

    #[test]
    fn the_table_has_every_file_of_the_folder() {
        let listed: BTreeSet<_> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(listed, found());
        assert_eq!(listed.len(), FILES.len(), "each file is listed once");
        for (name, content) in FILES {
            let is_that_file = fs::read(folder().join(name)).expect("readable") == *content;
            assert!(is_that_file, "{name} has the content of another file");
        }
    }

    #[test]
    fn the_files_are_small() {
        let compressed = |content: &[u8]| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(content).expect("memory takes it");
            encoder.finish().expect("memory takes it").len()
        };
        let is_loaded = |(name, _): &&(&str, _)| !LOADED_LATER.contains(name);
        let bytes: usize = FILES.iter().filter(is_loaded).map(|(_, content)| compressed(content)).sum();
        assert!(bytes <= MAX_BYTES, "{bytes} bytes");
        let is_code = |(name, _): &&(&str, _)| !name.starts_with("vendor/") && *name != TEXTS;
        for (name, content) in FILES.iter().filter(is_code) {
            let lines = String::from_utf8_lossy(content).lines().count();
            assert!(lines <= MAX_LINES, "{name} has {lines} lines");
        }
    }

    /// The modules that one loads together with itself.
    fn imports(name: &str, text: &str) -> BTreeSet<String> {
        let statements =
            text.lines().filter(|line| line.starts_with("import ") || line.starts_with("export "));
        let paths = statements.filter_map(|line| line.rsplit_once(" from \"")?.1.strip_suffix("\";"));
        let folder = Path::new(name).parent().expect("a file is in a folder");
        let resolved = paths.map(|path| match path.strip_prefix("../") {
            Some(rest) => folder.parent().expect("is below the root").join(rest),
            None => folder.join(path.trim_start_matches("./")),
        });
        resolved.map(|path| path.to_str().expect("is text").to_owned()).collect()
    }

    #[test]
    fn the_page_loads_every_script_and_names_nothing_outside() {
        let text = |name: &str| fs::read_to_string(folder().join(name)).expect("is text");
        let links = PRELOADS.to_str().expect("is text");
        assert!(text("index.html").contains(&format!("<script src=\"{CLASSIC_SCRIPT}\">")));
        let found = found();
        let modules = found.iter().filter(|name| name.ends_with("js") && *name != CLASSIC_SCRIPT);
        let (later, at_once): (Vec<_>, Vec<_>) =
            modules.partition(|name| LOADED_LATER.contains(&name.as_str()));
        for name in at_once {
            let imported = imports(name, &text(name));
            assert_eq!(
                later.iter().find(|later| imported.contains(**later)),
                None,
                "{name} loads it at once"
            );
            assert!(links.contains(&format!("<{name}>; rel=modulepreload")), "{name} is not loaded at once");
        }
        for name in found.iter().filter(|name| !name.starts_with("vendor/")) {
            let text = text(name);
            for outside in ["href=\"/", "src=\"/", "from \"/", "@import", "innerHTML", "eval("] {
                assert!(!text.contains(outside), "{name} contains {outside}");
            }
        }
    }
}
