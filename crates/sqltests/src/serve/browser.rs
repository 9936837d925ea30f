//! A headless Chromium, driven over WebDriver by plain requests to Debian's chromedriver.

use super::http;
use crate::{make_dir, output};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What is needed of Debian.
pub(super) const PACKAGES: [&str; 2] = ["chromium", "chromium-driver"];
/// A driver ends by itself after so many seconds, even if the test is killed.
const LIFE: &str = "300";
/// The name that WebDriver gives to an element's id.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one page.
pub(super) struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts it, with an empty profile in a directory.
    pub(super) fn start(dir: &Path) -> Result<Browser, String> {
        make_dir(dir)?;
        let mut command = Command::new("timeout");
        command.args([LIFE, "chromedriver", "--port=0"]).stdin(Stdio::null()).stderr(Stdio::null());
        let started = command.stdout(Stdio::piped()).spawn();
        let mut driver = started.map_err(|e| format!("cannot start chromedriver: {e}"))?;
        let said = BufReader::new(driver.stdout.take().ok_or("chromedriver has no output")?);
        let port = said
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.split_once("successfully on port ")?.1.trim_end_matches('.').parse().ok())
            .ok_or("chromedriver does not start")?;
        let mut browser = Browser { driver, port, session: String::new() };
        let profile = format!("--user-data-dir={}", dir.display());
        let args = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1280,1000",
            &profile,
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": args },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let made = browser.ask("POST", "/session", &wanted)?;
        browser.session = format!("/session/{}", made["sessionId"].as_str().ok_or("a session has no id")?);
        Ok(browser)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let (status, text) = http::ask(self.port, method, path, "", &body)?;
        let value: Value = serde_json::from_str(&text).map_err(|e| format!("{path}: {e}: {text}"))?;
        match status {
            200 => Ok(value["value"].clone()),
            _ => Err(format!("{method} {path}: {}", value["value"]["message"].as_str().unwrap_or(&text))),
        }
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.ask("POST", &format!("{}/{path}", self.session), body)
    }

    /// Goes to a page.
    pub(super) fn go(&self, url: &str) -> Result<(), String> {
        self.post("url", &json!({ "url": url })).map(drop)
    }

    /// Runs a script in the page, and returns what it returns.
    pub(super) fn script(&self, script: &str) -> Result<Value, String> {
        self.post("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Returns an element's text as it is shown.
    pub(super) fn text(&self, css: &str) -> Result<String, String> {
        let text = self.script(&format!("return document.querySelector({css:?}).innerText"))?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Clicks on an element, as a user does: it must be in sight.
    pub(super) fn click(&self, css: &str) -> Result<(), String> {
        let found = self.post("element", &json!({ "using": "css selector", "value": css }))?;
        let id = found[ELEMENT].as_str().ok_or("an element has no id")?;
        self.post(&format!("element/{id}/click"), &json!({})).map(drop)
    }

    /// Presses a key.
    pub(super) fn press(&self, key: &str) -> Result<(), String> {
        let actions = json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        let keyboard = json!([{ "type": "key", "id": "keyboard", "actions": actions }]);
        self.post("actions", &json!({ "actions": keyboard })).map(drop)
    }

    /// Gives a command of the browser's own protocol.
    pub(super) fn command(&self, name: &str, params: &Value) -> Result<Value, String> {
        self.post("goog/cdp/execute", &json!({ "cmd": name, "params": params }))
    }

    /// Returns for how many seconds the page's main thread has worked in all.
    pub(super) fn main_thread_seconds(&self) -> Result<f64, String> {
        self.command("Performance.enable", &json!({}))?;
        let told = self.command("Performance.getMetrics", &json!({}))?;
        let metrics = told["metrics"].as_array().ok_or("there are no metrics")?;
        let found = metrics.iter().find(|metric| metric["name"] == "TaskDuration");
        found.and_then(|metric| metric["value"].as_f64()).ok_or("there is no TaskDuration".to_owned())
    }

    /// Returns what the page has complained about: errors, and what its policy has refused.
    pub(super) fn complaints(&self) -> Result<Vec<String>, String> {
        let log = self.post("se/log", &json!({ "type": "browser" }))?;
        let severe = log.as_array().into_iter().flatten().filter(|entry| entry["level"] == "SEVERE");
        Ok(severe.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect())
    }

    /// Chooses light or dark, and a width in pixels.
    pub(super) fn look(&self, scheme: &str, width: u32, height: u32) -> Result<(), String> {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.command("Emulation.setEmulatedMedia", &json!({ "features": features }))?;
        let mobile = width < 600;
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile });
        self.command("Emulation.setDeviceMetricsOverride", &size).map(drop)
    }

    /// Writes a picture of what is shown.
    pub(super) fn picture(&self, file: &Path) -> Result<(), String> {
        let encoded = self.ask("GET", &format!("{}/screenshot", self.session), &Value::Null)?;
        let text = file.with_extension("base64");
        crate::write(&text, encoded.as_str().unwrap_or_default())?;
        let decode = "base64 --decode \"$1\" > \"$2\" && rm \"$1\"";
        output(Command::new("sh").args(["-c", decode, "sh"]).arg(&text).arg(file)).map(drop)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.ask("DELETE", &self.session, &Value::Null);
        }
        let _ = output(Command::new("kill").arg(self.driver.id().to_string()));
        let _ = self.driver.wait();
    }
}
