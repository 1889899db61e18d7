//! Results of several rounds side by side, as a Markdown table or as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::measure::{Measure, Unit, median};

/// The figures of one case: per round, ours and the reference's.
pub(crate) struct Comparison {
    pub(crate) case: &'static str,
    pub(crate) rounds: Vec<[Vec<Measure>; 2]>,
}

/// One figure of both servers over all rounds.
#[derive(Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) case: &'static str,
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) ours: f64,
    pub(crate) reference: f64,
    /// Median, least and greatest of the rounds' ratios; none where the reference measured zero.
    pub(crate) ratio: Option<[f64; 3]>,
}

impl Comparison {
    /// One row per figure, in the order in which they were measured.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let Some([first, _]) = self.rounds.first() else { return Vec::new() };
        first.iter().filter_map(|measure| self.row(measure.name, measure.unit)).collect()
    }

    fn row(&self, name: &'static str, unit: Unit) -> Option<Row> {
        let value = |measures: &[Measure]| measures.iter().find(|m| m.name == name).map(|m| m.value);
        let pairs: Vec<(f64, f64)> =
            self.rounds.iter().filter_map(|[ours, reference]| value(ours).zip(value(reference))).collect();
        let (ours, reference): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        // Rounds are neighbours in time, so their ratio is steadier than the ratio of two medians.
        let ratios: Vec<f64> = pairs.iter().filter(|pair| pair.1 > 0.0).map(|pair| pair.0 / pair.1).collect();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = ratios.iter().copied().fold(0.0, f64::max);
        let ratio = median(&ratios).map(|middle| [middle, least, greatest]);
        Some(Row { case: self.case, name, unit, ours: median(&ours)?, reference: median(&reference)?, ratio })
    }
}

/// The rows of a comparison as a Markdown table.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let mut text =
        String::from("| Case | Figure | Ours | Reference | Ratio | Spread |\n|---|---|--:|--:|--:|--:|\n");
    for row in rows {
        let (ratio, spread) = row.ratio.map_or_else(
            || ("-".to_owned(), "-".to_owned()),
            |[middle, least, greatest]| (format!("{middle:.2}"), format!("{least:.2}-{greatest:.2}")),
        );
        let (ours, reference) = (row.unit.format(row.ours), row.unit.format(row.reference));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {} | {} | {ours} | {reference} | {ratio} | {spread} |", row.case, row.name);
    }
    text
}

/// The rows of a comparison as JSON.
pub(crate) fn json(rows: &[Row]) -> Value {
    rows.iter()
        .map(|row| {
            json!({
                "case": row.case, "figure": row.name, "unit": row.unit.name(),
                "ours": row.ours, "reference": row.reference,
                "ratio": row.ratio.map(|ratio| ratio[0]),
                "ratio_min": row.ratio.map(|ratio| ratio[1]),
                "ratio_max": row.ratio.map(|ratio| ratio[2]),
            })
        })
        .collect()
}

/// The figures of one server alone as a Markdown table.
pub(crate) fn markdown_single(results: &[(&'static str, Vec<Measure>)]) -> String {
    let mut text = String::from("| Case | Figure | Value |\n|---|---|--:|\n");
    for (case, measure) in results.iter().flat_map(|(case, list)| list.iter().map(move |m| (case, m))) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {case} | {} | {} |", measure.name, measure.unit.format(measure.value));
    }
    text
}

/// The figures of one server alone as JSON.
pub(crate) fn json_single(results: &[(&'static str, Vec<Measure>)]) -> Value {
    results
        .iter()
        .flat_map(|(case, list)| list.iter().map(move |m| (case, m)))
        .map(|(case, m)| json!({"case": case, "figure": m.name, "unit": m.unit.name(), "value": m.value}))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(rate: f64, cpu: f64) -> Vec<Measure> {
        vec![
            Measure { name: "rate", unit: Unit::PerSecond, value: rate },
            Measure { name: "CPU each", unit: Unit::Nanoseconds, value: cpu },
        ]
    }

    fn sample() -> Vec<Row> {
        let rounds = vec![
            [figures(3e6, 100.0), figures(1e6, 0.0)],
            [figures(4e6, 120.0), figures(2e6, 0.0)],
            [figures(5e6, 110.0), figures(2e6, 0.0)],
        ];
        Comparison { case: "publish-16", rounds }.rows()
    }

    #[test]
    fn ratio_is_the_median_of_the_rounds_with_its_extremes() {
        let rows = sample();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].ours, rows[0].reference), (4e6, 2e6));
        assert_eq!(rows[0].ratio, Some([2.5, 2.0, 3.0]));
        assert_eq!(rows[1].ratio, None);
        assert_eq!(Comparison { case: "publish-16", rounds: Vec::new() }.rows(), []);
    }

    #[test]
    fn table_has_one_line_per_figure() {
        let text = markdown(&sample());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[2], "| publish-16 | rate | 4.00 M/s | 2.00 M/s | 2.50 | 2.00-3.00 |");
        assert_eq!(lines[3], "| publish-16 | CPU each | 110 ns | 0.00 ns | - | - |");
    }

    #[test]
    fn json_carries_plain_numbers() {
        let value = json(&sample());
        assert_eq!(value[0]["ratio"], 2.5);
        assert_eq!(value[0]["unit"], "per_second");
        assert!(value[1]["ratio"].is_null());
        let single = json_single(&[("request", figures(1.0, 2.0))]);
        assert_eq!(single[1]["value"], 2.0);
        assert!(
            markdown_single(&[("request", figures(1.0, 2.0))])
                .ends_with("| request | CPU each | 2.00 ns |\n")
        );
    }
}
