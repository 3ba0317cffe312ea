//! The check of every exchange of the API tests against `openapi.yaml`, requests and responses alike.
//!
//! It is stricter than OpenAPI: a status, header, parameter or field that is not documented is a failure.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
};

use axum::http::{HeaderMap, StatusCode, header};
use jsonschema::{Draft, Validator};
use serde_json::{Map, Value, json};

/// Headers that every response may have.
const ALLOWED_HEADERS: [header::HeaderName; 9] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONNECTION,
    header::DATE,
    header::ALLOW,
    header::CACHE_CONTROL,
    header::CONTENT_ENCODING,
    header::VARY,
    header::X_CONTENT_TYPE_OPTIONS,
];

/// Headers that every response must have.
const REQUIRED_HEADERS: [(header::HeaderName, &str); 2] =
    [(header::CACHE_CONTROL, "no-store"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];

/// The document `openapi.yaml`, parsed for checks.
pub struct Contract {
    document: Value,
    operations: Vec<Operation>,
    /// The validators, by the JSON Pointer of their schema.
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

/// One operation of the contract.
#[derive(Debug)]
pub struct Operation {
    pub id: String,
    pub method: String,
    pub template: String,
    /// The JSON Pointer of the operation.
    pointer: String,
    /// The documented statuses.
    pub statuses: Vec<u16>,
    /// The scope that a token needs, or `None` if the operation needs no token.
    pub scope: Option<String>,
    /// Whether the operation refuses tokens for some topics only.
    pub every_topic: bool,
}

/// One request and its response.
pub struct Exchange<'a> {
    pub method: &'a str,
    pub target: &'a str,
    pub sent: &'a [u8],
    pub status: StatusCode,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
}

/// The contract of this checkout.
pub fn contract() -> &'static Contract {
    static CONTRACT: LazyLock<Contract> = LazyLock::new(|| {
        let text = include_str!("../../../openapi.yaml");
        Contract::new(serde_saphyr::from_str(text).expect("openapi.yaml is YAML"))
    });
    &CONTRACT
}

impl Contract {
    fn new(mut document: Value) -> Self {
        forbid_undocumented(&mut document);
        // The tests also use the naive model as an engine.
        let engines = document.pointer_mut("/components/schemas/Version/properties/engine/enum");
        engines.and_then(Value::as_array_mut).expect("the document lists the engines").push(json!("naive"));
        let mut operations = Vec::new();
        for (template, item) in document["paths"].as_object().expect("the document has paths") {
            for (method, operation) in item.as_object().expect("a path item") {
                if let Some(id) = operation["operationId"].as_str() {
                    let statuses =
                        operation["responses"].as_object().expect("an operation has responses").keys();
                    let statuses = statuses.map(|status| status.parse().expect("a status"));
                    operations.push(Operation {
                        id: id.to_owned(),
                        method: method.to_uppercase(),
                        template: template.clone(),
                        pointer: format!("/paths/{}/{method}", escape(template)),
                        scope: operation["x-scope"].as_str().map(str::to_owned),
                        every_topic: operation["x-topics"] == "all",
                        statuses: statuses.collect(),
                    });
                }
            }
        }
        Self { document, operations, validators: Mutex::default() }
    }

    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Checks one exchange. Returns the operation that it exercised.
    pub fn check(&self, exchange: &Exchange<'_>) -> Option<&Operation> {
        let context = format!("{} {} -> {}", exchange.method, exchange.target, exchange.status);
        // The files of the dashboard are not part of the contract; `api::dashboard` checks their headers.
        if is_dashboard(exchange.target) && !exchange.status.is_client_error() {
            return None;
        }
        let request_id = exchange.headers.get("x-request-id");
        assert!(request_id.is_some(), "{context}: every response has a request id");
        for (name, expected) in REQUIRED_HEADERS {
            let value = exchange.headers.get(&name).and_then(|value| value.to_str().ok());
            assert_eq!(value, Some(expected), "{context}: {name}");
        }
        let Some(operation) = self.operation(exchange) else {
            self.check_refusal(exchange, &context);
            return None;
        };
        let response = self.resolve(&format!("{}/responses/{}", operation.pointer, exchange.status.as_u16()));
        assert!(self.get(&response).is_some(), "{context}: {} does not document this status", operation.id);
        self.check_headers(exchange, &response, &context);
        if exchange.method != "HEAD" {
            self.check_body(exchange, &response, &context);
        }
        if exchange.status.is_success() {
            self.check_request(exchange, operation, &context);
        }
        (exchange.method != "HEAD").then_some(operation)
    }

