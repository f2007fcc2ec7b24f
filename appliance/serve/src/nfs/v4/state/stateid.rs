//! Stateids, and who sends them.

/// `stateid4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct StateId {
    pub seqid: u32,
    pub other: [u8; 12],
}

impl StateId {
    /// The anonymous stateid: no state.
    pub const ANONYMOUS: Self = Self { seqid: 0, other: [0; 12] };
    /// The READ bypass stateid, which ignores share reservations.
    pub const BYPASS: Self = Self { seqid: u32::MAX, other: [0xff; 12] };
    /// The current stateid of the compound (4.1).
    pub const CURRENT: Self = Self { seqid: 1, other: [0; 12] };
    /// The invalid stateid, which CLOSE returns (4.1).
    pub const INVALID: Self = Self { seqid: u32::MAX, other: [0; 12] };

    pub(super) fn index(&self) -> (u32, u64) {
        let (epoch, index) = self.other.split_at(4);
        let epoch = u32::from_be_bytes(epoch.try_into().expect("4 bytes"));
        (epoch, u64::from_be_bytes(index.try_into().expect("8 bytes")))
    }

    pub(super) fn is_special(&self) -> bool {
        self.other == [0; 12] || self.other == [0xff; 12]
    }
}

/// The sender of a request, for checking the owner of a stateid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// 4.0: the stateid alone identifies its owner.
    Any,
    /// 4.1: the client of the session.
    Client(u64),
}
