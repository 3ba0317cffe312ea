//! The text format of Prometheus, version 0.0.4, converted from OpenMetrics 1.0.
//!
//! The samples are the same; their metadata differs. A counter is described by the name of its samples, which ends in
//! `_total`; an info is a gauge; there are no units and no end marker.
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>

/// Converts a page of OpenMetrics.
pub(super) fn from_open_metrics(page: &str) -> String {
    let (mut text, mut help) = (String::with_capacity(page.len() + 1_024), None);
    for line in page.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        match comment.split_once(' ') {
            Some(("HELP", rest)) => help = rest.split_once(' '),
            Some(("TYPE", rest)) => {
                let (name, kind) = rest.split_once(' ').unwrap_or((rest, "unknown"));
                let (suffix, kind) = match kind {
                    "counter" => ("_total", "counter"),
                    "info" => ("_info", "gauge"),
                    "unknown" => ("", "untyped"),
                    other => ("", other),
                };
                if let Some((metric, description)) = help.take()
                    && metric == name
                {
                    text.extend(["# HELP ", name, suffix, " ", description, "\n"]);
                }
                text.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
            }
            // A unit, or the end marker.
            Some(_) | None => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_infos_are_described_by_the_names_of_their_samples() {
        let page = "# HELP jobs_added Jobs added.\n# TYPE jobs_added counter\njobs_added_total{topic=\"# TYPE\"} 5\n\
                    # HELP store The store.\n# TYPE store info\nstore_info{engine=\"redis\"} 1\n\
                    # HELP wait_seconds Waits.\n# TYPE wait_seconds histogram\n# UNIT wait_seconds seconds\n\
                    wait_seconds_bucket{le=\"0.001\"} 1\n# HELP open Open.\n# TYPE open gauge\nopen 1\n# EOF\n";
        let expected = "# HELP jobs_added_total Jobs added.\n# TYPE jobs_added_total counter\n\
                        jobs_added_total{topic=\"# TYPE\"} 5\n\
                        # HELP store_info The store.\n# TYPE store_info gauge\nstore_info{engine=\"redis\"} 1\n\
                        # HELP wait_seconds Waits.\n# TYPE wait_seconds histogram\n\
                        wait_seconds_bucket{le=\"0.001\"} 1\n# HELP open Open.\n# TYPE open gauge\nopen 1\n";
        assert_eq!(from_open_metrics(page), expected);
    }
}
