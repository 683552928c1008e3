//! The broker of one shard as a value: input in, output into a sink, `now` given.
//!
//! No socket, clock, thread, lock or random source. [`Shard`] is told what happened (`opened`,
//! `received`, `drained`, `closed`, `mail`, `handle_timeout`) and writes what follows into a
//! [`Sink`]: the shell's connection outputs, or a simulator's record. Shards talk by [`Mail`] only.
//!
//! With [`Shard::keep_log`] every change of what outlives a crash is a [`Record`] for
//! [`Sink::log`], and an answer that promises it waits for [`Shard::committed`].

mod aliases;
mod anew;
mod answers;
mod ask;
mod auth;
mod base;
mod bounds;
mod claims;
mod clients;
mod conditions;
mod content;
mod copied;
mod drain;
mod encoder;
mod features;
mod few;
mod keys;
mod letter;
mod limits;
mod log;
mod mail;
mod message;
mod name;
mod outbox;
mod own;
mod page;
mod pages;
mod paging;
mod parcel;
mod partitions;
mod pool;
mod queue;
mod rebuild;
mod receipts;
mod record;
mod replays;
mod retained;
mod rights;
mod routing;
mod rules;
mod session;
mod settings;
mod shard;
mod shard_set;
mod share;
mod shares;
mod shrink;
mod sink;
mod stats;
mod text;
mod timers;
mod undelivered;
mod unreceived;
mod watched;
mod wheel;
mod window;

pub use ask::{
    ClientPage, ClientState, ConnectionState, Kicked, MessagePage, NotPublished, Outlook,
    OwnMessage, SubscriptionPage, SubscriptionState,
};
pub use auth::{AuthRequest, AuthStep, Terms, Unwelcome, Verdict};
pub use base::Renamed;
pub use content::{
    ConditionEvaluator, ConditionQuery, Content, CostlyCondition, Derived, InvalidCondition, Rules,
    Warning,
};
pub use drain::Drain;
pub use features::Features;
pub use keys::{
    Claim, ConnKey, Lsn, Micros, Origin, PageId, PageTicket, ShardId, Stamp, Ticket, Version,
};
pub use limits::quotas::{QUOTAS, Quota, Walk, Whose, quotas_as_text, walked_by};
pub use limits::{Limits, WhenAbsent, WhenConnected};
pub use mail::{
    GroupPick, LogMail, Mail, NotRetained, RetainedPage, RetainedQuery, SessionMail, SessionPart,
};
pub use message::Message;
pub use outbox::{Handling, MailTarget, Mark};
pub use page::{BadPage, PageIn, PageOut};
pub use paging::{PageSizes, PagedBounds};
pub use parcel::Parcel;
pub use partitions::{Partition, PartitionSet, Partitions};
pub use rebuild::{NoPage, Rebuild, Unfit};
pub use record::{BadRecord, Record, Wall, WillRecord};
pub use rights::{
    Grant, NoFilter, OwnRights, OwnRules, Policy, PolicyBuilder, SysReaders, Voucher,
};
pub use settings::Settings;
pub use shard::{Awaited, NotMoved, OWN_CLIENT_IDS, Shard};
pub use shard_set::SHARDS_MAX;
pub use share::{SharePolicy, ShareRule, ShareStrategy};
pub use shares::share_of;
pub use sink::{Notice, Shortage, Sink};
pub use stats::{ByReason, Stats};
pub use undelivered::Undelivered;
