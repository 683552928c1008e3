//! Agents: processes that run slices of one plan, and the one who leads them.
//!
//! An agent is `weir agent`: it hears orders on its standard input and speaks on its standard
//! output, a JSON object a line. So it makes no difference whether the pipes end in a process of
//! this host, in another network namespace, or at `ssh` or `kubectl exec`. It ends when its input
//! does.

mod fleet;
mod lead;
mod line;
mod merge;
mod serve;
mod ticks;

pub use fleet::{AgentCommand, Fleet};
pub use line::{Hello, PROTOCOL};
pub use serve::serve;
