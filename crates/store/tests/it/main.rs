//! The log against disks that fail.

mod crashes;
mod drive;
mod folder;
mod groups;
mod harness;
mod open;
mod pages;
mod reclaim;
