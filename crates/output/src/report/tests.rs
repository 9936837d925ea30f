//! Plots of extreme values, and text from outside.

use super::chart::{Annotation, ChartStyle, Series, tests::chart};
use super::markup::assert_whole;
use super::plot::Plot;
use super::*;

#[test]
fn text_from_outside_is_escaped_in_a_plot() {
    let evil = "</script><script>alert('1')</script>\u{0}\"&";
    let mut chart = chart(ChartStyle::Lines, vec![Series::new(evil, vec![(1.0, Some(2.0))])]);
    chart.title = evil.into();
    chart.marks.push(Annotation { at: 1.0, value: 2.0, label: evil.into() });
    assert_whole("evil.svg", &chart.file().1);
    assert!(!page::points_json(&chart).contains('<'));
}

#[test]
fn extreme_and_missing_values_do_not_break_a_plot() {
    let lines = [
        vec![],
        vec![(1.0, None)],
        vec![(1.0, Some(0.0)), (2.0, Some(0.0))],
        vec![(1.0, Some(f64::MAX)), (2.0, Some(f64::MIN_POSITIVE)), (3.0, Some(-5.0)), (4.0, Some(f64::NAN))],
        vec![(1.0, Some(5.0)), (2.0, None), (3.0, Some(1e18)), (5.0, Some(2.0)), (6.0, Some(2.0))],
    ];
    for style in [ChartStyle::Lines, ChartStyle::LogLines, ChartStyle::Stacked] {
        for points in &lines {
            let both = vec![Series::new("a", points.clone()), Series::new("b", points.clone())];
            let drawn = chart(style, both);
            assert_whole(&format!("{style:?} {points:?}"), &drawn.file().1);
            assert_whole("narrow", &drawn.element(svg::Format::Narrow));
        }
        assert_whole("nothing", &chart(style, Vec::new()).file().1);
    }
    let gap = chart(ChartStyle::Lines, vec![Series::new("a", lines[4].clone())]);
    let text = gap.element(svg::Format::Wide);
    assert_eq!(
        (text.matches("<circle class=\"line").count(), text.matches("class=\"line s1\" d=\"M").count()),
        (1, 2)
    );
    assert!(chart(ChartStyle::Lines, Vec::new()).file().1.contains("no samples"));
}

#[test]
fn a_command_line_is_quoted_for_a_shell() {
    assert_eq!(quoted("--pool=128MiB"), "--pool=128MiB");
    assert_eq!(quoted("my dir"), "'my dir'");
    assert_eq!(quoted("it's"), r"'it'\''s'");
    assert_eq!(quoted(""), "''");
}