    fn operation(&self, exchange: &Exchange<'_>) -> Option<&Operation> {
        let path = exchange.target.split('?').next().expect("split returns at least one part");
        let method = if exchange.method == "HEAD" { "GET" } else { exchange.method };
        let matches = |template: &str| {
            let (mut template_parts, mut path_parts) = (template.split('/'), path.split('/'));
            let same = template_parts
                .by_ref()
                .zip(path_parts.by_ref())
                .all(|(expected, part)| expected.starts_with('{') || expected == part);
            same && template.split('/').count() == path.split('/').count()
        };
        self.operations.iter().find(|operation| operation.method == method && matches(&operation.template))
    }

    /// Checks a response that belongs to no operation: for an unknown path, a wrong method, a foreign page.
    fn check_refusal(&self, exchange: &Exchange<'_>, context: &str) {
        assert!(
            matches!(exchange.status.as_u16(), 400 | 401 | 403 | 404 | 405 | 408 | 413 | 500),
            "{context}: this status belongs to no operation"
        );
        if exchange.status == StatusCode::METHOD_NOT_ALLOWED {
            self.check_headers(exchange, "/components/responses/MethodNotAllowed", context);
        }
        if exchange.method != "HEAD" {
            assert_eq!(
                media_type(exchange.headers).as_deref(),
                Some("application/problem+json"),
                "{context}"
            );
            self.validate("/components/schemas/Problem", &parse(exchange.body, context), context);
        }
    }

    fn check_headers(&self, exchange: &Exchange<'_>, response: &str, context: &str) {
        let empty = Map::new();
        let documented = self.get(response).and_then(|r| r["headers"].as_object()).unwrap_or(&empty);
        for name in documented.keys() {
            let at = self.resolve(&format!("{response}/headers/{}", escape(name)));
            let value = exchange.headers.get(name).map(|value| value.to_str().expect("plain text"));
            let required = self.get(&format!("{at}/required")) == Some(&json!(true));
            assert!(value.is_some() || !required, "{context}: the header {name} is missing");
            if let Some(value) = value {
                self.validate(&format!("{at}/schema"), &json!(value), context);
            }
        }
        for name in exchange.headers.keys().filter(|name| !ALLOWED_HEADERS.contains(name)) {
            let known = documented.keys().any(|documented| documented.eq_ignore_ascii_case(name.as_str()));
            assert!(known, "{context}: the header {name} is not documented");
        }
    }

    fn check_body(&self, exchange: &Exchange<'_>, response: &str, context: &str) {
        let Some(contents) = self.get(response).and_then(|response| response["content"].as_object()) else {
            assert!(exchange.body.is_empty(), "{context}: no body is documented");
            return;
        };
        let media_type = media_type(exchange.headers).unwrap_or_default();
        assert!(contents.contains_key(&media_type), "{context}: {media_type:?} is not documented");
        let value = if media_type.ends_with("json") {
            parse(exchange.body, context)
        } else {
            json!(std::str::from_utf8(exchange.body).expect("text"))
        };
        let at = format!("{response}/content/{}/schema", escape(&media_type));
        self.validate(&at, &value, context);
        if media_type == "application/problem+json" {
            assert_eq!(value["status"], exchange.status.as_u16(), "{context}: {value}");
        }
    }

