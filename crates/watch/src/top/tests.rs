//! Pictures as text.

use super::fleet::Fleet;
use super::state::{Key, State};
use super::terminal::picture;
use crate::sources::Sample;
use expect_test::expect;
use output::samples::ColumnKind::Gauge;

/// A server whose checkpoint age rises by 2 MiB a second, after `second` seconds.
fn sample(second: u64) -> Sample {
    let (s, mib) = (second as f64, f64::from(1 << 20));
    let figures = [
        ("commits", 900.0 * s),
        ("row_inserts", 100.0 * s),
        ("row_updates", 300.0 * s),
        ("row_deletes", 100.0 * s),
        ("redo_bytes_written", 3.0 * mib * s),
        ("current_lsn", 1e9 + 3.0 * mib * s),
        ("durable_lsn", 1e9 + 3.0 * mib * s),
        ("checkpoint_lsn", 1e9 + mib * s),
        ("checkpoint_age_bytes", 2.0 * mib * s),
        ("checkpoint_age_soft", 67.0 * mib),
        ("checkpoint_age_limit", 77.0 * mib),
        ("redo_capacity_bytes", 96.0 * mib),
        ("buffer_frames", 8112.0),
        ("lru_pages", 6000.0),
        ("dirty_pages", 2000.0),
        ("free_frames", 2112.0),
        ("dirty_percent", 24.65),
        ("pages_read", 50.0 * s),
        ("pages_written", 210.0 * s),
        ("pages_written_by_force.adaptive", 150.0 * s),
        ("pages_written_by_force.background", 0.0),
        ("pages_written_by_force.lru", 60.0 * s),
        ("fsyncs", 450.0 * s),
        ("lock_waits", 12.0 * s),
        ("lock_wait_us_total", 9000.0 * s),
        ("lock_waiters", 2.0),
        ("open_connections", 17.0),
        ("uptime_seconds", s),
    ];
    let values = figures.iter().map(|(name, value)| ((*name).to_owned(), "", Gauge, *value));
    Sample::new(second * 1_000_000, values.collect())
}

fn state(seconds: u64) -> State {
    let mut state = State::new("mysql://root@localhost/".to_owned(), "MariaDB 10.11.19".to_owned());
    (1..=seconds).for_each(|second| state.take(sample(second)));
    state
}

fn shown(state: &State, size: (u16, u16)) -> String {
    picture(&Fleet::new(vec![state.clone()]), size, 100_000_000)
}

/// Three targets: one that rises, one that is gone, one of which nothing is known yet.
fn fleet() -> Fleet {
    let mut gone = state(3);
    gone.target = "mysql://root@a-host-with-a-long-name.example.net:3307/".to_owned();
    gone.fail(97_000_000, "no server answers on a-host-with-a-long-name.example.net:3307".to_owned());
    let new = State::new("/var/lib/other".to_owned(), "Millpond".to_owned());
    Fleet::new(vec![state(30), gone, new])
}

