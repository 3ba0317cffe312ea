//! Which of two forms of the figures a client prefers (RFC 9110, 12.5.1).

use axum::http::{HeaderMap, header};

/// Whether OpenMetrics is asked for by name, and no less than the plain text format. Prometheus does; what asks for
/// nothing, or for anything, gets the form that everything understands.
pub fn prefers_open_metrics(headers: &HeaderMap) -> bool {
    let (mut open_metrics, mut text) = (0.0_f32, 0.0_f32);
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    for item in values.flat_map(|value| value.split(',')) {
        let mut parts = item.split(';').map(str::trim);
        let range = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let weight = weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
        match &*range {
            "application/openmetrics-text" => open_metrics = open_metrics.max(weight),
            "text/plain" | "text/*" | "*/*" => text = text.max(weight),
            _ => {}
        }
    }
    open_metrics > 0.0 && open_metrics >= text
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn open_metrics_must_be_asked_for_by_name() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;\
                          version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, wanted) in [
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
            assert_eq!(prefers_open_metrics(&headers), wanted, "{accept}");
        }
        assert!(!prefers_open_metrics(&HeaderMap::new()));
    }
}