    /// Checks a request that succeeded. A batch succeeds even with bad items, which are not checked.
    fn check_request(&self, exchange: &Exchange<'_>, operation: &Operation, context: &str) {
        let bad_items = exchange.body.starts_with(b"{\"results\":")
            && parse(exchange.body, context)["results"]
                .as_array()
                .is_some_and(|results| results.iter().any(|result| result.get("problem").is_some()));
        let body = self.resolve(&format!("{}/requestBody", operation.pointer));
        let optional = self.get(&body).is_none_or(|body| body["required"] != true);
        // Many clients send `null`, or `{}` where nothing is documented, for a body that is left out.
        let left_out = match exchange.sent.trim_ascii() {
            b"" | b"null" => optional,
            b"{}" => self.get(&body).is_none(),
            _ => false,
        };
        if !left_out && !bad_items {
            let at = format!("{body}/content/application~1json/schema");
            self.validate(&at, &parse(exchange.sent, context), context);
        }
        let query = exchange.target.split_once('?').map_or("", |(_, query)| query);
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let at = self.parameter(operation, name);
            let schema =
                format!("{}/schema", at.unwrap_or_else(|| panic!("{context}: {name} is not documented")));
            let value = match self.get(&schema).and_then(|schema| schema["type"].as_str()) {
                Some("integer") => json!(value.parse::<i64>().expect("a number")),
                Some("boolean") => json!(value.parse::<bool>().expect("true or false")),
                _ => json!(value),
            };
            self.validate(&schema, &value, context);
        }
    }

    fn parameter(&self, operation: &Operation, name: &str) -> Option<String> {
        let item = operation.pointer.rsplit_once('/').expect("has a parent").0;
        let lists = [format!("{}/parameters", operation.pointer), format!("{item}/parameters")];
        let all = lists.iter().flat_map(|list| {
            let len = self.get(list).and_then(Value::as_array).map_or(0, Vec::len);
            (0..len).map(move |i| self.resolve(&format!("{list}/{i}")))
        });
        let found = |at: &String| self.get(at).is_some_and(|p| p["name"] == name && p["in"] == "query");
        all.into_iter().find(found)
    }

    /// Checks every example of every operation against its schema. Returns the number of examples.
    pub fn check_examples(&self) -> usize {
        let mut checked = 0;
        for operation in &self.operations {
            let mut of_operation = 0;
            let mut pointers = vec![self.resolve(&format!("{}/requestBody", operation.pointer))];
            let responses = self.get(&format!("{}/responses", operation.pointer)).and_then(Value::as_object);
            for status in responses.expect("an operation has responses").keys() {
                pointers.push(self.resolve(&format!("{}/responses/{status}", operation.pointer)));
            }
            for pointer in pointers {
                of_operation += self.check_examples_at(&pointer);
            }
            assert!(of_operation > 0, "{} has no example", operation.id);
            checked += of_operation;
        }
        checked
    }

    fn check_examples_at(&self, pointer: &str) -> usize {
        let Some(contents) = self.get(&format!("{pointer}/content")).and_then(Value::as_object) else {
            return 0;
        };
        let mut checked = 0;
        for (media_type, content) in contents {
            let at = format!("{pointer}/content/{}", escape(media_type));
            for name in content["examples"].as_object().map_or_else(Vec::new, |e| e.keys().collect()) {
                let example = self.resolve(&format!("{at}/examples/{}", escape(name)));
                let value = self.get(&format!("{example}/value")).expect("an example has a value");
                self.validate(&format!("{at}/schema"), value, &example);
                checked += 1;
            }
        }
        checked
    }

    fn get(&self, at: &str) -> Option<&Value> {
        self.document.pointer(at)
    }

    /// Follows references from `at`.
    fn resolve(&self, at: &str) -> String {
        match self.get(at).and_then(|value| value["$ref"].as_str()) {
            Some(reference) => {
                self.resolve(reference.strip_prefix('#').expect("a reference within the file"))
            }
            None => at.to_owned(),
        }
    }

    fn validate(&self, schema_at: &str, value: &Value, context: &str) {
        let validator = self.validator(schema_at);
        let faults: Vec<_> =
            validator.iter_errors(value).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
        assert!(faults.is_empty(), "{context}: breaks {schema_at}: {faults:#?}\n{value:#}");
    }

    /// The validator of the schema at a pointer, built once and without the lock, so that a schema that cannot be read
    /// fails its own test alone.
    fn validator(&self, schema_at: &str) -> Arc<Validator> {
        let validators = || self.validators.lock().expect("not poisoned");
        let known = validators().get(schema_at).cloned();
        known.unwrap_or_else(|| {
            let schema = self.get(schema_at).unwrap_or_else(|| panic!("there is no schema at {schema_at}"));
            let root = json!({"components": self.document["components"], "allOf": [schema]});
            let options = jsonschema::options().with_draft(Draft::Draft202012).should_validate_formats(true);
            let built = options.build(&root).unwrap_or_else(|error| panic!("{schema_at}: {error}"));
            validators().entry(schema_at.to_owned()).or_insert(Arc::new(built)).clone()
        })
    }
}

/// Makes every object schema refuse other fields than its own, and every extensible list refuse other words. Clients must
/// accept more, but the server must not send anything that is not documented.
fn forbid_undocumented(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(words) = map.remove("x-extensible-enum") {
                map.insert("enum".to_owned(), words);
            }
            if map.get("type") == Some(&json!("object")) && map.contains_key("properties") {
                map.entry("additionalProperties").or_insert(json!(false));
            }
            map.values_mut().for_each(forbid_undocumented);
        }
        Value::Array(list) => list.iter_mut().for_each(forbid_undocumented),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_dashboard(target: &str) -> bool {
    matches!(target, "/" | "/ui") || target.starts_with("/ui/")
}

fn parse(bytes: &[u8], context: &str) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|error| panic!("{context}: {error}: {}", String::from_utf8_lossy(bytes)))
}

fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next()?.trim().to_owned())
}

fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
