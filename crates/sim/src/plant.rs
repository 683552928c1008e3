//! Faults that the simulation's host commits on purpose, to show that the checkers find them.

use crate::chance::Chance;
use std::sync::Arc;
use weir_core::{Mail, SessionMail, SessionPart};
use weir_wire::PacketKind;

/// Every fault.
pub const PLANTS: &[Plant] = &[
    Plant::LoseLetter,
    Plant::LoseRetainLetter,
    Plant::LoseLeaveLetter,
    Plant::LoseReceipt,
    Plant::LoseRefusal,
    Plant::RepeatLetter,
    Plant::SwapLetters,
    Plant::LoseWrite,
    Plant::RepeatWrite,
    Plant::SwapWrites,
    Plant::ClearDup,
    Plant::SetDup,
    Plant::FixPacketId,
    Plant::FlipSessionPresent,
    Plant::ForgetTimeout,
    Plant::ForgetDrained,
    Plant::ForgetClosed,
    Plant::DisconnectAsCut,
    Plant::CutAsDisconnect,
    Plant::SlowClock,
    Plant::MisplaceVerdict,
    Plant::LoseParcel,
    Plant::AnswerEarly,
    Plant::LoseRecord,
    Plant::RepeatRecords,
    Plant::ForgetNoted,
    Plant::ForgetMailed,
    Plant::ForgetMarks,
    Plant::TakePartOfCopy,
    Plant::DivideInputs,
    Plant::ForgetEarly,
    Plant::TellOfPageEarly,
    Plant::FreePagesEarly,
    Plant::MisreadPage,
    Plant::KeepDeadPages,
    Plant::ForgetFetched,
    Plant::ForgetPaged,
    Plant::LoseCopy,
    Plant::AgeCopy,
    Plant::LoseInterest,
    Plant::MixInterests,
    Plant::MissNode,
    Plant::LoseClaim,
    Plant::LosePart,
    Plant::SwitchEarly,
    Plant::ForgetOthersMarks,
    Plant::ReplaceAsLost,
    Plant::LeaveEarly,
];

/// A fault.
#[expect(missing_docs, reason = "named as `name` says")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    LoseLetter,
    LoseRetainLetter,
    LoseLeaveLetter,
    LoseReceipt,
    LoseRefusal,
    RepeatLetter,
    SwapLetters,
    LoseWrite,
    RepeatWrite,
    SwapWrites,
    ClearDup,
    SetDup,
    FixPacketId,
    FlipSessionPresent,
    ForgetTimeout,
    ForgetDrained,
    ForgetClosed,
    DisconnectAsCut,
    CutAsDisconnect,
    SlowClock,
    MisplaceVerdict,
    LoseParcel,
    AnswerEarly,
    LoseRecord,
    RepeatRecords,
    ForgetNoted,
    ForgetMailed,
    ForgetMarks,
    TakePartOfCopy,
    DivideInputs,
    ForgetEarly,
    TellOfPageEarly,
    FreePagesEarly,
    MisreadPage,
    KeepDeadPages,
    ForgetFetched,
    ForgetPaged,
    LoseCopy,
    AgeCopy,
    LoseInterest,
    MixInterests,
    MissNode,
    LoseClaim,
    LosePart,
    SwitchEarly,
    ForgetOthersMarks,
    ReplaceAsLost,
    LeaveEarly,
}

