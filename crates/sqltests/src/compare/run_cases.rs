//! Runs cases, and shortens and prints those that show a difference.

use crate::compare::answer::{Answer, Outcome, equal};
use crate::compare::case::{Step, script};
use crate::compare::generate;
use crate::compare::locks;
use crate::compare::minimise::shortest;
use crate::compare::permitted;
use crate::compare::replica;
use crate::compare::world::{MILLPOND, World};
use crate::differences::{OF_STATEMENTS, Permitted};
use base::prng::Prng;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How many findings end a run.
const FINDINGS: u64 = 5;

/// What a run is asked to do.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) socket: PathBuf,
    pub(crate) seed: u64,
    pub(crate) statements: u64,
    pub(crate) limit: Duration,
    /// Only this case of the seed.
    pub(crate) only: Option<u64>,
    /// The socket of a replica.
    pub(crate) replica: Option<PathBuf>,
}

/// How a case went.
struct Played {
    statements: u64,
    permitted: Vec<Permitted>,
    difference: Option<Difference>,
}

/// A statement whose outcomes differ.
#[derive(Clone)]
struct Difference {
    at: usize,
    outcomes: [Outcome; 2],
}

/// Runs cases until enough statements were compared, or the time is over.
pub(crate) fn run(plan: &Plan) -> Result<(), String> {
    let began = Instant::now();
    let (mut statements, mut findings, mut cases) = (0, 0, 0);
    let mut permitted: BTreeMap<Permitted, u64> = BTreeMap::new();
    let mut number = plan.only.unwrap_or(0);
    while statements < plan.statements && began.elapsed() < plan.limit && findings < FINDINGS {
        let steps = generate::case(seed_of(plan.seed, number));
        let played = play(&plan.socket, &steps).map_err(|e| format!("case {number}: {e}"))?;
        cases += 1;
        statements += played.statements;
        for found in &played.permitted {
            *permitted.entry(*found).or_default() += 1;
        }
        if let Some(difference) = played.difference {
            findings += 1;
            println!("== case {number} of seed {} differs", plan.seed);
            report(&plan.socket, &steps, &difference);
        }
        if let Some(replica) = &plan.replica {
            let differ =
                replica::compare(&plan.socket, replica).map_err(|e| format!("case {number}: {e}"))?;
            for found in differ {
                if found.engine != MILLPOND {
                    *permitted.entry(OF_STATEMENTS).or_default() += 1;
                    continue;
                }
                findings += 1;
                println!("== after case {number} of seed {} the replica's tables differ", plan.seed);
                println!("{}{}", found.what, script(&steps));
            }
        }
        if plan.only.is_some() {
            break;
        }
        number += 1;
    }
    let seconds = began.elapsed().as_secs();
    println!("seed {}: {statements} statements of {cases} cases in {seconds} s", plan.seed);
    for (found, count) in permitted {
        println!("permitted, {count} times: {}", found.reason);
    }
    match findings {
        0 => Ok(()),
        _ => Err(format!("{findings} cases differ")),
    }
}

/// Returns the seed of a case of a run.
fn seed_of(seed: u64, number: u64) -> u64 {
    Prng::new(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).next_u64()
}

/// Runs a script, and fails if its statements differ.
pub(crate) fn replay(socket: &Path, steps: &[Step]) -> Result<(), String> {
    let played = play(socket, steps).map_err(|e| e.to_string())?;
    match played.difference {
        None => {
            println!("{} statements are equal", played.statements);
            Ok(())
        }
        Some(difference) => {
            print(steps, &difference);
            Err("the script differs".to_owned())
        }
    }
}

/// Runs statements in fresh databases up to the first difference that is not permitted.
fn play(socket: &Path, steps: &[Step]) -> std::io::Result<Played> {
    let mut world = World::new(socket)?;
    let together = steps.iter().any(|step| step.session != 'a');
    let mut played = Played { statements: 0, permitted: Vec::new(), difference: None };
    for (at, step) in steps.iter().enumerate() {
        let outcomes = world
            .run(step)
            .map_err(|e| std::io::Error::new(e.kind(), format!("{e}, at: {}: {}", step.session, step.sql)))?;
        played.statements += 1;
        let [innodb, millpond] = &outcomes;
        if same(step, innodb, millpond) {
            match locks::hidden(step, innodb, &mut world) {
                None => continue,
                Some(permitted) => {
                    played.permitted.push(permitted);
                    break;
                }
            }
        }
        match permitted::find(step, &outcomes, together, &mut world) {
            None => {
                played.difference = Some(Difference { at, outcomes });
                break;
            }
            Some(permitted) => {
                played.permitted.push(permitted);
                locks::note(step, &mut world);
                if permitted.is_lasting() {
                    break;
                }
            }
        }
    }
    Ok(played)
}

fn same(step: &Step, innodb: &Outcome, millpond: &Outcome) -> bool {
    if !step.loose {
        return equal(innodb, millpond, step.order);
    }
    let codes = |outcome: &Outcome| {
        let mut codes: Vec<_> = outcome.warnings.iter().map(|row| row.get(1).cloned()).collect();
        codes.sort();
        codes.dedup();
        codes
    };
    match (&innodb.answer, &millpond.answer) {
        (Answer::Failed { code: a, .. }, Answer::Failed { code: b, .. }) => a == b,
        (Answer::Done { affected: a, .. }, Answer::Done { affected: b, .. }) => {
            a == b && codes(innodb) == codes(millpond)
        }
        _ => equal(innodb, millpond, step.order),
    }
}

/// Shortens and prints a case.
fn report(socket: &Path, steps: &[Step], difference: &Difference) {
    let short = shortest(&steps[..=difference.at], |steps| {
        play(socket, steps).is_ok_and(|played| played.difference.is_some_and(|d| d.at + 1 == steps.len()))
    });
    match play(socket, &short) {
        Ok(Played { difference: Some(difference), .. }) => print(&short, &difference),
        Ok(_) => {
            println!("it does not come again; the last statement:");
            print(&steps[difference.at..=difference.at], &Difference { at: 0, ..difference.clone() });
        }
        Err(error) => println!("{error}"),
    }
}

fn print(steps: &[Step], difference: &Difference) {
    let [innodb, millpond] = &difference.outcomes;
    print!("{}InnoDB:\n{innodb}Millpond:\n{millpond}", script(&steps[..=difference.at]));
}
