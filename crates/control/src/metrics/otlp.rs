//! Metrics as OTLP: an `ExportMetricsServiceRequest` in the JSON that the specification gives
//! protocol buffers, where numbers of 64 bits are texts.

use super::{Family, Kind, Measured, Number, Point, metrics};
use crate::port::Histogram;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`: counts are since the start.
const CUMULATIVE: u8 = 2;

/// From when counters count, and when they were read, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start_ns: u128,
    pub(crate) now_ns: u128,
}

/// All metrics of one broker, whose resource has these attributes.
pub(crate) fn request(
    measured: &Measured,
    resource: &BTreeMap<String, String>,
    span: Span,
) -> Value {
    let all = metrics(measured);
    let told = all.iter().filter(|metric| !metric.points.is_empty());
    let told = told.map(|metric| told_metric(metric.family, &metric.points, span));
    let resource = resource.iter().map(|(key, value)| attribute(key, value));
    json!({ "resourceMetrics": [{
        "resource": { "attributes": resource.collect::<Vec<_>>() },
        "scopeMetrics": [{
            "scope": { "name": "weir", "version": env!("CARGO_PKG_VERSION") },
            "metrics": told.collect::<Vec<_>>(),
        }],
    }]})
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn told_metric(family: &Family, points: &[Point<'_>], span: Span) -> Value {
    let points: Vec<_> = points.iter().map(|point| told_point(family, point, span)).collect();
    let (kind, told) = match family.kind {
        Kind::Gauge => ("gauge", json!({ "dataPoints": points })),
        Kind::Counter => (
            "sum",
            json!({
                "aggregationTemporality": CUMULATIVE,
                "isMonotonic": true,
                "dataPoints": points,
            }),
        ),
        Kind::Histogram => {
            ("histogram", json!({ "aggregationTemporality": CUMULATIVE, "dataPoints": points }))
        }
    };
    // A collector appends units to names that do not have them.
    let unit = match family.name {
        _ if family.is_us || family.kind == Kind::Histogram => "s",
        name if name.ends_with("_seconds") => "s",
        name if name.ends_with("_bytes") => "By",
        _ => "",
    };
    json!({ "name": family.name, "description": family.help, "unit": unit, kind: told })
}

fn told_point(family: &Family, Point { labels, value }: &Point<'_>, span: Span) -> Value {
    let labels: Vec<_> = labels.iter().map(|(key, value)| attribute(key, value)).collect();
    let mut told = json!({
        "attributes": labels,
        "timeUnixNano": span.now_ns.to_string(),
    });
    if family.kind != Kind::Gauge {
        told["startTimeUnixNano"] = span.start_ns.to_string().into();
    }
    match value {
        Number::Of(us) if family.is_us => told["asDouble"] = (*us as f64 / 1e6).into(),
        Number::Of(count) => told["asInt"] = count.to_string().into(),
        Number::Times(Histogram { bounds_us, counts, us_sum, .. }) => {
            told["count"] = counts.iter().sum::<u64>().to_string().into();
            told["sum"] = (*us_sum as f64 / 1e6).into();
            told["bucketCounts"] = counts.iter().map(u64::to_string).collect();
            told["explicitBounds"] = bounds_us.iter().map(|&us| us as f64 / 1e6).collect();
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::super::About;
    use super::super::tests::of_shards;
    use super::*;

    #[test]
    fn counts_are_texts_since_the_start_and_times_are_seconds() {
        let resource = BTreeMap::from([("service.name".to_owned(), "weir".to_owned())]);
        let span = Span { start_ns: 1, now_ns: 1_764_166_921_123_456_789 };
        let about = About { pushes: Some([3, 1]), ..About::default() };
        let told = request(&Measured { about, ..of_shards() }, &resource, span);
        let of = &told["resourceMetrics"][0];
        let attributes = json!([{ "key": "service.name", "value": { "stringValue": "weir" } }]);
        assert_eq!(of["resource"]["attributes"], attributes);
        let metrics = of["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let metric = |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap();
        let at = "1764166921123456789";
        let shard = |shard: &str| json!([{ "key": "shard", "value": { "stringValue": shard } }]);
        let sum = &metric("weir_publishes_received")["sum"];
        assert_eq!(
            (&sum["aggregationTemporality"], &sum["isMonotonic"]),
            (&json!(2), &json!(true))
        );
        assert_eq!(
            sum["dataPoints"][1],
            json!({ "attributes": shard("1"), "timeUnixNano": at, "startTimeUnixNano": "1",
                "asInt": "2" })
        );
        let longest = metric("weir_store_commit_seconds_max");
        let point = json!({ "attributes": shard("0"), "timeUnixNano": at, "asDouble": 1.5 });
        assert_eq!((&longest["unit"], &longest["gauge"]["dataPoints"][0]), (&json!("s"), &point));
        assert_eq!(
            metric("weir_latency_seconds")["histogram"]["dataPoints"][0],
            json!({ "attributes": shard("0"), "timeUnixNano": at, "startTimeUnixNano": "1",
                "count": "6", "sum": 0.0045, "bucketCounts": ["3", "2", "1"],
                "explicitBounds": [0.00005, 0.001] })
        );
        assert_eq!(metric("weir_memory_resident_bytes")["unit"], "By");
        assert_eq!(metric("weir_otlp_pushes")["sum"]["dataPoints"][1]["asInt"], "1");
    }
}
