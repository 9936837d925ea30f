//! `cargo xtask against COMMIT`: the same loads on this checkout and on another commit, in turns.
//! Each commit is built with its own profile; the program is that of this checkout in both.

use checkout::{cargo_program, git, root};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which commit, and how much.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The other commit
    commit: String,
    /// Turns of both
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Rows of the table
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    rows: u64,
    /// Seconds of each load
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Only loads whose names contain this, as `scans`
    #[arg(long, default_value = "")]
    only: String,
    /// Where the databases are made: a directory on the disk to measure [default: target/against]
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// What the program prints of each load: its name, and its two figures.
type Figures = Vec<(String, (f64, f64))>;
/// Of each load, for each round: operations a second, and nanoseconds of a processor for each.
type Rates = BTreeMap<String, Vec<(f64, f64)>>;

/// Builds both and runs them in turns.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let place = root().join("target/against");
    std::fs::create_dir_all(&place).map_err(|e| format!("{}: {e}", place.display()))?;
    let commit = git(&["rev-parse", "--short", &format!("{}^{{commit}}", args.commit)])
        .map_err(|_| format!("there is no commit {}", args.commit))?;
    let commit = commit.trim();
    let here = build(&root(), &root().join("target"))?;
    let there = build(&check_out(&place, commit)?, &place.join("target"))?;
    let dir = args.dir.clone().unwrap_or(place).join(format!("db-{}", std::process::id()));
    let (mut names, mut ours, mut theirs) = (Vec::new(), Rates::new(), Rates::new());
    for round in 0..args.rounds {
        println!("round {} of {}", round + 1, args.rounds);
        // Who begins changes, so neither always finds the device as the other has left it.
        let mut turns = [(&there, &mut theirs), (&here, &mut ours)];
        if round % 2 == 1 {
            turns.reverse();
        }
        for (program, rates) in turns {
            let lines = turn(program, &dir, args)?;
            names = lines.iter().map(|(name, _)| name.clone()).collect();
            lines.into_iter().for_each(|(name, rate)| rates.entry(name).or_default().push(rate));
        }
    }
    print(&names, &ours, &theirs, commit);
    Ok(())
}

/// Checks a commit out beside this checkout, with the program of this one. Returns its directory.
fn check_out(place: &Path, commit: &str) -> Result<PathBuf, String> {
    let tree = place.join(commit);
    if !tree.exists() {
        let path = tree.display().to_string();
        git(&["worktree", "prune"])?;
        git(&["worktree", "add", "--detach", "--force", &path, commit])?;
    }
    let (from, to) = (root().join("crates/against"), tree.join("crates/against"));
    std::fs::create_dir_all(to.join("src")).map_err(|e| format!("{}: {e}", to.display()))?;
    for file in ["Cargo.toml", "src/main.rs"] {
        std::fs::copy(from.join(file), to.join(file)).map_err(|e| format!("{}: {e}", to.display()))?;
    }
    Ok(tree)
}

/// Builds the program in a checkout. Returns its path.
fn build(tree: &Path, target: &Path) -> Result<PathBuf, String> {
    println!("building {}", tree.display());
    let status = Command::new(cargo_program())
        .args(["build", "--quiet", "--release", "--package", "against", "--target-dir"])
        .arg(target)
        .current_dir(tree)
        .status()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    let program = target.join("release/against");
    if status.success() { Ok(program) } else { Err(format!("{} cannot be built", tree.display())) }
}

/// Runs the program once. Returns its figures in their order.
fn turn(program: &Path, dir: &Path, args: &Args) -> Result<Figures, String> {
    let out = Command::new(program)
        .arg(dir)
        .args([&args.rows.to_string(), &args.seconds.to_string(), &args.only])
        .output()
        .map_err(|e| format!("cannot start {}: {e}", program.display()))?;
    let _ = std::fs::remove_dir_all(dir);
    if !out.status.success() {
        return Err(format!("{}: {}", program.display(), String::from_utf8_lossy(&out.stderr).trim()));
    }
    let text = String::from_utf8_lossy(&out.stdout);
    let figure = |line: &str| {
        let (name, figures) = line.rsplit_once(": ")?;
        let (rate, each) = figures.split_once(' ')?;
        Some((name.to_owned(), (rate.parse().ok()?, each.parse().ok()?)))
    };
    Ok(text.lines().filter_map(figure).collect())
}

/// Prints the medians, their ratio, and the least and greatest ratio of a round. A ratio above 1 is
/// better here. Processor time is steadier than rates while other programs run.
fn print(names: &[String], ours: &Rates, theirs: &Rates, commit: &str) {
    let (rates, times) = ("operations a second, medians", "nanoseconds of a processor for each");
    for (head, faster) in [(rates, true), (times, false)] {
        println!("{head:36} {commit:>12} {:>12} {:>6}  rounds", "here", "ratio");
        for name in names {
            let figures = |all: &Rates| -> Vec<f64> {
                all[name].iter().map(|(rate, each)| if faster { *rate } else { *each }).collect()
            };
            let (here, there) = (figures(ours), figures(theirs));
            let ratio = |here: f64, there: f64| if faster { here / there } else { there / here };
            let ratios = here.iter().zip(&there).map(|(here, there)| ratio(*here, *there));
            let (least, most) = ratios.fold((f64::MAX, 0.0f64), |(a, b), r| (a.min(r), b.max(r)));
            let (here, there) = (median(&here), median(&there));
            println!(
                "{name:36} {there:12.0} {here:12.0} {:6.2}  {least:.2} to {most:.2}",
                ratio(here, there)
            );
        }
    }
}

fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0])), (2.0, 2.5));
    }
}
