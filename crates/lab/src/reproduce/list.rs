//! All experiments, and how they are found by name.

use super::about::About;
use super::finding::Finding;
use super::room::Room;
use super::{
    grid, inverted, io_bound, log_sizes, lru, napkin, placement, recovery, restore, suite, syncs, users,
    writes,
};
use output::failure::{Failure, Outcome};

/// An experiment.
pub(crate) struct Experiment {
    pub(crate) about: About,
    run: fn(&Room<'_>) -> Outcome<Finding>,
}

/// All experiments.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        about: About {
            id: "D0.B1",
            with: &[],
            article: "Saverio Miroddi, on InnoDB's redo log and its settings",
            claim: "The redo log alone in memory makes a schema's reload 14 times as fast, the data alone hardly faster",
        },
        run: placement::in_memory,
    },
    Experiment {
        about: About {
            id: "D0.B2",
            with: &["B33"],
            article: "Saverio Miroddi, on InnoDB's redo log and its settings",
            claim: "A restore of 2.3 GiB with 1 GiB of indexes becomes only a fifth faster if all files are in memory",
        },
        run: restore::table,
    },
    Experiment {
        about: About {
            id: "D0.B3",
            with: &[],
            article: "Saverio Miroddi, on InnoDB's redo log and its settings",
            claim: "The test suite of an application gains nothing from files in memory",
        },
        run: suite::in_memory,
    },
    Experiment {
        about: About {
            id: "D0.B4",
            with: &[],
            article: "Saverio Miroddi, on InnoDB's redo log and its settings",
            claim: "A redo log that is too small for the writes makes the server flush all the time, and costs throughput",
        },
        run: log_sizes::write_heavy,
    },
    Experiment {
        about: About {
            id: "D0.B32",
            with: &[],
            article: "Saverio Miroddi, on InnoDB's redo log and its settings",
            claim: "Settings under which the rate is steady are found by a search over dirty pages, io_capacity, doublewrite and log size",
        },
        run: grid::search,
    },
    Experiment {
        about: About {
            id: "D1.B6",
            with: &["B7", "B8", "B11"],
            article: "Krunal Bauskar, on flushing from the end of the LRU list in MariaDB",
            claim: "With half of the data in memory the rate is uneven, whatever innodb_io_capacity is",
        },
        run: io_bound::three_capacities,
    },
    Experiment {
        about: About {
            id: "D1.B9",
            with: &[],
            article: "Krunal Bauskar, on flushing from the end of the LRU list in MariaDB",
            claim: "With more pages written at a time at the end of the LRU list the rate is higher: 2048 on ARM, 1024 on x86",
        },
        run: lru::sizes,
    },
    Experiment {
        about: About {
            id: "D2.B19",
            with: &["B18", "B22"],
            article: "Simon Eskildsen, napkin math 10: MySQL transactions a second against fsyncs a second",
            claim: "One commit needs more than one fsync of 1 ms, yet 16 threads commit 5 300 times a second, because commits share their fsyncs",
        },
        run: napkin::inserts,
    },
    Experiment {
        about: About {
            id: "D2.B21",
            with: &["B20"],
            article: "Simon Eskildsen, napkin math 10: MySQL transactions a second against fsyncs a second",
            claim: "Most fsyncs take 0.4 ms and not the 1 ms of the rule, some far more; redo and binary log have nearly all of them",
        },
        run: syncs::by_file,
    },
    Experiment {
        about: About {
            id: "D2.B23",
            with: &[],
            article: "Simon Eskildsen, napkin math 10: MySQL transactions a second against fsyncs a second",
            claim: "A real server takes 5 000 to 15 000 writes a second",
        },
        run: writes::inserts,
    },
    Experiment {
        about: About {
            id: "D2.B28",
            with: &["B29", "B30", "B31"],
            article: "Simon Eskildsen, napkin math 9: the speed of an inverted index",
            claim: "AND and OR of lists of 2 and 1 million ids need 2.4 ms by computation",
        },
        run: inverted::queries,
    },
    Experiment {
        about: About {
            id: "D3.B13",
            with: &["B14"],
            article: "Percona, on how large the files of the redo log should be",
            claim: "A log of 2 GB instead of 15 GB costs about 20 % of the rate, and the server stalls for seconds",
        },
        run: log_sizes::two_logs,
    },
    Experiment {
        about: About {
            id: "D3.B15",
            with: &["B16", "B17"],
            article: "Percona, on how large the files of the redo log should be",
            claim: "Recovery takes about 2 minutes for each GB of redo, so a large log has its price after a crash",
        },
        run: recovery::minutes_per_gib,
    },
    Experiment {
        about: About {
            id: "D4.B24",
            with: &["B25", "B26"],
            article: "Dimitri Kravtchuk, on the doublewrite of MySQL 8.0.20",
            claim: "Where the pool is smaller than the data, the older doublewrite costs throughput from 64 users on",
        },
        run: users::three_pools,
    },
];

/// Returns the experiments of these names: `D3.B13`, `B13`, or `all`.
pub(crate) fn find(names: &[String]) -> Outcome<Vec<&'static Experiment>> {
    let mut found: Vec<&Experiment> = Vec::new();
    for name in names {
        let all = name.eq_ignore_ascii_case("all");
        let these: Vec<&Experiment> = EXPERIMENTS.iter().filter(|e| all || e.about.is_called(name)).collect();
        if these.is_empty() {
            let known: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.about.id).collect();
            return Err(Failure::misuse(format!("{name} is no experiment; there are {}", known.join(", "))));
        }
        for one in these {
            if !found.iter().any(|other| other.about.id == one.about.id) {
                found.push(one);
            }
        }
    }
    Ok(found)
}

impl Experiment {
    /// Runs it.
    pub(crate) fn run(&self, room: &Room<'_>) -> Outcome<Finding> {
        (self.run)(room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &[&str]) -> Vec<&'static str> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        find(&names).unwrap().into_iter().map(|experiment| experiment.about.id).collect()
    }

    #[test]
    fn experiments_are_found_by_each_of_their_names() {
        assert_eq!(found(&["b19"]), ["D2.B19"]);
        assert_eq!(found(&["D3.B16", "B13", "d3.b15"]), ["D3.B15", "D3.B13"]);
        assert_eq!(found(&["all"]).len(), EXPERIMENTS.len());
        assert!(find(&["D9.B13".to_owned()]).is_err());
    }
}
