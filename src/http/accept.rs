//! Which formats a client accepts and prefers (RFC 9110, 12.5.1).

use axum::http::{HeaderMap, header};

/// Whether the client names OpenMetrics and prefers it to the plain text format, or accepts both equally. Prometheus
/// does. A client that accepts anything gets the plain text format, which all understand.
pub fn prefers_open_metrics(headers: &HeaderMap) -> bool {
    let open_metrics = weight_of(headers, &["application/openmetrics-text"]);
    open_metrics > 0.0 && open_metrics >= weight_of(headers, &["text/plain", "text/*", "*/*"])
}

/// Whether the client names HTML, as browsers do when they open a page. Other programs accept anything, if they say so
/// at all.
pub fn names_html(headers: &HeaderMap) -> bool {
    weight_of(headers, &["text/html"]) > 0.0
}

/// The highest weight of these media ranges.
fn weight_of(headers: &HeaderMap, ranges: &[&str]) -> f32 {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let weights = values.flat_map(|value| value.split(',')).filter_map(|item| {
        let mut parts = item.split(';').map(str::trim);
        let range = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let is_one = ranges.iter().any(|known| known.eq_ignore_ascii_case(range));
        is_one.then(|| weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0)))
    });
    weights.fold(0.0, f32::max)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_browsers_name_html() {
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8";
        for (accept, named) in [
            (browser, true),
            ("TEXT/HTML;q=0.1", true),
            ("text/html;q=0", false),
            ("*/*", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(names_html(&headers), named, "{accept}");
        }
    }

    #[test]
    fn open_metrics_is_sent_only_to_clients_that_name_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;\
                          version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, preferred) in [
            (prometheus, true),
            ("Application/OpenMetrics-Text", true),
            ("text/plain, application/openmetrics-text", true),
            ("application/openmetrics-text;q=0.2, text/plain;q=0.9", false),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;q=x", false),
            ("*/*", false),
            ("text/html,application/xhtml+xml,*/*;q=0.8", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(prefers_open_metrics(&headers), preferred, "{accept}");
        }
        assert!(!prefers_open_metrics(&HeaderMap::new()));
    }
}
