//! The statements that a server runs when it is killed: `scenes.sessions`.

/// The name of the part that makes the tables.
const SETUP: &str = "setup";
/// What the name of a scene says that begins without them.
const EMPTY: &str = "begins empty";
const TEXT: &str = include_str!("scenes.sessions");

/// A step of a scene, in a connection with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Runs a statement.
    Run(char, String),
    /// Ends the connection.
    Leave(char),
}

impl Step {
    /// Returns the name of the connection.
    pub(super) fn session(&self) -> char {
        match self {
            Step::Run(session, _) | Step::Leave(session) => *session,
        }
    }

    /// Returns the statement.
    pub(super) fn statement(&self) -> &str {
        match self {
            Step::Run(_, statement) => statement,
            Step::Leave(_) => "(the connection ends)",
        }
    }
}

/// Statements of one or several connections.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) name: String,
    pub(super) steps: Vec<Step>,
}

impl Scene {
    /// Returns the names of its connections.
    pub(super) fn sessions(&self) -> Vec<char> {
        let mut names: Vec<char> = self.steps.iter().map(Step::session).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the statements that make what it begins with.
    pub(super) fn setup(&self) -> String {
        if self.name.contains(EMPTY) {
            return "CREATE DATABASE gone; CREATE TABLE gone.t (id INT PRIMARY KEY); INSERT INTO gone.t \
                    VALUES (1); DROP DATABASE gone"
                .into();
        }
        let setup = all().into_iter().filter(|scene| scene.name == SETUP).flat_map(|scene| scene.steps);
        setup.map(|step| step.statement().to_owned() + ";").collect()
    }
}

/// Returns all scenes.
pub(super) fn scenes() -> Vec<Scene> {
    all().into_iter().filter(|scene| scene.name != SETUP).collect()
}

fn all() -> Vec<Scene> {
    let mut scenes: Vec<Scene> = Vec::new();
    for line in TEXT.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            scenes.push(Scene { name: name.to_owned(), steps: Vec::new() });
        } else if let (Some(scene), Some(step)) = (scenes.last_mut(), step_of(line)) {
            scene.steps.push(step);
        }
    }
    scenes
}

/// Reads `a: STATEMENT` or `a.`; other lines are comments.
fn step_of(line: &str) -> Option<Step> {
    let session = line.chars().next().filter(char::is_ascii_lowercase)?;
    match line.get(1..)? {
        "." => Some(Step::Leave(session)),
        rest => rest.strip_prefix(": ").map(|statement| Step::Run(session, statement.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_a_scene_is_a_step() {
        let lines = TEXT.lines().skip_while(|line| !line.starts_with("## "));
        let wanted = lines.filter(|line| !line.starts_with("## ") && !line.is_empty()).count();
        assert_eq!(all().iter().map(|scene| scene.steps.len()).sum::<usize>(), wanted);
        assert!(scenes().iter().all(|scene| !scene.steps.is_empty() && scene.name != SETUP));
    }

    #[test]
    fn a_connection_that_has_ended_is_not_used_again() {
        for scene in scenes() {
            for (n, step) in scene.steps.iter().enumerate() {
                let Step::Leave(session) = step else { continue };
                let later = scene.steps[n + 1..].iter().find(|step| step.session() == *session);
                assert_eq!(later, None, "{}", scene.name);
            }
        }
    }
}
