//! House rules for the structure: the arrows between the layers, and between the rooms of a part, run one way, and no
//! two files import each other in a circle.

use std::collections::{BTreeMap, BTreeSet};

use super::sources::{SOURCES, files, imports_by_module};

/// A part of the source with rooms.
struct Part {
    /// The module path of the part; empty for the whole crate, whose rooms are the layers.
    path: &'static str,
    /// The rooms, and which others each may use. A room may only use rooms that are listed before it; `*` means all
    /// of those.
    rooms: &'static [(&'static str, &'static [&'static str])],
}

const PARTS: &[Part] = &[
    Part {
        path: "",
        rooms: &[
            ("job", &[]),
            ("compat", &["job"]),
            ("files", &[]),
            ("messages", &[]),
            ("process", &[]),
            ("tls", &["files"]),
            ("metrics", &[]),
            ("clock", &["job"]),
            ("auth", &["job", "files"]),
            ("config", &["job", "messages"]),
            ("traces", &["job", "clock", "messages", "metrics"]),
            ("telemetry", &["config", "metrics"]),
            ("store", &["job", "clock", "metrics"]),
            ("store/embedded", &["store", "job", "clock", "metrics", "files", "config"]),
            ("store/redis", &["store", "job", "clock", "metrics", "messages", "config", "tls"]),
            ("queue", &["store", "job", "clock", "metrics", "messages", "config", "traces"]),
            ("transfer", &["store", "job", "files"]),
            ("push", &["queue", "job", "clock", "metrics", "messages", "config", "tls"]),
            ("net", &["clock", "metrics", "config", "tls"]),
            ("http", &["net", "queue", "auth", "compat", "job", "clock", "metrics", "config"]),
            ("server", &["*"]),
            ("cli", &["server", "auth", "job", "clock", "config", "files", "messages", "process"]),
            ("benching", &["http", "store", "store/embedded", "store/redis", "job"]),
            (
                "fuzzing",
                &[
                    "auth",
                    "http",
                    "queue",
                    "store",
                    "store/embedded",
                    "store/redis",
                    "clock",
                    "metrics",
                    "job",
                ],
            ),
            ("lib", &["*"]),
            ("main", &["*"]),
        ],
    },
    Part {
        path: "store/embedded",
        rooms: &[
            ("options", &[]),
            ("rate_limits", &[]),
            ("notice_board", &[]),
            ("rows", &["options"]),
            ("id_index", &["rows", "options"]),
            ("disk", &["rows", "options"]),
            ("memory", &["rows", "options"]),
            ("ops", &["memory", "rows", "disk", "options"]),
            ("writer", &["ops", "memory", "rows", "disk", "options"]),
            ("recovery", &["ops", "memory", "rows", "disk", "options"]),
            ("verify", &["recovery", "memory", "rows", "disk", "options"]),
            ("engine", &["*"]),
            ("start", &["*"]),
            ("benching", &["*"]),
            ("fuzzing", &["*"]),
            ("tests", &["*"]),
        ],
    },
    Part {
        path: "store/redis",
        rooms: &[
            ("options", &[]),
            ("time", &[]),
            ("keys", &[]),
            ("indexed", &["keys"]),
            ("reply", &[]),
            ("scripts", &["keys"]),
            ("layout", &["options"]),
            ("tls", &["options"]),
            ("context", &["layout", "options", "tls"]),
            ("codec", &["reply"]),
            ("fuzzing", &["codec"]),
            ("connection", &["context", "keys", "layout", "options", "scripts", "time", "tls"]),
            (
                "coordination",
                &[
                    "codec",
                    "connection",
                    "context",
                    "indexed",
                    "keys",
                    "layout",
                    "options",
                    "reply",
                    "scripts",
                    "time",
                ],
            ),
            (
                "ops",
                &[
                    "codec",
                    "connection",
                    "context",
                    "coordination",
                    "indexed",
                    "keys",
                    "reply",
                    "scripts",
                    "time",
                ],
            ),
            ("engine", &["coordination", "ops"]),
            ("open", &["connection", "context", "coordination", "engine", "keys", "options", "time", "tls"]),
        ],
    },
    Part {
        path: "queue",
        rooms: &[
            ("ended", &[]),
            ("limits", &[]),
            ("error", &["ended"]),
            ("health", &[]),
            ("timer", &["ended", "health"]),
            ("pop/delivery", &[]),
            ("pop/pauses", &[]),
            ("pop/pollers", &[]),
            ("pop/waiters", &["error", "pop/delivery", "pop/pauses"]),
            ("views/cause", &[]),
            ("callbacks/called_endpoint", &[]),
            ("callbacks/outlet_listener", &["callbacks/called_endpoint", "views/cause"]),
            ("bulk", &["ended", "error"]),
            (
                "views",
                &[
                    "bulk",
                    "callbacks/called_endpoint",
                    "callbacks/outlet_listener",
                    "error",
                    "health",
                    "pop/pollers",
                    "views/cause",
                ],
            ),
            ("service", &["*"]),
            ("spans", &["service"]),
            ("jobs", &["ended", "error", "service", "spans"]),
            ("holds", &["error", "jobs", "service"]),
            ("receiptless", &["error", "jobs", "service"]),
            ("schedules", &["error", "jobs", "limits", "service"]),
            ("pop", &["error", "limits", "pop/delivery", "pop/waiters", "service"]),
            ("audit", &["error", "service"]),
            ("activity", &["callbacks/called_endpoint", "error", "service", "views"]),
            ("topics", &["error", "service", "views", "views/cause"]),
            ("callbacks", &["callbacks/outlet_listener", "error", "pop/delivery", "service", "topics"]),
            ("bulk/oldest", &["bulk", "ended", "error", "service"]),
            ("bulk/dead_letters", &["bulk", "bulk/oldest", "error", "service"]),
            ("views/dead_reasons", &["error", "service"]),
            ("views/lists", &["bulk", "error", "service"]),
        ],
    },
    Part {
        path: "http",
        rooms: &[
            ("json", &[]),
            ("errors", &["json"]),
            ("entity_tag", &[]),
            ("edge", &["entity_tag", "errors"]),
            ("accept", &[]),
            ("unknown_path", &[]),
            ("audit", &["edge"]),
            ("app", &["audit", "edge"]),
            ("access", &["edge", "errors"]),
            ("native", &["access", "edge", "errors"]),
            ("json_body", &["app", "edge", "errors"]),
            ("wire", &["access", "edge", "errors", "json"]),
            ("delivery_body", &[]),
            ("dialect_app", &["edge"]),
            ("lmstfy", &["access", "audit", "delivery_body", "dialect_app", "edge", "errors", "json_body"]),
            ("ouqiang", &["access", "delivery_body", "dialect_app", "edge", "errors", "json_body"]),
            ("handlers", &["*"]),
            ("ui", &["accept", "app", "entity_tag", "errors", "json", "unknown_path"]),
            ("routes", &["*"]),
            ("benching", &["*"]),
            ("fuzzing", &["*"]),
        ],
    },
];

