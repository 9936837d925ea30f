//! Servers and databases with trouble and calm ones, and what is said of them.

mod innodb;
mod pond;
mod script;
mod targets;