impl Plant {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LoseLetter => "lose-letter",
            Self::LoseRetainLetter => "lose-retain-letter",
            Self::LoseLeaveLetter => "lose-leave-letter",
            Self::LoseReceipt => "lose-receipt",
            Self::LoseRefusal => "lose-refusal",
            Self::RepeatLetter => "repeat-letter",
            Self::SwapLetters => "swap-letters",
            Self::LoseWrite => "lose-write",
            Self::RepeatWrite => "repeat-write",
            Self::SwapWrites => "swap-writes",
            Self::ClearDup => "clear-dup",
            Self::SetDup => "set-dup",
            Self::FixPacketId => "fix-packet-id",
            Self::FlipSessionPresent => "flip-session-present",
            Self::ForgetTimeout => "forget-timeout",
            Self::ForgetDrained => "forget-drained",
            Self::ForgetClosed => "forget-closed",
            Self::DisconnectAsCut => "disconnect-as-cut",
            Self::CutAsDisconnect => "cut-as-disconnect",
            Self::SlowClock => "slow-clock",
            Self::MisplaceVerdict => "misplace-verdict",
            Self::LoseParcel => "lose-parcel",
            Self::AnswerEarly => "answer-early",
            Self::LoseRecord => "lose-record",
            Self::RepeatRecords => "repeat-records",
            Self::ForgetNoted => "forget-noted",
            Self::ForgetMailed => "forget-mailed",
            Self::ForgetMarks => "forget-marks",
            Self::TakePartOfCopy => "take-part-of-copy",
            Self::DivideInputs => "divide-inputs",
            Self::ForgetEarly => "forget-early",
            Self::TellOfPageEarly => "tell-of-page-early",
            Self::FreePagesEarly => "free-pages-early",
            Self::MisreadPage => "misread-page",
            Self::KeepDeadPages => "keep-dead-pages",
            Self::ForgetFetched => "forget-fetched",
            Self::ForgetPaged => "forget-paged",
            Self::LoseCopy => "lose-copy",
            Self::AgeCopy => "age-copy",
            Self::LoseInterest => "lose-interest",
            Self::MixInterests => "mix-interests",
            Self::MissNode => "miss-node",
            Self::LoseClaim => "lose-claim",
            Self::LosePart => "lose-part",
            Self::SwitchEarly => "switch-early",
            Self::ForgetOthersMarks => "forget-others-marks",
            Self::ReplaceAsLost => "replace-as-lost",
            Self::LeaveEarly => "leave-early",
        }
    }

    /// The fault of this name.
    pub fn of(name: &str) -> Option<Self> {
        PLANTS.iter().find(|plant| plant.name() == name).copied()
    }

    /// It is committed once in so many times that it can be.
    const fn rarity(self) -> usize {
        match self {
            // One that is not forgotten makes up for those that are.
            Self::ForgetDrained => 1,
            // It takes a late answer, and a key that is another's by then.
            Self::MisplaceVerdict => 1,
            // Another shard may say the same, or the publisher be gone.
            Self::LoseRefusal => 1,
            Self::AnswerEarly => 8,
            Self::MissNode | Self::LosePart | Self::SwitchEarly => 1,
            // A later version makes up for it.
            Self::AgeCopy => 2,
            _ if self.needs_crashes() || self.needs_copies() => 1,
            Self::LoseParcel => 4,
            Self::SwapLetters
            // The next receipt makes up for those that are lost before it.
            | Self::LoseReceipt
            | Self::DisconnectAsCut | Self::CutAsDisconnect => 2,
            Self::ClearDup | Self::SwapWrites | Self::ForgetTimeout | Self::ForgetClosed => 4,
            Self::FlipSessionPresent | Self::SlowClock => 10,
            _ => 20,
        }
    }

    /// Whether it can only be committed where the broker crashes.
    pub const fn needs_crashes(self) -> bool {
        matches!(
            self,
            Self::AnswerEarly
                | Self::LoseRecord
                | Self::RepeatRecords
                | Self::ForgetNoted
                | Self::ForgetMailed
                | Self::ForgetMarks
                | Self::TakePartOfCopy
                | Self::DivideInputs
                | Self::ForgetEarly
                | Self::TellOfPageEarly
                | Self::FreePagesEarly
                | Self::MisreadPage
                | Self::KeepDeadPages
                | Self::ForgetFetched
                | Self::ForgetPaged
        )
    }

    /// Whether it can only be committed between nodes.
    pub const fn needs_nodes(self) -> bool {
        matches!(
            self,
            Self::LoseCopy
                | Self::AgeCopy
                | Self::LoseInterest
                | Self::MixInterests
                | Self::MissNode
                | Self::LoseClaim
                | Self::LosePart
                | Self::SwitchEarly
        )
    }

    /// Whether it can only be committed where a node is lost whose log another has.
    pub const fn needs_copies(self) -> bool {
        matches!(self, Self::ForgetOthersMarks | Self::ReplaceAsLost | Self::LeaveEarly)
    }

    /// Whether it can only be committed between shards.
    pub const fn needs_shards(self) -> bool {
        matches!(
            self,
            Self::LoseLetter
                | Self::LoseRetainLetter
                | Self::LoseLeaveLetter
                | Self::LoseReceipt
                | Self::LoseRefusal
                | Self::RepeatLetter
                | Self::SwapLetters
                | Self::LoseParcel
        )
    }
}

