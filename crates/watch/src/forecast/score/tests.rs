//! Scripts of what was said, and what is counted: the definitions.

use super::*;

/// Ages of each second, percent of the limit, and the seconds to the limit that were said from one
/// second until another.
fn counted(ages: &[f64], said: &[(usize, usize, f64)]) -> Score {
    let moment = |(i, percent): (usize, &f64)| Moment {
        seconds: i as f64,
        share: percent / 100.0,
        soft: 0.875,
        left: said.iter().find(|(from, until, _)| (*from..=*until).contains(&i)).map(|(_, _, left)| *left),
    };
    score(&ages.iter().enumerate().map(moment).collect::<Vec<_>>())
}

/// A rise from 10 % to the limit in so many seconds, after 10 calm ones, then 30 calm ones.
fn rise(seconds: usize) -> Vec<f64> {
    let rising = (1..=seconds).map(|i| 10.0 + 90.0 * i as f64 / seconds as f64);
    let calm = |n| std::iter::repeat_n(10.0, n);
    calm(10).chain(rising).chain(calm(30)).collect()
}

/// Events: when, how long the rise was, how long before it was said.
fn events_of(score: &Score) -> Vec<(f64, f64, Option<f64>)> {
    score.events.iter().map(|event| (event.at, event.rise.round(), event.lead)).collect()
}

#[test]
fn an_event_is_the_limit_after_some_seconds_away_from_it() {
    let mut ages = rise(30);
    // It swings around its limit: that is one event.
    ages.splice(40..40, [97.0, 100.0, 85.0, 100.0, 89.0, 100.0]);
    assert_eq!(counted(&ages, &[]).events.len(), 1);
    // At the beginning nothing is known of before.
    assert_eq!(counted(&[100.0, 100.0, 100.0], &[]).events.len(), 0);
    // After 5 s below 90 % the next one is another.
    ages.extend([100.0, 50.0, 50.0, 50.0, 50.0, 50.0, 50.0, 100.0]);
    assert_eq!(counted(&ages, &[]).events.len(), 3);
}

#[test]
fn a_rise_begins_at_its_foot_and_one_of_less_than_ten_seconds_is_too_fast() {
    for (seconds, rise_s, too_fast) in [(30, 28.0, 0), (9, 9.0, 1), (4, 4.0, 1)] {
        let score = counted(&rise(seconds), &[]);
        assert_eq!((score.events[0].rise.round(), score.too_fast()), (rise_s, too_fast), "{seconds}");
    }
    // Seconds of calm before the rise are none of it, nor is what was before a fall.
    let mut ages = vec![0.0; 60];
    ages.extend([80.0; 60]);
    ages.extend(rise(12));
    assert_eq!(counted(&ages, &[]).events[0].rise.round(), 11.0);
}

#[test]
fn an_event_is_foreseen_if_it_was_said_ten_seconds_before_without_a_pause() {
    // The limit is reached at second 39, within twice of what was said.
    for (said, lead, foreseen) in [
        (&[(25, 39, 10.0)][..], Some(14.0), 1),
        (&[(32, 39, 10.0)][..], Some(7.0), 0),
        // There is a pause of 4 s.
        (&[(20, 30, 20.0), (34, 39, 5.0)][..], Some(5.0), 0),
        // It was to come in 5 s, and came in 19.
        (&[(20, 39, 5.0)][..], Some(10.0), 1),
        (&[(20, 28, 5.0)][..], None, 0),
        (&[][..], None, 0),
    ] {
        let score = counted(&rise(30), said);
        assert_eq!((score.events[0].lead, score.foreseen()), (lead, foreseen), "{said:?}");
    }
    assert_eq!(events_of(&counted(&rise(30), &[(25, 39, 10.0)])), [(39.0, 28.0, Some(14.0))]);
}

#[test]
fn a_forecast_is_wrong_if_the_limit_is_not_reached_in_twice_its_time() {
    let calm = [20.0; 100];
    for (said, right, wrong, open) in [
        (&[(25, 39, 10.0)][..], 1, 0, 0),
        (&[(10, 12, 8.0)][..], 0, 1, 0),
        // Each pause begins another forecast.
        (&[(12, 13, 20.0), (20, 22, 15.0)][..], 2, 0, 0),
        // The end comes before its time is over.
        (&[(65, 66, 30.0)][..], 0, 0, 1),
    ] {
        let score = counted(&rise(30), said);
        assert_eq!((score.right, score.wrong.len(), score.open), (right, wrong, open), "{said:?}");
    }
    // What is said for long and never comes is wrong again and again.
    assert_eq!(counted(&calm, &[(10, 70, 10.0)]).wrong, [10.0, 31.0, 52.0]);
}

#[test]
fn the_figures_of_an_hour() {
    let mut score = counted(&rise(30), &[(25, 39, 10.0)]);
    assert_eq!((score.recall(), score.precision(), score.false_an_hour()), (Some(1.0), Some(1.0), Some(0.0)));
    score.add(&counted(&[20.0; 1732], &[(10, 12, 8.0)]));
    assert_eq!((score.seconds, score.false_an_hour()), (1800.0, Some(2.0)));
    assert_eq!((score.precision(), Score::default().recall()), (Some(0.5), None));
    // Two samples that lie far apart do not belong together.
    let far = [Moment { seconds: 0.0, share: 0.5, soft: 0.9, left: Some(9.0) }; 1];
    assert_eq!((super::score(&far).seconds, super::score(&far).open), (0.0, 1));
}
