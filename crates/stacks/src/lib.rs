//! `weir bench clients`: what a message costs a client library, with a JSON parser beside it.
//!
//! A stack is a folder with a `stack.toml` and a small program, the adapter, that speaks the line
//! protocol of `adapter`. The feed comes from the replay server ([`replay`]), a process of its own,
//! so that no broker's cost is in the figures. `catalog` finds stacks, `setup` installs them,
//! `session` measures one, `run` all of them in turn, `record` keeps, `table` and `page` show.
//! [`weir_stack`] is one of the stacks, and [`null_stack`] the one that calibrates.

mod adapter;
mod catalog;
mod installed;
mod knee;
pub mod null_stack;
mod page;
mod published;
mod record;
pub mod replay;
mod replay_process;
mod run;
mod session;
mod setup;
mod summary;
mod table;
pub mod weir_stack;

pub use adapter::AdapterError;
pub use catalog::{CatalogError, Folder, Stack, Workflow, choose, folders, render_list};
pub use page::html;
pub use published::{PublishedStack, published};
pub use record::{Clients, KneeFound, Point, SCHEMA, Settings, StackUsed, Standing};
pub use run::{ClientsOptions, read, run};
pub use setup::{SetUp, setup};
pub use table::render;