/// Commits one kind of fault, now and then.
#[derive(Debug)]
pub(crate) struct Saboteur {
    plant: Option<Plant>,
    chance: Chance,
    /// The filter that a shard told others of last.
    interest: Option<Arc<str>>,
    /// Times it struck.
    pub(crate) count: usize,
}

impl Saboteur {
    /// One that commits `plant`, or nothing.
    pub(crate) fn new(plant: Option<Plant>, seed: u64) -> Self {
        Self { plant, chance: Chance::new(seed, u64::MAX), interest: None, count: 0 }
    }

    /// Whether to commit this fault now.
    pub(crate) fn strikes(&mut self, plant: Plant) -> bool {
        let rarity = plant.rarity();
        let is_struck = self.plant == Some(plant) && self.chance.one_in(rarity);
        self.count += usize::from(is_struck);
        is_struck
    }

    /// How many times a letter is to be delivered.
    pub(crate) fn letter(&mut self, mail: &mut Mail) -> usize {
        if let Mail::Copy { version, .. } = mail
            && self.strikes(Plant::AgeCopy)
        {
            version.count = 0;
        }
        match mail {
            Mail::Interest { filter, .. } => self.interest = Some(Arc::clone(filter)),
            Mail::InterestGone { filter } if self.strikes(Plant::MixInterests) => {
                // As if their hashes were equal, and nobody had looked.
                *filter = self.interest.clone().unwrap_or_else(|| Arc::clone(filter));
            }
            _ => {}
        }
        let is_leave = matches!(mail, Mail::Left { .. } | Mail::InterestGone { .. });
        let is_claim = matches!(mail, Mail::Session(SessionMail::Claim { .. }));
        let is_part = matches!(
            mail,
            Mail::Session(SessionMail::Part {
                part: SessionPart::State(_) | SessionPart::Queue(_),
                ..
            })
        );
        let is_lost = matches!(mail, Mail::Publish { .. }) && self.strikes(Plant::LoseLetter)
            || matches!(mail, Mail::Retain { .. }) && self.strikes(Plant::LoseRetainLetter)
            || matches!(mail, Mail::Receipt { .. }) && self.strikes(Plant::LoseReceipt)
            || matches!(mail, Mail::Refused { .. }) && self.strikes(Plant::LoseRefusal)
            || matches!(mail, Mail::Copy { .. }) && self.strikes(Plant::LoseCopy)
            || matches!(mail, Mail::Interest { .. }) && self.strikes(Plant::LoseInterest)
            || is_claim && self.strikes(Plant::LoseClaim)
            || is_part && self.strikes(Plant::LosePart)
            || is_leave && self.strikes(Plant::LoseLeaveLetter);
        let is_publish = matches!(mail, Mail::Publish { .. });
        match (is_lost, is_publish && self.strikes(Plant::RepeatLetter)) {
            (true, _) => 0,
            (false, true) => 2,
            (false, false) => 1,
        }
    }

    /// What becomes of a packet that a shard writes: none, one or two of it.
    pub(crate) fn write(&mut self, bytes: &mut [u8]) -> usize {
        let kind = bytes[0] >> 4;
        let is_publish = kind == PacketKind::Publish as u8;
        let has_id = is_publish && bytes[0] & 0b110 != 0;
        if has_id && bytes[0] & DUP != 0 && self.strikes(Plant::ClearDup) {
            bytes[0] &= !DUP;
        }
        if has_id && bytes[0] & DUP == 0 && self.strikes(Plant::SetDup) {
            bytes[0] |= DUP;
        }
        if has_id && self.strikes(Plant::FixPacketId) {
            let at = 4 + usize::from(bytes[3]);
            // Every packet of the simulation is short, so its length takes one byte or two.
            let at = if bytes[1] < 0x80 { at } else { 5 + usize::from(bytes[4]) };
            bytes[at..at + 2].copy_from_slice(&[0, 1]);
        }
        if kind == PacketKind::ConnAck as u8 && self.strikes(Plant::FlipSessionPresent) {
            bytes[2] ^= 1;
        }
        if self.strikes(Plant::LoseWrite) {
            0
        } else if is_publish && self.strikes(Plant::RepeatWrite) {
            2
        } else {
            1
        }
    }
}

const DUP: u8 = 0b1000;