impl Part {
    /// The room that a module path is in; the longest name counts.
    fn room(&self, module: &str) -> Option<&'static str> {
        let inside =
            if self.path.is_empty() { module } else { module.strip_prefix(self.path)?.strip_prefix('/')? };
        longest(inside, self.rooms.iter().map(|(room, _)| *room))
    }

    fn may_use(&self, room: &str, used: &str) -> bool {
        let place = |name: &str| self.rooms.iter().position(|(room, _)| *room == name).expect("is listed");
        let allowed = self.rooms[place(room)].1;
        used == room || allowed.contains(&used) || allowed.contains(&"*") && place(used) < place(room)
    }
}

/// The longest of `names` that is `path` or a parent of it.
fn longest<'a>(path: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let contains = |name: &&str| path == *name || path.starts_with(&format!("{name}/"));
    names.filter(contains).max_by_key(|name| name.len())
}

#[test]
fn arrows_between_rooms_run_one_way() {
    let modules = imports_by_module("src");
    let mut wrong = Vec::new();
    for part in PARTS {
        let is_inside =
            |module: &&String| part.path.is_empty() || module.starts_with(&format!("{}/", part.path));
        for module in modules.keys().filter(is_inside) {
            let Some(room) = part.room(module) else {
                wrong.push(format!("{module} is in no room"));
                continue;
            };
            let used = modules[module].iter().filter_map(|import| part.room(import));
            let forbidden = used.filter(|used| !part.may_use(room, used));
            wrong.extend(forbidden.map(|used| format!("{module} uses {used}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn connections_know_no_framework() {
    for (file, text) in files("src/net", "rs") {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        assert_eq!(code.filter(|line| line.contains("axum")).collect::<Vec<_>>(), [""; 0], "{file}");
    }
}

#[test]
fn every_room_exists() {
    let modules = imports_by_module("src");
    for part in PARTS {
        for (room, _) in part.rooms {
            let path =
                if part.path.is_empty() { (*room).to_owned() } else { format!("{}/{room}", part.path) };
            let is_inside = |module: &String| *module == path || module.starts_with(&format!("{path}/"));
            assert!(modules.keys().any(is_inside), "there is no room {path}");
        }
    }
}

#[test]
fn rooms_are_listed_from_the_bottom() {
    for part in PARTS {
        for (at, (room, may_use)) in part.rooms.iter().enumerate() {
            for used in may_use.iter().filter(|used| **used != "*") {
                let is_before = part.rooms[..at].iter().any(|(before, _)| before == used);
                assert!(is_before, "{room} may only use rooms listed before it, not {used}");
            }
        }
    }
}

#[test]
fn files_import_each_other_without_circles() {
    for sources in SOURCES {
        // A file `mod.rs` only lists and re-exports its modules.
        let modules = imports_by_module(sources);
        let names = || modules.keys().map(String::as_str);
        let mut arrows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (module, imports) in &modules {
            let used = imports.iter().filter_map(|import| longest(import, names()));
            arrows.insert(module, used.filter(|used| used != module).collect());
        }
        // Remove files that use none of the others, until none is left or only circles are.
        loop {
            let left: BTreeSet<&str> = arrows.keys().copied().collect();
            let before = arrows.len();
            arrows.retain(|_, used| used.iter().any(|used| left.contains(used)));
            if arrows.len() == before {
                break;
            }
        }
        assert!(arrows.is_empty(), "{sources}: in a circle, or using one: {:#?}", arrows.keys());
    }
}