#[test]
fn several_targets_in_80_x_24() {
    let mut fleet = fleet();
    fleet.key(Key::Next);
    expect![[r#"
         3 targets, 1 of them with an alarm
            target                      age          soft in commits/s changed/s   dirty
          1 mysql://root@localhost/    78 % ██████·│     4 s       900       500  24.6 %
            InnoDB will flush with full force in 4 s: the age has grown by 2 MiB/s for 2
        > 2 mysql://roo…le.net:3307/      –                –         –         –       –
            no sample for 3.00 s, trying again: no server answers on a-host-with-a-long-
          3 /var/lib/other                –                –         –         –       –
            waiting for the first sample















         q quit   p pause   ↑ ↓ choose   Enter or 1-9 one of them   ? help
    "#]]
    .assert_eq(&picture(&fleet, (80, 24), 100_000_000));
    fleet.key(Key::Previous);
    fleet.key(Key::Open);
    let one = picture(&fleet, (80, 24), 100_000_000);
    assert!(one.contains("overview") && one.contains("[ ] others   0 all"), "{one}");
}

#[test]
fn the_chosen_target_is_seen_among_many_and_any_size_is_no_panic() {
    let mut many = Fleet::new((0..40).map(|n| State::new(format!("db{n}"), String::new())).collect());
    for _ in 0..25 {
        many.key(Key::Next);
    }
    assert!(picture(&many, (80, 24), 0).contains(">26 db25"));
    for size in [(1, 1), (3, 2), (79, 24), (80, 24), (81, 25), (250, 70), (80, 200)] {
        let mut fleet = fleet();
        picture(&fleet, size, 0);
        fleet.key(Key::Help);
        picture(&fleet, size, 0);
    }
}

#[test]
fn the_overview_in_80_x_24() {
    expect![[r#"
         MariaDB 10.11.19  mysql://root@localhost/  1 overview  2 log  3 pages  4 waits
         InnoDB will flush with full force in 4 s: the age has grown by 2 MiB/s for 27 s
        ┌ checkpoint age ──────────────────────────────────────────────────────────────┐
        │ 60 MiB of 77 MiB, 78 %; soft limit 67 MiB in 4 s at this rate                │
        │ ███████████████████████████████████████████████████████████·······│········· │
        │                     ▁▁▁▂▂▃▃▄▄                                                │
        │  ▁▁▂▂▂▃▃▄▄▄▅▅▆▆▇▇▇███████████                                                │
        └──────────────────────────────────────────────────────────────────────────────┘
        ┌ throughput ──────────────────────────┐┌ buffer pool, pages ──────────────────┐
        │ commits/s                        900 ││ █████████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒········· │
        │ rows changed/s                   500 ││ █ dirty                2 000, 24.6 % │
        │ redo                         3 MiB/s ││ ▒ clean                        4 000 │
        │ █████████████████████████████        ││ · free                         2 112 │
        └──────────────────────────────────────┘└──────────────────────────────────────┘
        ┌ pages written/s, by force ───────────┐┌ who waits for what ──────────────────┐
        │ adaptive           150 ████████████  ││ wait for a row lock now          2.0 │
        │ background           0               ││ lock waits/s                      12 │
        │ lru                 60 █████         ││ at the age's limit/s       not known │
        │ █████████████████████████████        ││ delayed for the age        not known │
        │ █████████████████████████████        ││ for a free page/s          not known │
        │ █████████████████████████████        ││ for the log buffer/s       not known │
        │ █████████████████████████████        ││ reads, writes, syncs now   not known │
        └──────────────────────────────────────┘└──────────────────────────────────────┘
         q quit   p pause   ← → or 1-4 views   ? help
    "#]]
    .assert_eq(&shown(&state(30), (80, 24)));
}

#[test]
fn the_overview_in_120_x_40() {
    expect![[r#"
         MariaDB 10.11.19  mysql://root@localhost/                                          1 overview  2 log  3 pages  4 waits
         the checkpoint age was at its limit in the last 5 s, 156 % now; whether writers wait is not counted
        ┌ checkpoint age ──────────────────────────────────────────────────────────────────────────────────────────────────────┐
        │ 120 MiB of 77 MiB, 156 %; soft limit 67 MiB                                                                          │
        │ █████████████████████████████████████████████████████████████████████████████████████████████████████│██████████████ │
        │                                                 ▁▂▂▃▄▄▅▆▆▇█                                                          │
        │                                     ▁▂▂▃▄▄▅▆▆▇█████████████                                                          │
        │                         ▁▂▂▃▄▄▅▆▆▇█████████████████████████                                                          │
        │             ▁▂▂▃▄▄▅▆▆▇█████████████████████████████████████                                                          │
        │ ▁▂▂▃▄▄▅▆▆▇█████████████████████████████████████████████████                                                          │
        └──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
        ┌ throughput ──────────────────────────────────────────────┐┌ buffer pool, pages ──────────────────────────────────────┐
        │ commits/s                                            900 ││ ██████████████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒··············· │
        │ rows changed/s                                       500 ││ █ dirty                                    2 000, 24.6 % │
        │ redo                                             3 MiB/s ││ ▒ clean                                            4 000 │
        │██████████████████████████████████████████████████████████││ · free                                             2 112 │
        │██████████████████████████████████████████████████████████││                                                          │
        │██████████████████████████████████████████████████████████││                                                          │
        │██████████████████████████████████████████████████████████││▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅│
        └──────────────────────────────────────────────────────────┘└──────────────────────────────────────────────────────────┘
        ┌ pages written/s, by force ───────────────────────────────┐┌ who waits for what ──────────────────────────────────────┐
        │ adaptive           150 ████████████████████████████████  ││ wait for a row lock now                              2.0 │
        │ background           0                                   ││ lock waits/s                                          12 │
        │ lru                 60 █████████████                     ││ at the age's limit/s                           not known │
        │██████████████████████████████████████████████████████████││ delayed for the age                            not known │
        │██████████████████████████████████████████████████████████││ for a free page/s                              not known │
        │██████████████████████████████████████████████████████████││ for the log buffer/s                           not known │
        │██████████████████████████████████████████████████████████││ reads, writes, syncs now                       not known │
        │██████████████████████████████████████████████████████████││ time in lock waits                              9.0 ms/s │
        │██████████████████████████████████████████████████████████││ deadlocks/s                                    not known │
        │██████████████████████████████████████████████████████████││██████████████████████████████████████████████████████████│
        │██████████████████████████████████████████████████████████││██████████████████████████████████████████████████████████│
        │██████████████████████████████████████████████████████████││██████████████████████████████████████████████████████████│
        │██████████████████████████████████████████████████████████││██████████████████████████████████████████████████████████│
        │██████████████████████████████████████████████████████████││██████████████████████████████████████████████████████████│
        │██████████████████████████████████████████████████████████││██████████████████████████████████████████████████████████│
        │██████████████████████████████████████████████████████████││██████████████████████████████████████████████████████████│
        │██████████████████████████████████████████████████████████││██████████████████████████████████████████████████████████│
        └──────────────────────────────────────────────────────────┘└──────────────────────────────────────────────────────────┘
         q quit   p pause   ← → or 1-4 views   ? help
    "#]].assert_eq(&shown(&state(60), (120, 40)));
}

#[test]
fn the_views_of_log_and_pages_in_80_x_24() {
    let mut state = state(30);
    let mut all = String::new();
    for view in [2, 3] {
        state.key(Key::Number(view));
        all += &shown(&state, (80, 24));
    }
    expect![[r#"
         MariaDB 10.11.19  mysql://root@localhost/  1 overview  2 log  3 pages  4 waits
         InnoDB will flush with full force in 4 s: the age has grown by 2 MiB/s for 27 s
        ┌ redo log; below: the age ────────────┐┌ syncs and writes; below: syncs/s ────┐
        │ age                           60 MiB ││ syncs/s                          450 │
        │ soft limit                    67 MiB ││ of them the log's/s        not known │
        │ limit                         77 MiB ││ commits for each sync           2.00 │
        │ size of the log               96 MiB ││ writes of the log/s        not known │
        │ end, LSN               1 094 371 840 ││ written to the log         not known │
        │ durable up to          1 094 371 840 ││ written to all files       not known │
        │ checkpoint at          1 031 457 280 ││ waits for the log buffer/s not known │
        │ redo                         3 MiB/s ││ █████████████████████████████        │
        │ redo an hour at this rate   10.5 GiB ││ █████████████████████████████        │
        │                           ▂▅█        ││ █████████████████████████████        │
        │                        ▂▅████        ││ █████████████████████████████        │
        │                     ▂▅███████        ││ █████████████████████████████        │
        │                  ▂▅██████████        ││ █████████████████████████████        │
        │               ▂▅█████████████        ││ █████████████████████████████        │
        │            ▂▅████████████████        ││ █████████████████████████████        │
        │         ▂▅███████████████████        ││ █████████████████████████████        │
        │      ▂▅██████████████████████        ││ █████████████████████████████        │
        │   ▂▅█████████████████████████        ││ █████████████████████████████        │
        │▂▅████████████████████████████        ││ █████████████████████████████        │
        └──────────────────────────────────────┘└──────────────────────────────────────┘
         q quit   p pause   ← → or 1-4 views   ? help
         MariaDB 10.11.19  mysql://root@localhost/  1 overview  2 log  3 pages  4 waits
         InnoDB will flush with full force in 4 s: the age has grown by 2 MiB/s for 27 s
        ┌ buffer pool; below: dirty percent ───┐┌ pages written/s, by force ───────────┐
        │ █████████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒········· ││ adaptive           150 ████████████  │
        │ █ dirty                2 000, 24.6 % ││ background           0               │
        │ ▒ clean                        4 000 ││ lru                 60 █████         │
        │ · free                         2 112 ││ █████████████████████████████        │
        │ pages read/s                      50 ││ █████████████████████████████        │
        │ pages written/s                  210 ││ █████████████████████████████        │
        │ from the dirty list/s      not known ││ █████████████████████████████        │
        │ for free pages/s           not known ││ █████████████████████████████        │
        │ to the doublewrite/s       not known ││ █████████████████████████████        │
        │ waits for free pages/s     not known ││ █████████████████████████████        │
        │                                      ││ █████████████████████████████        │
        │                                      ││ █████████████████████████████        │
        │                                      ││ █████████████████████████████        │
        │                                      ││ █████████████████████████████        │
        │                                      ││ █████████████████████████████        │
        │                                      ││ █████████████████████████████        │
        │▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁        ││ █████████████████████████████        │
        │██████████████████████████████        ││ █████████████████████████████        │
        │██████████████████████████████        ││ █████████████████████████████        │
        └──────────────────────────────────────┘└──────────────────────────────────────┘
         q quit   p pause   ← → or 1-4 views   ? help
    "#]]
    .assert_eq(&all);
}

#[test]
fn the_view_of_waits_in_80_x_24() {
    let mut state = state(30);
    state.key(Key::Previous);
    expect![[r#"
         MariaDB 10.11.19  mysql://root@localhost/  1 overview  2 log  3 pages  4 waits
         InnoDB will flush with full force in 4 s: the age has grown by 2 MiB/s for 27 s
        ┌ who waits for what ──────────────────┐┌ work; below: commits/s ──────────────┐
        │ wait for a row lock now          2.0 ││ connections                       17 │
        │ lock waits/s                      12 ││ running a statement        not known │
        │ at the age's limit/s       not known ││ statements/s               not known │
        │ delayed for the age        not known ││ commits/s                        900 │
        │ for a free page/s          not known ││ rollbacks/s                not known │
        │ for the log buffer/s       not known ││ rows read/s                not known │
        │ reads, writes, syncs now   not known ││ rows inserted/s                  100 │
        │ time in lock waits          9.0 ms/s ││ rows updated/s                   300 │
        │ deadlocks/s                not known ││ rows deleted/s                   100 │
        │ █████████████████████████████        ││ not yet purged             not known │
        │ █████████████████████████████        ││ █████████████████████████████        │
        │ █████████████████████████████        ││ █████████████████████████████        │
        │ █████████████████████████████        ││ █████████████████████████████        │
        │ █████████████████████████████        ││ █████████████████████████████        │
        │ █████████████████████████████        ││ █████████████████████████████        │
        │ █████████████████████████████        ││ █████████████████████████████        │
        │ █████████████████████████████        ││ █████████████████████████████        │
        │ █████████████████████████████        ││ █████████████████████████████        │
        │ █████████████████████████████        ││ █████████████████████████████        │
        └──────────────────────────────────────┘└──────────────────────────────────────┘
         q quit   p pause   ← → or 1-4 views   ? help
    "#]]
    .assert_eq(&shown(&state, (80, 24)));
}

#[test]
fn help_trouble_and_pause_are_seen() {
    let mut state = state(3);
    state.key(Key::Pause);
    state.fail(97_000_000, "no server answers on localhost:3306: Connection refused".to_owned());
    let text = shown(&state, (80, 24));
    assert!(text.contains("no sample for 3.00 s, trying again: no server answers"), "{text}");
    assert!(text.contains("PAUSED"), "{text}");
    state.key(Key::Help);
    assert!(shown(&state, (80, 24)).contains("hold the picture"));
}

#[test]
fn a_terminal_that_is_too_small_says_so_and_any_size_is_no_panic() {
    assert!(shown(&state(3), (79, 24)).contains("needs 80 x 24"));
    for size in [(1, 1), (3, 2), (80, 24), (81, 25), (250, 70), (80, 200), (400, 24)] {
        for view in 0..5 {
            let mut state = state(3);
            state.key(Key::Number(view));
            state.key(Key::Help);
            shown(&state, size);
        }
        shown(&State::new(String::new(), String::new()), size);
    }
}
