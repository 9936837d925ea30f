//! The program: one workload at one level, as long as wanted.

use history::check::check;
use history::elle;
use history::run::{Plan, run};
use history::stress;
use history::workload::Workload;
use millpond::Isolation;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const HELP: &str = "\
history: transactions at once on the real engine, and whether what they were told fits their isolation level

  history [--workload W] [--isolation L] [--transactions N] [--threads T] [--seed S] [--cuts]
    --workload W       append, register, bank, fork, range, or all (all)
    --isolation L      read-committed, repeatable-read, or serializable (serializable)
    --transactions N   for each workload (200000)
    --threads T        clients at once (8)
    --seed S           what the transactions do (1)
    --cuts             cut the power every few thousand transactions; workload append

  history stress [--seconds S] [--threads T] [--groups N] [--pool-kib N] [--dir DIR] [--seed S]
                       transactions of all kinds at all levels on the real disk, with a buffer pool far smaller than the data
    --seconds S        for so long (60)
    --threads T        clients at once (64)
    --groups N         groups of rows, each about 20 KB (6000)
    --pool-kib N       the buffer pool (1024)
    --dir DIR          where; must not exist; removed if nothing is found (stress-PID)
    --seed S           what the clients do (1)

Exit status 0 if all that was found is allowed at the level, 1 if not, 2 for wrong arguments.";

fn parse() -> Result<Option<(Vec<Workload>, Plan)>, String> {
    let mut plan = Plan {
        workload: Workload::Append,
        isolation: Isolation::Serializable,
        threads: 8,
        transactions: 200_000,
        seed: 1,
        cuts: false,
    };
    let mut workloads = Workload::ALL.to_vec();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        if arg == "--help" || arg == "-h" {
            return Ok(None);
        }
        if arg == "--cuts" {
            plan.cuts = true;
            continue;
        }
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        let number = |text: String| match text.parse::<u64>() {
            Ok(n) if n > 0 => Ok(n),
            _ => Err(format!("{text}: not a positive number")),
        };
        match &arg[..] {
            "--workload" => {
                let name = value()?;
                if name != "all" {
                    workloads.retain(|w| w.name() == name);
                }
                if workloads.is_empty() {
                    return Err(format!("there is no workload {name}"));
                }
            }
            "--isolation" => {
                plan.isolation = match &value()?[..] {
                    "read-committed" => Isolation::ReadCommitted,
                    "repeatable-read" => Isolation::RepeatableRead,
                    "serializable" => Isolation::Serializable,
                    other => return Err(format!("there is no isolation level {other}")),
                }
            }
            "--transactions" => plan.transactions = number(value()?)?,
            "--threads" => plan.threads = number(value()?)?,
            "--seed" => plan.seed = number(value()?)?,
            other => return Err(format!("there is no option {other}; --help lists them")),
        }
    }
    if plan.cuts {
        workloads.retain(|w| *w == Workload::Append);
        if workloads.is_empty() {
            return Err("--cuts needs the workload append".into());
        }
    }
    Ok(Some((workloads, plan)))
}

fn parse_stress(mut args: impl Iterator<Item = String>) -> Result<Option<stress::Plan>, String> {
    let mut plan = stress::Plan {
        dir: format!("stress-{}", std::process::id()).into(),
        threads: 64,
        time: Duration::from_secs(60),
        groups: 6_000,
        pool_bytes: 1 << 20,
        redo_bytes: 64 << 20,
        seed: 1,
    };
    while let Some(arg) = args.next() {
        if arg == "--help" || arg == "-h" {
            return Ok(None);
        }
        let value = args.next().ok_or(format!("{arg} needs a value"))?;
        let number = |most: u64| match value.parse::<u64>() {
            Ok(n) if (1..=most).contains(&n) => Ok(n),
            _ => Err(format!("{arg} {value}: not a number from 1 to {most}")),
        };
        match &arg[..] {
            "--seconds" => plan.time = Duration::from_secs(number(1_000_000)?),
            "--threads" => plan.threads = number(10_000)?,
            "--groups" => plan.groups = number(100_000_000)? as u32,
            "--pool-kib" => plan.pool_bytes = number(1 << 30)? << 10,
            "--dir" => plan.dir = value.into(),
            "--seed" => plan.seed = number(u64::MAX)?,
            other => return Err(format!("there is no option {other}; --help lists them")),
        }
    }
    if plan.dir.exists() {
        return Err(format!("{} is there already", plan.dir.display()));
    }
    Ok(Some(plan))
}

fn main_stress() -> ExitCode {
    match parse_stress(std::env::args().skip(2)) {
        Ok(None) => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        Ok(Some(plan)) => match stress::run(&plan) {
            Ok(report) => {
                println!("{report}");
                ExitCode::SUCCESS
            }
            Err(what) => {
                eprintln!("history: {what} (left in {})", plan.dir.display());
                ExitCode::FAILURE
            }
        },
        Err(what) => {
            eprintln!("history: {what}");
            ExitCode::from(2)
        }
    }
}

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|word| word == "stress") {
        return main_stress();
    }
    let (workloads, plan) = match parse() {
        Ok(Some(parsed)) => parsed,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(what) => {
            eprintln!("history: {what}");
            return ExitCode::from(2);
        }
    };
    let mut clean = true;
    for workload in workloads {
        let plan = Plan { workload, ..plan.clone() };
        let start = Instant::now();
        let history = run(&plan);
        let ran = start.elapsed().as_secs_f64();
        let verdict = check(&history);
        let took = start.elapsed().as_secs_f64() - ran;
        println!(
            "{} at {:?}: {} of {} transactions committed, {} dependencies, {} power cuts; ran {ran:.1} s, checked {took:.1} s",
            workload.name(),
            plan.isolation,
            verdict.txns,
            history.txns.len(),
            verdict.edges,
            history.cuts,
        );
        println!("  shows {:?}", verdict.found.keys().collect::<Vec<_>>());
        for (anomaly, example) in verdict.forbidden(plan.isolation) {
            clean = false;
            println!("  {anomaly:?} is not allowed:\n{example}");
        }
        // Appends of a level that loses updates are no appends to who believes in lists.
        let weak = plan.isolation == Isolation::ReadCommitted && workload == Workload::Append;
        match elle::ask(&history, plan.isolation) {
            Ok(against) if against.is_empty() => println!("  adya: valid"),
            Ok(against) => {
                println!("  adya: {against:?}");
                clean &= weak;
            }
            Err(why) => println!("  adya: {why}"),
        }
    }
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
