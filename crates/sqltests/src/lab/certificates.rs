//! Certificates: makes them, and checks that the program accepts a good one and refuses all others.

use super::place::{Lab, start};
use super::runs::refused;
use crate::steps::expect;
use crate::{output, server};
use std::process::Command;

/// Makes a private key and a certificate of it, signed by `authority`, or by itself as an
/// authority.
pub(super) fn certificate(lab: &Lab<'_>, name: &str, authority: Option<&str>) -> Result<(), String> {
    let (key, certificate) = (format!("{name}.key"), format!("{name}.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    openssl.args(["-days", "2", "-subj", &format!("/CN={name}"), "-keyout", &key, "-out", &certificate]);
    if let Some(authority) = authority {
        openssl.args(["-CA", &format!("{authority}.pem"), "-CAkey", &format!("{authority}.key")]);
        openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        openssl.args(["-addext", "subjectAltName=DNS:localhost"]);
    }
    output(openssl.current_dir(lab.dir))?;
    // For the user of the server.
    output(Command::new("chmod").arg("a+r").arg(lab.dir.join(&key))).map(drop)
}

pub(super) fn verified(lab: &Lab<'_>) -> Result<(), String> {
    certificate(lab, "authority", None)?;
    certificate(lab, "other", None)?;
    certificate(lab, "server", Some("authority"))?;
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let port = free.map_err(|e| format!("no port is free: {e}"))?.port();
    let file = |name: &str| lab.dir.join(name).display().to_string();
    let dir = lab.dir.join("tls");
    let (certificate, key) = (file("server.pem"), file("server.key"));
    let options = [
        "--skip-networking=0",
        "--bind-address=127.0.0.1",
        &format!("--port={port}"),
        &format!("--ssl-cert={certificate}"),
        &format!("--ssl-key={key}"),
    ];
    let server = start(lab.base.as_deref(), &dir, &options)?;
    let user = "CREATE USER safe@'%' IDENTIFIED BY 'right' REQUIRE SSL; GRANT ALL ON *.* TO safe@'%'";
    let outcome = output(server.client().args(["--execute", user])).and_then(|_| {
        let age = |host: &str, tls: &str| {
            let mut command = lab.millpond(&["age", &format!("mysql://safe@{host}:{port}/{tls}")]);
            command.env("MYSQL_PWD", "right");
            command
        };
        let trusted = format!("?ca={}", file("authority.pem"));
        expect("a good certificate", &output(&mut age("localhost", &trusted))?, "checkpoint age")?;
        let doubt = "is not accepted";
        let unknown = format!("?ca={}", file("other.pem"));
        expect("another authority", &refused(&mut age("localhost", &unknown))?.1, doubt)?;
        expect("no authority", &refused(&mut age("localhost", "?tls=verify"))?.1, doubt)?;
        expect("another name", &refused(&mut age("127.0.0.1", &trusted))?.1, doubt)?;
        expect("no encryption", &refused(&mut age("localhost", ""))?.1, "does not let the user safe in")?;
        loads(lab, port, &trusted, &unknown)
    });
    outcome.and(server::stop(&dir))
}

/// Loads run over TLS too, on each connection, and over nothing else if it was asked for.
fn loads(lab: &Lab<'_>, port: u16, trusted: &str, unknown: &str) -> Result<(), String> {
    let run = |tls: &str| {
        let target = format!("mysql://safe@localhost:{port}/{tls}");
        let mut command = lab.millpond(&["run", "read-write", "--target", &target, "--engine", "InnoDB"]);
        command.args(["--tables", "1", "--rows", "500", "--threads", "3", "--warmup", "0", "--seconds", "1"]);
        command.env("MYSQL_PWD", "right");
        command
    };
    // The user is let in over TLS only, so all connections have it.
    expect("a load over TLS", &output(&mut run(trusted))?, "sbtest was made for this run")?;
    expect("a load, another authority", &refused(&mut run(unknown))?.1, "is not accepted")?;
    expect("a load, no encryption", &refused(&mut run(""))?.1, "does not let the user safe in")
}
